package detector

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"warren/metadata/state"
)

// Network is how the detector reaches the other nodes.
type Network interface {
	// SendHeartbeat sends a payload to a node's HandleHeartbeat. It must not block; what cannot be sent is dropped.
	SendHeartbeat(node string, payload []byte)
	// Report tells a node's HandleReport that this node's link to that incarnation ended. It must not block.
	Report(to string, of state.Place)
	// Dial tries the inter-node listener of a node.
	Dial(ctx context.Context, node string) Verdict
	// AskDial has another node try it (its HandleAskDial); an error if that node cannot be asked.
	AskDial(ctx context.Context, via, node string) (Verdict, error)
}

// Raft is what the detector needs of the metadata group; metadata/raftstore's Store fits with little around it.
type Raft interface {
	// Leader is the leader as far as known, "" for none, and the present term.
	Leader() (node string, term uint64)
	IsLeader() bool
	Applied() uint64
	// Voters are the names of the voters.
	Voters() []string
	// NodesDown proposes the command and waits for its outcome.
	NodesDown(ctx context.Context, down []state.DownNode) error
	// ElectNow starts an election if this node is next after a leader that is surely dead.
	ElectNow(dead string) bool
}

// Events is what the detector tells its node. The calls come from its goroutines, one at a time, and must not block.
type Events interface {
	// Deposed: this incarnation was declared down. Stop masters and mirrors, take a new one (Renew), and propose NodeUp.
	Deposed(incarnation uint64)
	// Pause: the node is, or is no longer, in a minority: clients have to be sent away while it is.
	Pause(paused bool, why string)
}

// Config is what New needs.
type Config struct {
	Self        string
	Incarnation uint64
	// Clock is the time since some fixed moment, by CLOCK_BOOTTIME.
	Clock   func() time.Duration
	Network Network
	Raft    Raft
	Events  Events
	Timing  Timing // zero: DefaultTiming
	Logger  *slog.Logger
}

// Detector is one node's failure detector. Its methods may be called from any goroutine.
type Detector struct {
	cfg  Config
	log  *slog.Logger
	work chan func(context.Context) // for the loop's helpers
	idle sync.WaitGroup

	mu       sync.RWMutex
	core     *core
	paused   string
	closing  map[state.Place]bool // being declared down, or checked
	deposed  uint64
	electing bool
	heard    chan struct{} // closed and replaced at each heartbeat

	events sync.Mutex // one event at a time
}

