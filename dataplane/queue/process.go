package queue

import (
	"fmt"
	"sort"

	"warren/dataplane/backingqueue"
	"warren/dataplane/queue/deque"
	"warren/dataplane/queue/protocol"
)

// Options of a Process. Zero windows mean the defaults.
type Options struct {
	// AutoDelete: tell LastConsumerGone. HadConsumers: the metadata remember that there was one (so that the queue goes even if
	// its only consumer died with the old master).
	AutoDelete   bool
	HadConsumers bool
	// PublishWindow is how much of publishes one node may have under way: what the ring does not take at once waits here.
	PublishWindow protocol.Credit
	// ConsumerWindow is how much may be under way to one consumer whose channel does not take it.
	ConsumerWindow protocol.Credit
	// Priorities is how many levels a priority queue has (x-max-priority and one); 0: it is none.
	Priorities int
	// SingleActive: only one consumer at a time is given messages (x-single-active-consumer).
	SingleActive bool
	// Letters is how many dead letters may be under way.
	Letters int
	// UnstableAcks is how many acknowledgements of one node may wait for their stability before it gets no deliveries.
	UnstableAcks int
}

const (
	// Defaults of Options.
	publishWindowCount  = 4096
	publishWindowBytes  = 8 << 20
	consumerWindowCount = 1024
	consumerWindowBytes = 512 << 10
	defaultUnstableAcks = 1 << 17
	flushBudget         = 2048 // deliveries of one Flush
)

// OutputKind names an Output.
type OutputKind uint8

// Kinds of Output.
const (
	// ToNode: hand Message to the attachment of this queue on Node. Messages to one node keep their order.
	ToNode OutputKind = iota + 1
	// FirstConsumer: an auto-delete queue has had a consumer; the metadata should remember it (once per term, unless known).
	FirstConsumer
	// LastConsumerGone: an auto-delete queue has lost its last consumer: propose its deletion if still unused.
	LastConsumerGone
	// Unused: nobody has used the queue for Settings.Expires: delete it if it has no consumer. Told again after a while.
	Unused
	// DeadLetter: publish Letter to where the queue's dead letters go, and say LettersDone once all targets have it.
	DeadLetter
	// LettersBuried: the letters of Positions will never be sent again; their targets may forget them.
	LettersBuried
)

// Output is one effect; the owner carries them out in order.
type Output struct {
	Kind    OutputKind
	Node    protocol.NodeID
	Message protocol.Message

	Letter    Letter              // DeadLetter
	Positions []protocol.Position // LettersBuried
}

// Counters are what lists of queues show.
type Counters struct {
	Ready, Unacked, Consumers int
	UnackedBytes              int64  // bodies
	ExclusiveTag              string // of the consumer that shuts out all others; empty: there is none
	Dying                     int    // messages whose dead letters are not stable yet
	Held                      int    // publishes that wait for the ring's window
	Waiting                   int    // nodes that have not attached since the promotion
	Sole                      Sole   // of a queue with a single active consumer
	Defects                   uint64 // messages that the protocol excludes: gaps in numbers, too much under way
}

type state uint8

const (
	idle      state = iota // no master here
	gathering              // promoted; waits for the nodes
	serving
	suspended // a planned move is under way
)

// Process is the queue process. All methods are called by its owner's goroutine.
type Process struct {
	opt   Options
	b     Backing
	table OriginTable
	epoch uint64
	state state
	short bool  // too few members are synchronised (SetInSync); it outlives a term
	err   error // the Backing failed

	up    map[protocol.NodeID]bool
	nodes map[protocol.NodeID]*node
	order []*node // by name, then incarnation

	origins map[backingqueue.OriginID]*originState
	refs    map[uint64]backingqueue.OriginID
	missing map[missingKey]*missing

	pins     map[backingqueue.OriginID]int
	unpinned []backingqueue.OriginID

	set        Settings
	now        int64  // Unix milliseconds
	lastUse    int64  // of the queue
	tried      uint64 // positions below it had a chance to be delivered
	expiring   bool   // there may be messages that expire
	nextExpiry int64
	waiting    bool // held publishes wait for something else than the ring's window

	ready        ready
	unacked      map[uint64]unacked
	unackedBytes int64

	dying       map[uint64]*dying
	dyingBytes  int64
	doomed      deque.Deque[uint64] // of dying, whose letters were not sent
	barred      int                 // of doomed, from the front: those that barrier is for
	barrier     Op
	lettersOut  int
	letterBytes int64
	graves      deque.Deque[buried]
	sources     bool // letters may have come here

	consumers   consumers
	had         bool
	toldHad     bool
	toldGone    bool
	gets        []get
	deferred    []deferredCall
	frozenBy    *node // a PrepareDelete holds
	lastOp      Op
	stable      Op
	outs        []Output
	marks       []backingqueue.Range // to be marked delivered
	drops       drops                // delivered without acknowledgement
	defects     uint64
	nextHeldRun int
}

