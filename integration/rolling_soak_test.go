//go:build soak

package integration

import (
	"os"
	"path/filepath"
	"testing"

	"warren/integration/cluster"
)

// TestRollingRestart is the same with a copy of this build, so that the procedure is tried where the history is not at hand.
func TestRollingRestart(t *testing.T) {
	again := filepath.Join(t.TempDir(), "warren")
	content, err := os.ReadFile(cluster.Binary(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(again, content, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, nodes := range []int{3, 2} {
		c := cluster.Start(t, nodes)
		c.Ctl(1, mirrorAll...)
		declareQueue(t, c, 1, "orders")
		mirrorsListed(t, c, 1, "orders", nodes-1)
		rollUnderLoad(t, c, again)
	}
}
