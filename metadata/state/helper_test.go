package state

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"warren/metadata/policy"
)

// machine drives a State through encoded commands, as Raft does.
type machine struct {
	t     testing.TB
	s     *State
	index uint64
}

func newMachine(t *testing.T, nodes ...string) *machine {
	m := &machine{t: t, s: New()}
	m.ok(&InitCluster{ID: "id", Name: "test", User: "guest", PasswordHash: HashPassword([4]byte{1, 2, 3, 4}, "guest")})
	for _, n := range nodes {
		m.up(n, 1)
	}
	return m
}

func (m *machine) apply(cmd Command) (Result, []Change) {
	m.t.Helper()
	if p := Gather(cmd, m.s); p != nil {
		var err error
		if cmd, err = p.Complete(never); err != nil {
			m.t.Fatal(err)
		}
	}
	data, err := Encode(cmd, Request{})
	if err != nil {
		m.t.Fatal(err)
	}
	m.index++
	return m.s.Apply(m.index, data)
}

func (m *machine) ok(cmd Command) Result {
	m.t.Helper()
	r, _ := m.apply(cmd)
	if r.Err != nil {
		m.t.Fatalf("%T: %v", cmd, r.Err)
	}
	m.check()
	return r
}

func (m *machine) refused(cmd Command, want *Error) {
	m.t.Helper()
	before := m.snapshot()
	r, changes := m.apply(cmd)
	if !errors.Is(r.Refusal(), want) {
		m.t.Fatalf("%T: %v, want code %d", cmd, r.Err, want.Code)
	}
	m.s.index--
	if len(changes) != 0 || string(before) != string(m.snapshot()) {
		m.t.Fatalf("%T: a refusal changed the state", cmd)
	}
	m.s.index++
}

func (m *machine) snapshot() []byte {
	m.t.Helper()
	data, err := m.s.Image().Encode()
	if err != nil {
		m.t.Fatal(err)
	}
	return data
}

func (m *machine) up(node string, incarnation uint64) {
	m.t.Helper()
	m.ok(&NodeUp{Node: node, Incarnation: incarnation, Addresses: Addresses{AMQP: node + ":5672", Internode: node + ":25672"}})
}

func (m *machine) down(reason Reason, places ...string) {
	m.t.Helper()
	c := &NodesDown{}
	for _, p := range places {
		n, _ := m.s.Node(p)
		c.Nodes = append(c.Nodes, DownNode{Node: p, Incarnation: n.Incarnation, Reason: reason})
	}
	m.ok(c)
}

func (m *machine) policy(name, pattern, definition string) {
	m.t.Helper()
	d, err := policy.Parse(definition, false)
	if err != nil {
		m.t.Fatal(err)
	}
	m.ok(&SetPolicy{Policy: Policy{Vhost: "/", Name: name, Pattern: pattern, ApplyTo: policy.ApplyToAll, Definition: d}})
}

func (m *machine) declare(name, node string) *Queue {
	m.t.Helper()
	r := m.ok(&DeclareQueue{Vhost: "/", Name: name, Durable: true, Node: node})
	return m.queue(r.Queue)
}

func (m *machine) queue(id uint64) *Queue {
	m.t.Helper()
	q, ok := m.s.QueueByID(id)
	if !ok {
		m.t.Fatalf("queue %d is gone", id)
	}
	return q
}

func (m *machine) ready(id uint64, node string) {
	m.t.Helper()
	mem, _ := m.queue(id).Member(node)
	m.ok(&MirrorReady{Queue: id, Node: node, Incarnation: mem.Incarnation})
}

func (m *machine) synchronised(id uint64, node string) {
	m.t.Helper()
	q := m.queue(id)
	mem, _ := q.Member(node)
	m.ok(&MirrorSynchronised{Queue: id, Node: node, Incarnation: mem.Incarnation, JoinIndex: mem.JoinIndex, View: q.ViewVersion})
}

// show is a queue in one line: "running a e1: a+ b- c. d/ last[a]".
func show(q *Queue) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s e%d:", q.Status, q.Master, q.Epoch)
	for _, m := range q.Members {
		mark := map[MemberState]string{MemberUp: "-", MemberAway: "/", MemberJoining: "."}[m.State]
		if m.Synchronised {
			mark = "+"
		}
		fmt.Fprintf(&b, " %s%s", m.Node, mark)
	}
	for _, p := range q.LastSynchronised {
		fmt.Fprintf(&b, " last:%s", p.Node)
	}
	if q.LastLossEpoch > 0 {
		fmt.Fprintf(&b, " loss:%d", q.LastLossEpoch)
	}
	return b.String()
}

func (m *machine) expect(id uint64, want string) {
	m.t.Helper()
	if got := show(m.queue(id)); got != want {
		m.t.Fatalf("queue is\n %s, want\n %s", got, want)
	}
}

// check are the invariants of every reachable state.
func (m *machine) check() {
	m.t.Helper()
	for _, q := range m.s.Queues() {
		if err := invariants(m.s, q); err != nil {
			m.t.Fatalf("index %d, %s: %v", m.index, show(q), err)
		}
	}
	if m.index%8 != 0 {
		return // what follows is slow
	}
	loaded, err := Load(m.snapshot())
	if err != nil {
		m.t.Fatal(err)
	}
	for _, n := range m.s.Nodes() {
		if loaded.replicas[n.Name] != m.s.replicas[n.Name] || loaded.masters[n.Name] != m.s.masters[n.Name] {
			m.t.Fatalf("index %d: counts of %s drifted", m.index, n.Name)
		}
	}
}

func invariants(s *State, q *Queue) error {
	seen := map[string]bool{}
	var last ViewMember
	for _, v := range q.View() {
		n, ok := s.Node(v.Node)
		if !ok || !n.Status.Up() || n.Incarnation != v.Incarnation {
			return fmt.Errorf("%s/%d is in the view, but not up", v.Node, v.Incarnation)
		}
		if v.JoinIndex < last.JoinIndex || v.JoinIndex == last.JoinIndex && v.Node < last.Node {
			return errors.New("view is not in age order")
		}
		last = v
	}
	for _, mem := range q.Members {
		if seen[mem.Node] {
			return fmt.Errorf("%s has two places", mem.Node)
		}
		seen[mem.Node] = true
		if mem.Synchronised && mem.State != MemberUp {
			return fmt.Errorf("%s is synchronised but not up", mem.Node)
		}
	}
	master, ok := q.MasterMember()
	switch {
	case q.Status == QueueRunning && (!ok || master.State != MemberUp || !master.Synchronised):
		return errors.New("running without a master in its view")
	case q.Status == QueueDown && len(q.View()) > 0:
		return errors.New("down with a view")
	case q.Status == QueueRunning && len(q.LastSynchronised) > 0 && len(q.View()) != 1:
		return errors.New("others joined before the revived master acted")
	case q.ViewVersion == 0 || q.Epoch == 0:
		return errors.New("no view version or epoch")
	}
	return nil
}

// never is the check of a preparation that may take its time.
func never() error { return nil }