// node is what the process knows of one node.
type node struct {
	id          protocol.NodeID
	session     uint64
	open        bool // Welcome was sent
	attached    bool
	awaited     bool // nothing is ready before it has attached
	refs        map[uint64]*originState
	held        deque.Deque[protocol.PublishItem]
	heldLetters deque.Deque[protocol.PublishItem]

	consumers map[uint64]*consumer

	acks      deque.Deque[ackBatch] // numbers firstAck, firstAck+1, …
	firstAck  uint64
	unstable  int
	throttled bool

	confirm      *protocol.Confirm // newest in outs, may still grow
	deliver      *protocol.Deliver
	deliverBytes int64
	deliverRefs  []uint64 // of deliver.Origins
}

// unacked is a message that somebody has outstanding. consumer is nil for a get or a consumer that ended.
type unacked struct {
	node     *node
	consumer *consumer
	session  uint64                 // in which the node had it: delivered, or named when it attached
	pin      *backingqueue.OriginID // keeps its origin open (origins.go)
	size     int64                  // body
}

// New makes a process without a backing: it ignores everything until Promote.
func New(opt Options) *Process {
	if opt.PublishWindow.Count <= 0 || opt.PublishWindow.Bytes <= 0 {
		opt.PublishWindow = protocol.Credit{Count: publishWindowCount, Bytes: publishWindowBytes}
	}
	if opt.ConsumerWindow.Count <= 0 || opt.ConsumerWindow.Bytes <= 0 {
		opt.ConsumerWindow = protocol.Credit{Count: consumerWindowCount, Bytes: consumerWindowBytes}
	}
	if opt.UnstableAcks <= 0 {
		opt.UnstableAcks = defaultUnstableAcks
	}
	if opt.Letters <= 0 {
		opt.Letters = letterCount
	}
	p := &Process{opt: opt, up: map[protocol.NodeID]bool{}}
	p.reset()
	return p
}

func (p *Process) reset() {
	p.state, p.err = idle, nil // the Backing stays: Resign may be called from within one of its methods
	p.nodes, p.order = map[protocol.NodeID]*node{}, nil
	p.origins = map[backingqueue.OriginID]*originState{}
	p.refs = map[uint64]backingqueue.OriginID{}
	p.missing = map[missingKey]*missing{}
	p.pins, p.unpinned = map[backingqueue.OriginID]int{}, nil
	p.ready = ready{redelivered: map[uint64]struct{}{}}
	if p.opt.Priorities > 0 {
		p.ready.levels = make([]level, p.opt.Priorities)
	}
	p.unacked, p.unackedBytes = map[uint64]unacked{}, 0
	p.dying, p.dyingBytes = map[uint64]*dying{}, 0
	p.barred, p.barrier = 0, 0
	p.doomed, p.lettersOut, p.letterBytes = deque.Deque[uint64]{}, 0, 0
	p.graves = deque.Deque[buried]{}
	p.tried, p.expiring, p.nextExpiry, p.waiting = 0, false, 0, false
	p.consumers = consumers{}
	p.gets, p.deferred, p.frozenBy = nil, nil, nil
	p.lastOp, p.stable = 0, 0
	p.outs = nil
	p.marks, p.drops = nil, drops{}
	p.toldHad, p.toldGone = false, false
}

// SetNodes says which nodes (incarnations) the metadata count as up, the own one included. Messages of others are ignored.
// What a node that went down had outstanding becomes ready again.
func (p *Process) SetNodes(up []protocol.NodeID) error {
	p.up = make(map[protocol.NodeID]bool, len(up))
	for _, id := range sortedNodes(up) {
		p.up[id] = true
		if p.active() && p.nodes[id] == nil {
			p.toNode(p.node(id), &protocol.Ready{Header: protocol.Header{Epoch: p.epoch}})
		}
	}
	if !p.active() {
		return p.err
	}
	for _, n := range append([]*node(nil), p.order...) {
		if !p.up[n.id] {
			p.nodeDown(n)
		}
	}
	return p.settled()
}

