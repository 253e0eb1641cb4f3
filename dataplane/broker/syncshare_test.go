package broker

import (
	"testing"
	"time"
)

// What several queues have under way to a node adds up, and there is room again when they have less, or end.
func TestSyncShare(t *testing.T) {
	var s syncShare
	to := []underway{{node: "b"}, {node: "c"}}
	if !s.room(to) {
		t.Fatal("no room at the beginning")
	}
	half := []underway{{"b", syncAheadShare / 2, 10}}
	s.replace(nil, half)
	if !s.room(to) {
		t.Error("no room beside one queue")
	}
	s.replace(nil, half)
	if s.room(to) || !s.room([]underway{{node: "c"}}) {
		t.Error("two queues that fill the link to b: room there, or none to c")
	}
	less := []underway{{"b", 0, 10}, {"c", 0, syncUnstoredShare}}
	s.replace(half, less)
	if s.room(to) || !s.room([]underway{{node: "b"}}) {
		t.Error("room at c's disk, or none on the link to b")
	}
	s.replace(less, nil)
	s.replace(half, nil)
	if !s.room(to) || len(s.nodes) != 0 {
		t.Errorf("left over: %v", s.nodes)
	}
}

// However many synchronisations wait for room, together they do not look more often than a few thousand times a second.
func TestSyncRetry(t *testing.T) {
	if got := syncRetryOf(1); got != syncRetry {
		t.Errorf("one alone looks again after %v", got)
	}
	for _, waiting := range []int{10, 100, 1000, 10_000} {
		if perSecond := float64(waiting) * float64(time.Second) / float64(syncRetryOf(waiting)); perSecond > 3500 {
			t.Errorf("%d look %.0f times a second", waiting, perSecond)
		}
	}
}
