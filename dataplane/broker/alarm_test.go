package broker

import (
	"math"
	"testing"
)

// Operators set a limit of 0 to block publishers (set_vm_memory_high_watermark 0): the collector must not take half of the processor
// for what it cannot reach.
func TestCollectorLimit(t *testing.T) {
	for limit, want := range map[uint64]int64{
		0: math.MaxInt64, 1 << 20: math.MaxInt64, 100_000_000: 80_000_000, 1_000_000_000: 800_000_000,
	} {
		if got := collectorLimit(limit); got != want {
			t.Errorf("a memory limit of %d: the collector strives for %d, want %d", limit, got, want)
		}
	}
}