// Promote begins the term of epoch on b. Everything known of an earlier term, outputs included, is forgotten. Unless fresh
// (nobody can have been given a message of this queue), nothing becomes ready before every node that is up has attached or
// is down.
func (p *Process) Promote(b Backing, epoch uint64, fresh bool) error {
	p.reset()
	p.b, p.epoch, p.state = b, epoch, gathering
	p.table, _ = b.(OriginTable)
	p.had = p.had || p.opt.HadConsumers
	p.toldHad = p.opt.HadConsumers
	p.stable = 0
	p.used()
	p.tried, p.expiring = b.Stats().NextSeq, !fresh
	p.sources = !fresh
	ids := make([]protocol.NodeID, 0, len(p.up))
	for id := range p.up {
		ids = append(ids, id)
	}
	for _, id := range sortedNodes(ids) {
		n := p.node(id)
		n.awaited = !fresh
		p.toNode(n, &protocol.Ready{Header: protocol.Header{Epoch: epoch}, Wait: !fresh})
	}
	p.openGate()
	return p.settled()
}

// anew begins the term again. Its operations go on where they are: what was done may not be stable yet.
func (p *Process) anew() error {
	last, stable := p.lastOp, p.stable
	err := p.Promote(p.b, p.epoch, false)
	p.lastOp, p.stable = max(p.lastOp, last), max(p.stable, stable)
	return err
}

// HadConsumers says that the metadata remember a consumer of an auto-delete queue.
func (p *Process) HadConsumers() { p.opt.HadConsumers, p.had = true, true }

// Suspend stops taking operations because a planned move of the master begins; what is not flushed yet is dropped, since
// the nodes keep it. Promote (the move failed: KeepMaster) or Resign follows.
func (p *Process) Suspend() {
	if p.state != idle {
		p.state, p.outs, p.gets = suspended, nil, nil
		p.seal()
	}
}

// Resign forgets everything: another node is master, or the queue is deleted or down. The attachments answer the channels.
func (p *Process) Resign() { p.reset() }

// Handle takes a message from a node. Stale epochs and sessions are ignored; messages of a node belong to their receiver.
// An error comes from the Backing and is final for this term.
func (p *Process) Handle(from protocol.NodeID, m protocol.Message) error {
	if !p.active() || !p.up[from] || m.Head().Epoch != p.epoch {
		return p.err
	}
	n := p.node(from)
	if h, ok := m.(*protocol.Hello); ok {
		p.hello(n, h)
		return p.settled()
	}
	if !n.open || m.Head().Session != n.session {
		return nil
	}
	if p.frozenBy != nil {
		if c, ok := m.(*protocol.Call); ok && c.Op == protocol.OpAbortDelete && n == p.frozenBy {
			p.unfreeze()
		}
		return p.settled() // the nodes keep what they sent, and send it again if the queue goes on
	}
	switch m := m.(type) {
	case *protocol.Publish:
		p.publish(n, m)
	case *protocol.Ack:
		p.ack(n, m)
	case *protocol.CreditGrant:
		p.grant(n, m)
	case *protocol.Call:
		p.call(n, m)
	case *protocol.Attach:
		p.attach(n, m)
	case *protocol.CloseOrigin:
		if o := n.refs[m.Ref]; o != nil && o.node == n {
			p.detachOrigin(o)
		}
	}
	return p.settled()
}

// LinkUp says that messages can be sent to a node: if it has not attached, it is asked to (what said so before may be lost).
func (p *Process) LinkUp(id protocol.NodeID) {
	if !p.active() || !p.up[id] {
		return
	}
	if n := p.node(id); !n.attached {
		p.toNode(n, &protocol.Ready{Header: protocol.Header{Epoch: p.epoch}, Wait: n.awaited})
	}
}

// LinkDown says that the link to a node broke: nothing is delivered to it until it attaches again. The node says so itself
// by its next Hello; this only spares deliveries that would be lost, and given back redelivered.
func (p *Process) LinkDown(id protocol.NodeID) {
	if n := p.nodes[id]; n != nil {
		n.open, n.attached = false, false
	}
}

