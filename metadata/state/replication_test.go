package state

import (
	"fmt"
	"testing"
)

const (
	haAll      = `{"ha-mode":"all"}`
	haTwo      = `{"ha-mode":"exactly","ha-params":2}`
	whenSynced = `{"ha-mode":"all","ha-promote-on-failure":"when-synced"}`
)

func TestNewMirroredQueue(t *testing.T) {
	m := newMachine(t, "c", "a", "b")
	m.policy("ha", "^", haAll)
	q := m.declare("q", "b")
	m.expect(q.ID, "running b e1: a+ b+ c+") // one join index: age ties by node name
	if q.ViewVersion != q.ID || q.Members[0].JoinIndex != q.ID || q.Policy != "ha" {
		t.Errorf("view %d, first member %+v, policy %q", q.ViewVersion, q.Members[0], q.Policy)
	}
	all, synced := q.Mirrors()
	if fmt.Sprint(all, synced) != "[a c] [a c]" {
		t.Errorf("Mirrors = %v %v", all, synced)
	}
}

func TestMasterDies(t *testing.T) {
	m := newMachine(t, "a", "b", "c")
	m.policy("ha", "^", haAll)
	q := m.declare("q", "a")
	m.down(ReasonFailure, "a")
	m.expect(q.ID, "running b e2: b+ c+ a/")
	if got := m.queue(q.ID).ViewVersion; got != m.index {
		t.Errorf("view version %d, index %d", got, m.index)
	}
	m.up("a", 2)
	m.expect(q.ID, "running b e2: b+ c+ a.")
	view := m.queue(q.ID).ViewVersion
	m.refused(&MirrorReady{Queue: q.ID, Node: "a", Incarnation: 1}, ErrStale)
	m.ready(q.ID, "a")
	m.expect(q.ID, "running b e2: b+ c+ a-") // back as the youngest
	m.refused(&MirrorSynchronised{Queue: q.ID, Node: "a", Incarnation: 2, JoinIndex: m.index, View: view}, ErrStale)
	m.index--
	m.synchronised(q.ID, "a")
	m.expect(q.ID, "running b e2: b+ c+ a+")
}

func TestMirrorDies(t *testing.T) {
	m := newMachine(t, "a", "b", "c")
	m.policy("ha", "^", haAll)
	q := m.declare("q", "a")
	m.down(ReasonFailure, "b")
	m.expect(q.ID, "running a e1: a+ c+ b/")
}

// The oldest synchronised mirror is promoted, not the oldest (promise 3).
func TestPromotionPrefersSynchronised(t *testing.T) {
	m := newMachine(t, "a", "b", "c")
	m.policy("ha", "^", haAll)
	q := m.declare("q", "a")
	mem, _ := q.Member("b")
	m.ok(&MirrorUnsynchronised{Queue: q.ID, Node: "b", Incarnation: 1, JoinIndex: mem.JoinIndex, Reason: "damage"})
	m.down(ReasonFailure, "a")
	m.expect(q.ID, "running c e2: b- c+ a/")
}

func unsynchronisedMirror(m *machine, definition string) uint64 {
	m.policy("ha", "^", definition)
	q := m.declare("q", "a")
	for _, n := range []string{"b", "c"} {
		if mem, ok := m.queue(q.ID).Member(n); ok {
			m.ok(&MirrorUnsynchronised{Queue: q.ID, Node: n, Incarnation: 1, JoinIndex: mem.JoinIndex})
		}
	}
	return q.ID
}

// The four rows of the table for "none synchronised".
func TestPromotionTable(t *testing.T) {
	for _, c := range []struct {
		definition string
		reason     Reason
		want       string
	}{
		{haAll, ReasonFailure, "running b e2: b+ c- a/ loss:2"},
		{haAll, ReasonShutdown, "down a e1: a/ b. c. last:a"},
		{whenSynced, ReasonFailure, "down a e1: a/ b. c. last:a"},
		{`{"ha-mode":"all","ha-promote-on-shutdown":"always"}`, ReasonShutdown, "running b e2: b+ c- a/ loss:2"},
		{`{"ha-mode":"all","ha-promote-on-failure":"when-synced","ha-promote-on-shutdown":"always"}`, ReasonShutdown, "down a e1: a/ b. c. last:a"},
	} {
		m := newMachine(t, "a", "b", "c")
		id := unsynchronisedMirror(m, c.definition)
		m.down(c.reason, "a")
		m.expect(id, c.want)
	}
}

