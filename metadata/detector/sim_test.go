package detector

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"warren/metadata/state"
)

// world are detectors in one process, over a network and a Raft group that the test controls. It runs in a synctest bubble.
type world struct {
	t  *testing.T
	mu sync.Mutex

	nodes  map[string]*simNode
	names  []string
	cut    map[[2]string]bool // messages from, to are lost
	leader string
	term   uint64
	log    []string // NodesDown as proposed
	st     *state.State
	index  uint64
}

type simNode struct {
	w      *world
	name   string
	d      *Detector
	cancel context.CancelFunc
	done   chan struct{}
	dead   bool // the process is gone: dials are refused
	frozen bool // SIGSTOP: dials are accepted, nothing else happens

	deposed []uint64
	paused  []string
	elected int
}

func newWorld(t *testing.T, names ...string) *world {
	w := &world{t: t, nodes: map[string]*simNode{}, names: names, cut: map[[2]string]bool{}, leader: names[0], term: 1, st: state.New()}
	for _, n := range names {
		w.propose(&state.NodeUp{Node: n, Incarnation: 1})
	}
	for _, n := range names {
		w.start(n, 1)
		time.Sleep(5 * time.Millisecond) // so that some answer at once, others late
	}
	return w
}

func clock() time.Duration { return time.Since(time.Time{}.AddDate(1999, 0, 0)) }

func (w *world) start(name string, incarnation uint64) {
	ctx, cancel := context.WithCancel(context.Background())
	n := &simNode{w: w, name: name, cancel: cancel, done: make(chan struct{})}
	n.d = New(Config{Self: name, Incarnation: incarnation, Clock: clock, Network: n, Raft: n, Events: n})
	w.mu.Lock()
	w.nodes[name] = n
	records := w.st.Nodes()
	w.mu.Unlock()
	for _, r := range records {
		n.d.SetNode(r)
	}
	go func() { defer close(n.done); n.d.Run(ctx) }()
}

func (w *world) stop() {
	for _, n := range w.nodes {
		n.cancel()
		<-n.done
	}
}

// propose applies a command and tells every detector that lives.
func (w *world) propose(cmd state.Command) state.Result {
	data, err := state.Encode(cmd, state.Request{})
	if err != nil {
		w.t.Fatal(err)
	}
	w.mu.Lock()
	w.index++
	r, changes := w.st.Apply(w.index, data)
	var to []*Detector
	for _, n := range w.nodes {
		if !n.dead && !n.frozen {
			to = append(to, n.d)
		}
	}
	w.mu.Unlock()
	for _, d := range to {
		d.Apply(changes)
	}
	return r
}

func (w *world) node(name string) *simNode {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.nodes[name]
}

func (w *world) with(fn func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	fn()
}

func (w *world) downs() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string(nil), w.log...)
}

// Network.

func (n *simNode) SendHeartbeat(to string, payload []byte) {
	n.w.mu.Lock()
	t := n.w.nodes[to]
	lost := t == nil || t.dead || t.frozen || n.dead || n.frozen || n.w.cut[[2]string{n.name, to}]
	n.w.mu.Unlock()
	if lost {
		return
	}
	go func() {
		time.Sleep(time.Millisecond)
		t.d.HandleHeartbeat(n.name, payload)
	}()
}

func (n *simNode) Report(to string, of state.Place) {
	n.w.mu.Lock()
	t := n.w.nodes[to]
	lost := t == nil || t.dead || t.frozen || n.w.cut[[2]string{n.name, to}]
	n.w.mu.Unlock()
	if !lost {
		go t.d.HandleReport(of)
	}
}

func (n *simNode) Dial(ctx context.Context, to string) Verdict {
	n.w.mu.Lock()
	t := n.w.nodes[to]
	cut := n.w.cut[[2]string{n.name, to}]
	dead := t == nil || t.dead
	n.w.mu.Unlock()
	switch {
	case cut:
		<-ctx.Done()
		return NoAnswer
	case dead:
		return Refused
	}
	return Accepted
}

func (n *simNode) AskDial(ctx context.Context, via, node string) (Verdict, error) {
	n.w.mu.Lock()
	v := n.w.nodes[via]
	silent := v.dead || v.frozen || n.w.cut[[2]string{n.name, via}] || n.w.cut[[2]string{via, n.name}]
	n.w.mu.Unlock()
	if silent {
		<-ctx.Done()
		return NoAnswer, ctx.Err()
	}
	return v.d.HandleAskDial(ctx, node), nil
}

// Raft.

func (n *simNode) Leader() (string, uint64) {
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	return n.w.leader, n.w.term
}

func (n *simNode) IsLeader() bool {
	l, _ := n.Leader()
	return l == n.name
}

func (n *simNode) Applied() uint64 {
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	return n.w.index
}

func (n *simNode) Voters() []string { return n.w.names }

func (n *simNode) NodesDown(_ context.Context, down []state.DownNode) error {
	if !n.IsLeader() {
		return errors.New("not the leader")
	}
	r := n.w.propose(&state.NodesDown{Nodes: down})
	n.w.with(func() {
		line := ""
		for _, d := range down {
			line += fmt.Sprintf("%s/%d fenced=%v ", d.Node, d.Incarnation, d.Fenced)
		}
		n.w.log = append(n.w.log, line)
	})
	return r.Refusal()
}

func (n *simNode) ElectNow(string) bool {
	n.w.with(func() { n.elected++ })
	return true
}

// Events.

func (n *simNode) Deposed(incarnation uint64) {
	n.w.with(func() { n.deposed = append(n.deposed, incarnation) })
}

func (n *simNode) Pause(paused bool, why string) {
	n.w.with(func() { n.paused = append(n.paused, fmt.Sprint(paused)) })
}

func (w *world) kill(name string) {
	n := w.node(name)
	w.with(func() { n.dead = true })
	n.cancel()
	<-n.done
	for _, o := range w.names {
		if o != name && !w.node(o).dead {
			w.node(o).d.LinkEnded(name, 1)
		}
	}
}

func (w *world) isolate(name string, cut bool) {
	w.with(func() {
		for _, o := range w.names {
			w.cut[[2]string{name, o}], w.cut[[2]string{o, name}] = cut, cut
		}
	})
}

func simulate(t *testing.T, names []string, fn func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, names...)
		defer func() {
			w.stop()
			time.Sleep(10 * time.Second) // messages under way arrive
		}()
		time.Sleep(2 * time.Second)
		fn(t, w)
	})
}
