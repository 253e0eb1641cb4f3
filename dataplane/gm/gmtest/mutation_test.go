package gmtest

import (
	"os"
	"testing"

	"warren/dataplane/gm/internal/mutation"
)

func TestFind(t *testing.T) {
	if os.Getenv("FIND") == "" {
		t.Skip()
	}
	for r := mutation.ProgressAlone; r <= mutation.ForgetAtOnce; r++ {
		found := 0
		for seed := uint64(1); seed <= 10000 && found < 3; seed++ {
			if _, err := Run(seed, Options{Mutation: r}); err != nil {
				t.Logf("%d: seed %d %v", r, seed, err)
				found++
			}
		}
		if found == 0 {
			t.Errorf("%d: none", r)
		}
	}
}