func TestDownQueueReturns(t *testing.T) {
	m := newMachine(t, "a", "b", "c")
	id := unsynchronisedMirror(m, whenSynced)
	m.down(ReasonFailure, "a")
	m.refused(&DeclareQueue{Vhost: "/", Name: "q", Durable: true, Node: "b"}, ErrQueueDown)
	r, _ := m.apply(&DeclareQueue{Vhost: "/", Name: "q", Durable: true, Node: "b"})
	if want := "home node 'a' of durable queue 'q' in vhost '/' is down or inaccessible"; r.Err.Error() != want {
		t.Errorf("text %q", r.Err)
	}
	m.refused(&RecoverQueue{Queue: id, Epoch: 1, Node: "b", Incarnation: 1}, ErrStale) // it does not vouch
	m.refused(&MirrorReady{Queue: id, Node: "b", Incarnation: 1}, ErrQueueDown)
	m.up("a", 2)
	m.expect(id, "down a e1: a. b. c. last:a")
	m.ok(&RecoverQueue{Queue: id, Epoch: 1, Node: "a", Incarnation: 2})
	m.expect(id, "running a e2: a+ b. c. last:a")
	m.refused(&RecoverQueue{Queue: id, Epoch: 1, Node: "a", Incarnation: 2}, ErrStale)
	m.ok(&MasterActing{Queue: id, Epoch: 2, Node: "a", Incarnation: 2})
	m.expect(id, "running a e2: a+ b. c.")
	m.ready(id, "b")
	m.expect(id, "running a e2: a+ b- c.")
}

// An operator may take what is there: from one who vouches without a loss, from another with one.
func TestPromotedByHand(t *testing.T) {
	m := newMachine(t, "a", "b", "c")
	id := unsynchronisedMirror(m, whenSynced)
	m.refused(&PromoteMirror{Queue: id, Epoch: 1, Node: "b", Incarnation: 1}, ErrStale) // it is running
	m.down(ReasonFailure, "a")
	m.refused(&PromoteMirror{Queue: id, Epoch: 1, Node: "a", Incarnation: 1}, ErrStale)
	m.refused(&PromoteMirror{Queue: id, Epoch: 2, Node: "b", Incarnation: 1}, ErrStale)
	m.ok(&PromoteMirror{Queue: id, Epoch: 1, Node: "c", Incarnation: 1})
	m.expect(id, "running c e2: c+ a/ b. loss:2")

	m = newMachine(t, "a", "b", "c")
	m.policy("ha", "^", haAll)
	id = m.declare("q", "a").ID
	m.down(ReasonFailure, "a", "b", "c")
	m.up("b", 2)
	m.ok(&PromoteMirror{Queue: id, Epoch: 1, Node: "b", Incarnation: 2})
	m.expect(id, "running b e2: b+ a/ c/ last:a last:b last:c")
}

// After a power failure any of those who were synchronised may recover the queue, also after a revived master died at once.
func TestPowerFailure(t *testing.T) {
	m := newMachine(t, "a", "b", "c")
	m.policy("ha", "^", haAll)
	q := m.declare("q", "a")
	m.down(ReasonFailure, "a", "b", "c")
	m.expect(q.ID, "down a e1: a/ b/ c/ last:a last:b last:c")
	m.up("c", 2)
	m.expect(q.ID, "down a e1: a/ b/ c. last:a last:b last:c")
	m.ok(&RecoverQueue{Queue: q.ID, Epoch: 1, Node: "c", Incarnation: 2})
	m.down(ReasonFailure, "c")
	m.expect(q.ID, "down c e2: a/ b/ c/ last:a last:b last:c")
	m.up("b", 2)
	m.ok(&RecoverQueue{Queue: q.ID, Epoch: 2, Node: "b", Incarnation: 2})
	m.ok(&MasterActing{Queue: q.ID, Epoch: 3, Node: "b", Incarnation: 2})
	m.down(ReasonFailure, "b")
	m.expect(q.ID, "down b e3: a/ b/ c/ last:b") // what it did alone, only it has
}

func TestNobodyVouches(t *testing.T) {
	m := newMachine(t, "a", "b")
	m.policy("ha", "^", haAll)
	q := m.declare("q", "a")
	m.down(ReasonFailure, "a", "b")
	m.up("a", 2)
	m.up("b", 2)
	m.ok(&MirrorUnsynchronised{Queue: q.ID, Node: "a", Incarnation: 2, JoinIndex: q.ID, Reason: "empty disk"})
	m.expect(q.ID, "down a e1: a. b. last:b")
	m.ok(&MirrorUnsynchronised{Queue: q.ID, Node: "b", Incarnation: 2, JoinIndex: q.ID, Reason: "empty disk"})
	m.expect(q.ID, "running a e2: a+ b. loss:2")
}

