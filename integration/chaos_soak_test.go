//go:build soak

package integration

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"warren/integration/cluster"
)

// TestChaos runs random failures under load for CHAOS minutes (20); CHAOS_SEED repeats a run's choices,
// CHAOS_ONLY limits the failures to those with that in their name, CHAOS_LOGS keeps the logs of a run that failed.
func TestChaos(t *testing.T) {
	minutes := number(t, "CHAOS", 20)
	seed := uint64(time.Now().UnixNano())
	if s, err := strconv.ParseUint(os.Getenv("CHAOS_SEED"), 10, 64); err == nil {
		seed = s
	}
	t.Logf("CHAOS_SEED=%d", seed)
	x := newChaos(t, cluster.Start(t, 3), seed)
	end := time.Now().Add(time.Duration(minutes * float64(time.Minute)))
	for round := 1; time.Now().Before(end) && !t.Failed(); round++ {
		x.wait(x.some(2 * time.Second))
		f := failures[x.rng.IntN(len(failures))]
		if only := os.Getenv("CHAOS_ONLY"); !strings.Contains(f.name, only) {
			continue
		}
		t.Logf("%s round %d: %s", time.Now().Format("15:04:05.000"), round, f.name)
		x.round(f.name)
	}
}
