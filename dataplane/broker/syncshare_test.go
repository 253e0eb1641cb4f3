package broker

import "testing"

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