// A named master that knows better than the record does not act, and another one is chosen.
func TestMasterKnowsBetter(t *testing.T) {
	m := newMachine(t, "a", "b", "c")
	m.policy("ha", "^", haAll)
	q := m.declare("q", "a")
	m.down(ReasonFailure, "a")
	m.ok(&MirrorUnsynchronised{Queue: q.ID, Node: "b", Incarnation: 1, JoinIndex: q.ID})
	m.expect(q.ID, "running c e3: c+ a/ b.")
	m.ok(&MirrorUnsynchronised{Queue: q.ID, Node: "c", Incarnation: 1, JoinIndex: q.ID})
	m.expect(q.ID, "running c e4: c+ a/ b. loss:4") // nobody else is in the view
}

func TestPlannedMove(t *testing.T) {
	m := newMachine(t, "a", "b", "c")
	m.policy("ha", "^", haAll)
	q := m.declare("q", "a")
	m.ok(&TransferMaster{Queue: q.ID, Epoch: 1, To: "b"})
	m.expect(q.ID, "running b e2: a+ b+ c+")
	if got := m.queue(q.ID); got.ViewVersion != q.ViewVersion {
		t.Errorf("a move changed the view: %d", got.ViewVersion)
	}
	m.refused(&KeepMaster{Queue: q.ID, Epoch: 2, Node: "a"}, ErrStale)
	m.ok(&KeepMaster{Queue: q.ID, Epoch: 3, Node: "b"})
	m.expect(q.ID, "running b e3: a+ b+ c+")
	m.refused(&TransferMaster{Queue: q.ID, Epoch: 2, To: "a"}, ErrStale)
	m.refused(&TransferMaster{Queue: q.ID, Epoch: 3, To: "b"}, ErrStale)
}

func TestDropMirror(t *testing.T) {
	m := newMachine(t, "a", "b", "c")
	m.policy("ha", "^", haAll)
	q := m.declare("q", "a")
	m.refused(&DropMirror{Queue: q.ID, Node: "b", JoinIndex: q.ID, View: 1}, ErrStale)
	m.refused(&DropMirror{Queue: q.ID, Node: "a", JoinIndex: q.ID, View: q.ViewVersion}, ErrStale)
	m.ok(&DropMirror{Queue: q.ID, Node: "b", JoinIndex: q.ID, View: q.ViewVersion})
	m.expect(q.ID, "running a e1: a+ c+ b.")
	m.ready(q.ID, "b")
	m.expect(q.ID, "running a e1: a+ c+ b-")
	m.ok(&DropMirror{Queue: q.ID, Node: "c", JoinIndex: q.ID, View: m.index})
	m.refused(&DropMirror{Queue: q.ID, Node: "a", JoinIndex: q.ID, View: m.index - 1}, ErrStale)
	m.refused(&DropMirror{Queue: q.ID, Node: "a", JoinIndex: q.ID, View: m.queue(q.ID).ViewVersion}, ErrLastSynchronised)
}

func TestPolicyComesAndGoes(t *testing.T) {
	m := newMachine(t, "a", "b", "c")
	q := m.declare("q", "a")
	m.expect(q.ID, "running a e1: a+")
	m.policy("ha", "^", haTwo)
	m.expect(q.ID, "running a e1: a+ b.")
	if m.queue(q.ID).ViewVersion != q.ViewVersion {
		t.Error("an assigned mirror is not in the view")
	}
	m.ready(q.ID, "b")
	m.policy("ha", "^", haAll)
	m.expect(q.ID, "running a e1: a+ b- c.")
	m.ready(q.ID, "c")
	m.synchronised(q.ID, "c")
	m.policy("ha", "^", haTwo)
	m.expect(q.ID, "running a e1: a+ c+") // the unsynchronised one went, though it is older
	m.ok(&ClearPolicy{Vhost: "/", Name: "ha"})
	m.expect(q.ID, "running a e1: a+")
	if got := m.queue(q.ID); got.HasPolicy || got.Effective != nil || got.ViewVersion != m.index {
		t.Errorf("after clear: %+v", got)
	}
}

