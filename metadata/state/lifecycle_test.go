package state

import (
	"strings"
	"testing"
)

// A node in maintenance keeps what it has, gets nothing new, and stays in maintenance over a restart.
func TestDraining(t *testing.T) {
	m := newMachine(t, "a", "b", "c")
	m.policy("ha", "^ha", `{"ha-mode":"all"}`)
	old := m.declare("ha1", "a")
	m.ok(&SetDraining{Node: "b", On: true})
	fresh := m.declare("ha2", "a")
	if _, ok := m.queue(old.ID).Member("b"); !ok {
		t.Error("the drained node lost its mirror")
	}
	if _, ok := m.queue(fresh.ID).Member("b"); ok {
		t.Error("the drained node got a new mirror")
	}
	m.down(ReasonShutdown, "b")
	m.up("b", 2)
	if n, _ := m.s.Node("b"); n.Status != NodeDraining {
		t.Errorf("after a restart it is %s", n.Status)
	}
	m.ok(&SetDraining{Node: "b"})
	if _, ok := m.queue(fresh.ID).Member("b"); !ok {
		t.Error("the revived node got no mirror")
	}
	m.refused(&SetDraining{Node: "x", On: true}, ErrNotFound)
	m.down(ReasonShutdown, "b")
	m.ok(&SetDraining{Node: "b", On: true})
	if n, _ := m.s.Node("b"); n.Status != NodeStopped || !n.Draining {
		t.Errorf("%+v", n)
	}
}

func TestForgetNode(t *testing.T) {
	m := newMachine(t, "a", "b", "c")
	m.policy("ha", "^ha", `{"ha-mode":"nodes","ha-params":["a","b"],"ha-promote-on-shutdown":"when-synced"}`)
	q, alone := m.declare("ha1", "a"), m.declare("alone", "a")
	m.refused(&ForgetNode{Node: "a"}, ErrInUse)
	m.refused(&ForgetNode{Node: "x"}, ErrNotFound)
	// Both copies vouch for the queue when both nodes are lost at once; b comes back and waits for a.
	m.synchronised(q.ID, "b")
	m.down(ReasonFailure, "a", "b")
	m.up("b", 2)
	if got := m.queue(q.ID); got.Status != QueueDown || got.Master != "a" {
		t.Fatalf("%s", show(got))
	}
	m.ok(&ForgetNode{Node: "a"})
	got := m.queue(q.ID)
	if got.Status != QueueRunning || got.Master != "b" || got.LastLossEpoch != 0 || len(got.Members) != 1 {
		t.Errorf("%s, loss in %d", show(got), got.LastLossEpoch)
	}
	if _, ok := m.s.QueueByID(alone.ID); ok {
		t.Error("a queue that nobody has a copy of is still there")
	}
	if _, ok := m.s.Node("a"); ok {
		t.Error("the node is still known")
	}
}

// An unsynchronised mirror takes over only where the promotion table lets it; a queue whose other copies are down waits for them.
func TestForgetNodeOfUnsynchronised(t *testing.T) {
	for _, tc := range []struct{ failure, want string }{
		{"always", "running b"}, {"when-synced", "down b"},
	} {
		m := newMachine(t, "a", "b", "c")
		m.policy("ha", "^ha", `{"ha-mode":"exactly","ha-params":2,"ha-promote-on-failure":"`+tc.failure+`"}`)
		q := m.declare("ha1", "a")
		m.ok(&MirrorUnsynchronised{Queue: q.ID, Node: "b", Incarnation: 1, JoinIndex: q.ID})
		m.down(ReasonShutdown, "a")
		m.ok(&ForgetNode{Node: "a"})
		if got := show(m.queue(q.ID)); !strings.HasPrefix(got, tc.want) {
			t.Errorf("%s: %s", tc.failure, got)
		}
	}
	m := newMachine(t, "a", "b", "c")
	m.policy("ha", "^ha", `{"ha-mode":"nodes","ha-params":["a","b"]}`)
	q := m.declare("ha1", "a")
	m.down(ReasonFailure, "a", "b")
	m.ok(&ForgetNode{Node: "a"})
	if got := m.queue(q.ID); got.Status != QueueDown || got.Master != "b" {
		t.Fatalf("%s", show(got))
	}
	m.up("b", 2)
	m.ok(&RecoverQueue{Queue: q.ID, Epoch: m.queue(q.ID).Epoch, Node: "b", Incarnation: 2})
}

func TestFeaturesAreChecked(t *testing.T) {
	m := newMachine(t)
	m.ok(&NodeUp{Node: "a", Incarnation: 1, Versions: Versions{Features: SupportedFeatures()}})
	m.up("old", 1)
	m.refused(&EnableFeature{Names: []string{FeatureLifecycle}}, ErrFeature)
	m.down(ReasonShutdown, "old")
	m.refused(&EnableFeature{Names: []string{FeatureLifecycle}}, ErrFeature)
	m.ok(&NodeUp{Node: "old", Incarnation: 2, Versions: Versions{Features: SupportedFeatures()}})
	m.ok(&EnableFeature{Names: []string{FeatureLifecycle}})
	m.refused(&NodeUp{Node: "older", Incarnation: 1}, ErrFeature)
	if !m.s.FeatureEnabled(FeatureLifecycle) || m.s.FeatureEnabled(FeatureOperators) {
		t.Error(m.s.Features())
	}
	s, err := Load(m.snapshot())
	if err != nil || !s.FeatureEnabled(FeatureLifecycle) {
		t.Errorf("after a snapshot %v, %v", s.Features(), err)
	}
}