// New makes a detector; Run starts it.
func New(cfg Config) *Detector {
	if cfg.Timing == (Timing{}) {
		cfg.Timing = DefaultTiming()
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Detector{cfg: cfg, log: cfg.Logger, core: newCore(cfg.Self, cfg.Incarnation, cfg.Timing, cfg.Clock()),
		work: make(chan func(context.Context), 64), closing: map[state.Place]bool{}, heard: make(chan struct{})}
}

// Run sends heartbeats and judges until ctx ends, and then waits for what it started.
func (d *Detector) Run(ctx context.Context) {
	tick := time.NewTicker(d.cfg.Timing.Interval)
	defer tick.Stop()
	defer d.idle.Wait()
	d.beat()
	for {
		select {
		case <-ctx.Done():
			return
		case fn := <-d.work:
			d.idle.Go(func() { fn(ctx) })
		case <-tick.C:
			d.tick()
		}
	}
}

// start runs fn on a goroutine that Run owns; if too many wait, it is dropped: the next tick or report brings it again.
func (d *Detector) start(fn func(context.Context)) bool {
	select {
	case d.work <- fn:
		return true
	default:
		return false
	}
}

func (d *Detector) tick() {
	now := d.cfg.Clock()
	leads := d.cfg.Raft.IsLeader()
	voters := d.cfg.Raft.Voters()
	_, term := d.cfg.Raft.Leader()
	d.mu.Lock()
	if gap := d.core.wake(now); gap > 0 {
		d.log.Warn("this process did not run for a while", "gap", gap)
	}
	for _, v := range voters {
		if v != d.cfg.Self {
			d.core.peer(now, v)
		}
	}
	var down []state.DownNode
	if leads {
		down = append(d.core.superseded(), d.core.silent(now)...)
	}
	why := d.core.minority(now, voters, term)
	d.mu.Unlock()
	d.beat()
	d.declare(down)
	d.setPaused(why)
}

// beat sends every known node a heartbeat.
func (d *Detector) beat() {
	d.mu.RLock()
	to := append([]string(nil), d.core.order...)
	d.mu.RUnlock()
	for _, node := range to {
		d.send(node, false)
	}
}

func (d *Detector) send(node string, ask bool) {
	leader, term := d.cfg.Raft.Leader()
	applied := d.cfg.Raft.Applied()
	d.mu.Lock()
	h := d.core.compose(d.cfg.Clock(), node, leader, term, applied, ask)
	d.mu.Unlock()
	d.cfg.Network.SendHeartbeat(node, h.encode())
}

// HandleHeartbeat takes a payload that another node's SendHeartbeat sent. One that cannot be read is dropped and logged.
func (d *Detector) HandleHeartbeat(from string, payload []byte) {
	h, err := decodeHeartbeat(payload)
	if err != nil {
		d.log.Warn("heartbeat dropped", "node", from, "err", err)
		return
	}
	d.mu.Lock()
	reply := d.core.hear(d.cfg.Clock(), from, h)
	close(d.heard)
	d.heard = make(chan struct{})
	d.mu.Unlock()
	if reply {
		d.send(from, false)
	}
}

// Apply takes the changes of a metadata command, in order; the node subscribes it to its store.
func (d *Detector) Apply(changes []state.Change) {
	for _, c := range changes {
		if c.Kind == state.NodeChanged {
			d.SetNode(c.Node)
		}
	}
}

// SetNode takes a node's newest record: after a Reset the node calls it for every one.
func (d *Detector) SetNode(n *state.Node) {
	d.mu.Lock()
	deposed := d.core.setNode(d.cfg.Clock(), n) && d.deposed != n.Incarnation
	if deposed {
		d.deposed = n.Incarnation
	}
	d.mu.Unlock()
	if deposed {
		d.log.Warn("this incarnation was declared down", "node", n.Name, "incarnation", n.Incarnation)
		d.events.Lock()
		defer d.events.Unlock()
		d.cfg.Events.Deposed(n.Incarnation)
	}
}

// Renew begins a new incarnation of this node: all leases of the old one are given up.
func (d *Detector) Renew(incarnation uint64) {
	d.mu.Lock()
	d.core.renew(incarnation)
	d.mu.Unlock()
	d.beat()
}

// Held says whether a master on this node may act as far as that member of its view is concerned: whether this node
// holds an unexpired lease from it. It is to be asked at each batch. Always true for this node itself.
func (d *Detector) Held(node string, incarnation uint64) bool {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.core.held(d.cfg.Clock(), state.Place{Node: node, Incarnation: incarnation})
}

// HeldUntil is the moment, by Config's clock, until which Held is true unless the lease is renewed; 0 if there is none. A caller
// that asks about several members reads the clock once.
func (d *Detector) HeldUntil(node string, incarnation uint64) time.Duration {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.core.heldUntil(state.Place{Node: node, Incarnation: incarnation})
}

// OutstandingTo is how long a grant of this node to that incarnation still runs, 0 if none does.
func (d *Detector) OutstandingTo(node string, incarnation uint64) time.Duration {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.core.outstanding(d.cfg.Clock(), state.Place{Node: node, Incarnation: incarnation})
}

// OutstandingUnfenced is how long a grant of this node still runs to any incarnation that was declared down without being
// fenced: what a promoted master asks each member of its view before it acts. A member must have applied the command that
// promoted the master before it answers.
func (d *Detector) OutstandingUnfenced() time.Duration {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.core.outstandingUnfenced(d.cfg.Clock())
}

// PeerApplied is the newest metadata command that a node said it has applied; 0 if nothing was heard of it.
func (d *Detector) PeerApplied(node string) uint64 {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if p := d.core.peers[node]; p != nil {
		return p.last.Applied
	}
	return 0
}

// Reachable says whether a node was heard within the last two heartbeat intervals.
func (d *Detector) Reachable(node string) bool {
	d.mu.RLock()
	defer d.mu.RUnlock()
	p := d.core.peers[node]
	return node == d.cfg.Self || p != nil && p.ever && d.cfg.Clock()-p.heard < 2*d.cfg.Timing.Interval
}

// LinkEnded is the node's report that its connection to another node ended by FIN or RST, not by a timeout of its own.
func (d *Detector) LinkEnded(node string, incarnation uint64) {
	of := state.Place{Node: node, Incarnation: incarnation}
	leader, _ := d.cfg.Raft.Leader()
	switch {
	case d.cfg.Raft.IsLeader():
		d.HandleReport(of)
	case leader == node:
		d.checkLeader(node)
	case leader != "":
		d.cfg.Network.Report(leader, of)
	}
}

// HandleReport takes another node's Report: the leader checks whether the process is gone.
func (d *Detector) HandleReport(of state.Place) {
	d.mu.RLock()
	n := d.core.nodes[of.Node]
	d.mu.RUnlock()
	if n != nil && !n.Status.Up() {
		return // it went in good order, or was declared down already
	}
	if !d.cfg.Raft.IsLeader() || of.Node == d.cfg.Self || !d.claim(of) {
		return
	}
	ok := d.start(func(ctx context.Context) {
		gone := d.crashed(ctx, of.Node)
		d.release(of)
		if gone {
			d.declare(append(d.alsoCrashed(ctx, of.Node), state.DownNode{Node: of.Node, Incarnation: d.current(of),
				Reason: state.ReasonFailure, Fenced: true}))
		}
	})
	if !ok {
		d.release(of)
	}
}

// HandleAskDial answers another node's AskDial.
func (d *Detector) HandleAskDial(ctx context.Context, node string) Verdict {
	ctx, cancel := context.WithTimeout(ctx, d.cfg.Timing.Dial)
	defer cancel()
	return d.cfg.Network.Dial(ctx, node)
}

func (d *Detector) checkLeader(node string) {
	d.mu.Lock()
	busy := d.electing
	d.electing = true
	d.mu.Unlock()
	if busy {
		return
	}
	done := func() {
		d.mu.Lock()
		d.electing = false
		d.mu.Unlock()
	}
	ok := d.start(func(ctx context.Context) {
		defer done()
		if d.crashed(ctx, node) {
			d.cfg.Raft.ElectNow(node)
		}
	})
	if !ok {
		done()
	}
}

// current is the incarnation to close when the process of the reported one is gone: whichever counts as up.
func (d *Detector) current(of state.Place) uint64 {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if n := d.core.nodes[of.Node]; n != nil && n.Status.Up() {
		return n.Incarnation
	}
	return of.Incarnation
}

// alsoCrashed finds the others that died with a node, so that they are declared down together.
func (d *Detector) alsoCrashed(ctx context.Context, not string) (down []state.DownNode) {
	d.mu.RLock()
	var up []state.Place
	for _, name := range d.core.order {
		if n := d.core.nodes[name]; n != nil && n.Status.Up() && name != not && name != d.cfg.Self {
			up = append(up, state.Place{Node: name, Incarnation: n.Incarnation})
		}
	}
	d.mu.RUnlock()
	gone := make([]bool, len(up))
	var wg sync.WaitGroup
	for i, p := range up {
		wg.Go(func() { gone[i] = d.refusedByAll(ctx, p.Node) })
	}
	wg.Wait()
	for i, p := range up {
		if gone[i] {
			down = append(down, state.DownNode{Node: p.Node, Incarnation: p.Incarnation, Reason: state.ReasonFailure, Fenced: true})
		}
	}
	return down
}

func (d *Detector) claim(of state.Place) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closing[of] {
		return false
	}
	d.closing[of] = true
	return true
}

