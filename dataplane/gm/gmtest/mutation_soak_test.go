//go:build soak

package gmtest

import (
	"cmp"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
)

// TestFindMutations prints the table anew from FIND histories (1000) for each rule, or one line of it with RULE=OldToken. It prefers
// violations of I1 to I7. A rule that only a script showed and a history shows now, or the other way round, is for the table.
func TestFindMutations(t *testing.T) {
	limit, err := strconv.ParseUint(cmp.Or(os.Getenv("FIND"), "1000"), 10, 64)
	if err != nil {
		t.Fatalf("FIND is a number of histories: %v", err)
	}
	for _, m := range mutations {
		if only := os.Getenv("RULE"); only != "" && only != m.rule.String() {
			continue
		}
		var seed uint64
		var sees string
		for s := uint64(1); s <= limit && !strings.HasPrefix(sees, "I"); s++ {
			if _, err := Run(s, Options{Mutation: m.rule}); err != nil {
				v := err.(Violation)
				if seed == 0 || strings.HasPrefix(v.Rule, "I") {
					seed, sees = s, v.Rule
				}
			}
			if seed > 0 && s > seed+300 {
				break
			}
		}
		fmt.Println(line(m.rule.String(), m.text, seed, sees))
		if found, known := seed > 0, m.seed > 0; found != known && m.seed <= limit {
			t.Errorf("%v: noticed by one of %d histories: %t, but the table's seed is %d", m.rule, limit, found, m.seed)
		}
	}
}