// Flush returns the outputs in order, after having delivered what is ready as far as consumers have room. allowed is
// false while the master does not hold its leases: then nothing is delivered and the outputs wait. Reading messages may take
// longer than a lease lasts, so still is asked whether the leases are held before what was delivered leaves; if not, nothing
// leaves, the outputs are forgotten, and the nodes attach anew, as after a promotion. more: there is more to deliver at once; call again.
func (p *Process) Flush(allowed bool, still func() bool) (outs []Output, more bool, err error) {
	if p.err != nil || !allowed {
		return nil, false, p.err
	}
	if p.delivers() {
		more = p.work()
		p.autoDelete()
		p.unused()
		if p.err == nil && len(p.outs) > 0 && !still() {
			return nil, false, p.anew()
		}
		p.delivered()
	}
	if p.err != nil {
		return nil, false, p.err
	}
	outs, p.outs = p.outs, nil
	p.seal()
	return outs, more, nil
}

// Due tells whether an event of the Backing since the last Flush gave something to do: then Flush must be called again.
func (p *Process) Due() bool {
	return p.err == nil && (len(p.outs) > 0 || p.delivers() && p.lettersDue())
}

// work delivers, and does what follows from what could not be delivered.
func (p *Process) work() (more bool) {
	if p.scan() {
		return true
	}
	p.expireHeads()
	if more = p.dispatch(); !more && p.active() {
		if p.waiting {
			p.waiting = false
			before := p.heldCount()
			p.WindowOpen()
			more = p.heldCount() < before
		}
		if !more {
			p.tried = p.b.Stats().NextSeq
			p.expireHeads()
			p.trim()
		}
	}
	p.sendLetters()
	return more
}

func (p *Process) heldCount() (held int) {
	for _, n := range p.order {
		held += n.held.Len() + n.heldLetters.Len()
	}
	return held
}

// Sole is the active consumer of a queue with a single active one: its node, and its number there (origin.Attachment.ConsumerID).
// It is zero where there is none.
type Sole struct {
	Node     protocol.NodeID
	Consumer uint64
}

// Counters are as of now.
func (p *Process) Counters() Counters {
	c := Counters{
		Unacked: len(p.unacked), Consumers: p.consumers.count, Defects: p.defects, Dying: len(p.dying), Held: p.heldCount(),
		UnackedBytes: p.unackedBytes,
	}
	if e := p.consumers.exclusive; e != nil {
		c.ExclusiveTag = e.args.Tag
	}
	if s := p.consumers.sole; s != nil {
		c.Sole = Sole{s.node.id, s.args.ID}
	}
	for _, n := range p.order {
		if n.awaited {
			c.Waiting++
		}
	}
	if p.active() {
		c.Ready = p.readyCount()
	}
	return c
}

// Serving reports whether every node has attached, so that messages are delivered.
func (p *Process) Serving() bool { return p.state == serving }

// delivers reports whether messages may be given to consumers: a deletion that is prepared holds them.
func (p *Process) delivers() bool { return p.active() && p.state == serving && p.frozenBy == nil }

func (p *Process) active() bool {
	return p.err == nil && (p.state == gathering || p.state == serving)
}

// settled ends an entry point.
func (p *Process) settled() error { return p.err }

// fail notes that the Backing failed: nothing that was not flushed yet may be believed.
func (p *Process) fail(what string, err error) {
	if err != nil && p.active() { // once the term has ended, the Backing refuses everything
		p.err = fmt.Errorf("queue process, epoch %d: %s: %w", p.epoch, what, err)
	}
}

func (p *Process) node(id protocol.NodeID) *node {
	n := p.nodes[id]
	if n == nil {
		n = &node{id: id, refs: map[uint64]*originState{}, consumers: map[uint64]*consumer{}}
		p.nodes[id] = n
		p.order = append(p.order, n)
		sort.Slice(p.order, func(i, j int) bool { return less(p.order[i].id, p.order[j].id) })
	}
	return n
}

func less(a, b protocol.NodeID) bool {
	if a.Name != b.Name {
		return a.Name < b.Name
	}
	return a.Incarnation < b.Incarnation
}

func sortedNodes(ids []protocol.NodeID) []protocol.NodeID {
	ids = append([]protocol.NodeID(nil), ids...)
	sort.Slice(ids, func(i, j int) bool { return less(ids[i], ids[j]) })
	return ids
}

func (p *Process) head(n *node) protocol.Header {
	return protocol.Header{Epoch: p.epoch, Session: n.session}
}

// toNode adds a message that must not be overtaken by batches begun before it.
func (p *Process) toNode(n *node, m protocol.Message) {
	n.confirm, n.deliver = nil, nil
	p.outs = append(p.outs, Output{Kind: ToNode, Node: n.id, Message: m})
}

func (p *Process) seal() {
	for _, n := range p.order {
		n.confirm, n.deliver = nil, nil
	}
}