func (d *Detector) release(of state.Place) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.closing, of)
}

// declare proposes NodesDown for those that are not being declared already.
func (d *Detector) declare(down []state.DownNode) {
	var mine []state.DownNode
	for _, n := range down {
		if d.claim(state.Place{Node: n.Node, Incarnation: n.Incarnation}) {
			mine = append(mine, n)
		}
	}
	if len(mine) == 0 {
		return
	}
	release := func() {
		for _, n := range mine {
			d.release(state.Place{Node: n.Node, Incarnation: n.Incarnation})
		}
	}
	ok := d.start(func(ctx context.Context) {
		defer release()
		ctx, cancel := context.WithTimeout(ctx, d.cfg.Timing.Unreachable)
		defer cancel()
		d.log.Info("declaring nodes down", "nodes", mine)
		if err := d.cfg.Raft.NodesDown(ctx, mine); err != nil && !errors.Is(err, state.ErrStale) {
			d.log.Warn("nodes were not declared down", "nodes", mine, "err", err)
		}
	})
	if !ok {
		release()
	}
}

func (d *Detector) setPaused(why string) {
	d.mu.Lock()
	changed := (d.paused == "") != (why == "")
	d.paused = why
	d.mu.Unlock()
	if !changed {
		return
	}
	d.log.Warn("minority", "paused", why != "", "why", why)
	d.events.Lock()
	defer d.events.Unlock()
	d.cfg.Events.Pause(why != "", why)
}