func TestExactlyKeepsPlaceAndReplaces(t *testing.T) {
	m := newMachine(t, "a", "b", "c")
	m.policy("ha", "^", haTwo)
	q := m.declare("q", "a")
	m.expect(q.ID, "running a e1: a+ b+")
	m.down(ReasonFailure, "b")
	m.expect(q.ID, "running a e1: a+ b/")
	m.ok(&ReplaceMirror{Queue: q.ID, Node: "b"})
	m.expect(q.ID, "running a e1: a+ b/ c.")
	m.refused(&ReplaceMirror{Queue: q.ID, Node: "b"}, ErrStale)
	m.ready(q.ID, "c")
	m.up("b", 2)
	m.expect(q.ID, "running a e1: a+ b.") // back before the stand-in was synchronised
	m.down(ReasonFailure, "b")
	m.ok(&ReplaceMirror{Queue: q.ID, Node: "b"})
	m.ready(q.ID, "c")
	m.synchronised(q.ID, "c")
	m.expect(q.ID, "running a e1: a+ c+")
}

func TestExclusiveAndTransient(t *testing.T) {
	m := newMachine(t, "a", "b")
	m.policy("ha", "^", haAll)
	owner := Owner{Node: "a", Incarnation: 1, Connection: 7}
	x := m.ok(&DeclareQueue{Vhost: "/", Name: "x", Exclusive: true, Owner: owner, Node: "a"}).Queue
	m.expect(x, "running a e1: a+")
	other := Owner{Node: "b", Incarnation: 1, Connection: 8}
	m.refused(&DeclareQueue{Vhost: "/", Name: "x", Exclusive: true, Owner: other, Node: "b"}, ErrLocked)
	m.refused(&DeleteQueue{Vhost: "/", Name: "x", Owner: other}, ErrLocked)
	mirrored := m.ok(&DeclareQueue{Vhost: "/", Name: "t", Node: "a"}).Queue
	m.ok(&ClearPolicy{Vhost: "/", Name: "ha"})
	alone := m.ok(&DeclareQueue{Vhost: "/", Name: "alone", Node: "a"}).Queue
	m.policy("ha", "^t$", haAll)
	m.ready(mirrored, "b")
	m.ok(&Bind{Binding: Binding{Vhost: "/", Source: "amq.fanout", Kind: KindQueue, Destination: "alone"}})
	m.down(ReasonFailure, "a")
	for _, id := range []uint64{x, alone} {
		if _, ok := m.s.QueueByID(id); ok {
			t.Errorf("queue %d has no living copy, but is still there", id)
		}
	}
	if n := len(m.s.Bindings("/")); n != 0 {
		t.Errorf("%d bindings left", n)
	}
	m.expect(mirrored, "running b e2: b+ a/ loss:2")
	m.down(ReasonFailure, "b")
	if _, ok := m.s.QueueByID(mirrored); ok {
		t.Error("a transient queue outlived its copies")
	}
}

// A node that returns before anybody noticed that it was gone is closed first.
func TestNodeUpClosesOldIncarnation(t *testing.T) {
	m := newMachine(t, "a", "b")
	m.policy("ha", "^", haAll)
	q := m.declare("q", "a")
	m.up("a", 2)
	m.expect(q.ID, "running b e2: b+ a.")
	m.up("a", 2) // repeated
	m.expect(q.ID, "running b e2: b+ a.")
	m.refused(&NodeUp{Node: "a", Incarnation: 1}, ErrStale)
	m.refused(&NodesDown{Nodes: []DownNode{{Node: "a", Incarnation: 1}}}, ErrStale)
}

func TestNodesPolicyMovesMaster(t *testing.T) {
	m := newMachine(t, "a", "b", "c")
	q := m.declare("q", "a")
	m.policy("ha", "^", `{"ha-mode":"nodes","ha-params":["b","c"]}`)
	m.expect(q.ID, "running a e1: a+ b. c.")
	m.ready(q.ID, "b")
	if _, ok := m.queue(q.ID).MoveTo(); ok {
		t.Error("moves to one that is not synchronised")
	}
	m.synchronised(q.ID, "b")
	if to, ok := m.queue(q.ID).MoveTo(); to != "b" || !ok {
		t.Errorf("MoveTo = %q, %v", to, ok)
	}
	m.ok(&TransferMaster{Queue: q.ID, Epoch: 1, To: "b"})
	m.expect(q.ID, "running b e2: a+ b+ c.") // a stays until c is synchronised, too
	m.ready(q.ID, "c")
	m.synchronised(q.ID, "c")
	m.expect(q.ID, "running b e2: b+ c+")
	n := m.declare("n", "a")
	m.expect(n.ID, "running b e1: b+ c+") // placed on a listed node at once
}