// Gone judges, for a new leader, which of the incarnations that count as up are gone: those whose process is refused by all, those
// that a newer incarnation of their node has replaced, and those that do not answer a heartbeat: until ctx ends, or until they
// were silent for Unreachable and at least two intervals of it since they were asked. It implements metadata/raftstore's Prober.
func (d *Detector) Gone(ctx context.Context, up []state.Place) []state.DownNode {
	then := d.cfg.Clock()
	verdicts := make([]*state.DownNode, len(up))
	var wg sync.WaitGroup
	for i, p := range up {
		wg.Go(func() { verdicts[i] = d.judge(ctx, then, p) })
	}
	wg.Wait()
	var down []state.DownNode
	for _, v := range verdicts {
		if v != nil {
			down = append(down, *v)
		}
	}
	return down
}

// judge is nil if the incarnation answers.
func (d *Detector) judge(ctx context.Context, then time.Duration, p state.Place) *state.DownNode {
	gone := func(fenced bool) *state.DownNode {
		return &state.DownNode{Node: p.Node, Incarnation: p.Incarnation, Reason: state.ReasonFailure, Fenced: fenced}
	}
	if p.Node == d.cfg.Self {
		d.mu.RLock()
		defer d.mu.RUnlock()
		if p.Incarnation == d.core.incarnation {
			return nil
		}
		return gone(true)
	}
	check, cancel := context.WithCancel(ctx)
	refused := make(chan bool, 1)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() { refused <- d.crashed(check, p.Node) })
	ask := time.NewTicker(d.cfg.Timing.Interval)
	defer ask.Stop()
	d.mu.Lock()
	patience := d.core.patience(then, p.Node)
	d.mu.Unlock()
	silent := time.NewTimer(patience)
	defer silent.Stop()
	d.send(p.Node, true)
	for {
		d.mu.RLock()
		alive, newer := d.core.heardSince(then, p)
		heard := d.heard
		d.mu.RUnlock()
		switch {
		case alive:
			return nil
		case newer:
			return gone(true)
		}
		select {
		case <-heard:
		case <-ask.C:
			d.send(p.Node, true)
		case r := <-refused:
			if r {
				return gone(true)
			}
		case <-silent.C:
			return gone(false)
		case <-ctx.Done():
			return gone(false)
		}
	}
}
