package broker

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"warren/dataplane/backingqueue"
	"warren/dataplane/backingqueue/store"
	"warren/dataplane/broker/config"
	"warren/dataplane/link"
	"warren/dataplane/queue/protocol"
	"warren/metadata/state"
)

// life is the time of one incarnation of the node.
//
// Lock order: Node.applyMu, then life.attachMu, then attachment.mu, then life.mu or channel.mu.
type life struct {
	node   *Node
	self   protocol.NodeID
	log    *slog.Logger
	ctx    context.Context
	cancel context.CancelCauseFunc
	wg     sync.WaitGroup

	routes        *routes
	grants        *grantsClear
	wakes         *wakes
	replies       replies
	syncShare     syncShare
	usersVersion  atomic.Uint64
	operatorCalls atomic.Uint64
	sessions      atomic.Uint64
	connections   atomic.Uint64
	open          sessions

	spawnMu sync.RWMutex
	over    bool // nothing is spawned any more

	attachMu    sync.RWMutex
	attachments map[backingqueue.ID]*attachment
	linked      map[protocol.NodeID]bool
	early       map[backingqueue.ID]earlyReady // queues that this node has not heard of yet

	mu     sync.RWMutex
	loaded uint64 // changes up to this index are known from the state itself
	ended  bool   // no copy is made any more
	copies map[backingqueue.ID]*queueCopy
	nodes  map[string]*state.Node

	lapsedMu sync.Mutex
	lapsed   map[*queueCopy]bool // masters that found a lease expired
	watching bool                // watchLapsed runs

	clientsMu sync.Mutex
	clients   *clients
	serving   bool // NodeUp is applied
}

type earlyReady struct {
	from protocol.NodeID
	m    protocol.Message
}

// maxEarly bounds the announcements of masters of queues that this node's metadata do not know yet.
const maxEarly = 65536

var errLeapt = errors.New("this node was so far behind that it was given a snapshot of the metadata")

// diskError ends the node: a write or a sync has failed.
type diskError struct{ err error }

func (e *diskError) Error() string {
	return fmt.Sprintf("the disk failed, and the node stops so that nothing untrue is told: %v", e.err)
}
func (e *diskError) Unwrap() error { return e.err }

func newLife(n *Node) *life {
	ctx, cancel := context.WithCancelCause(context.Background())
	l := &life{
		node: n, self: protocol.NodeID{Name: n.cfg.Node, Incarnation: n.incarnation.Load()},
		log: n.log, ctx: ctx, cancel: cancel,
		attachments: map[backingqueue.ID]*attachment{}, copies: map[backingqueue.ID]*queueCopy{},
		nodes: map[string]*state.Node{}, linked: map[protocol.NodeID]bool{}, early: map[backingqueue.ID]earlyReady{},
		lapsed: map[*queueCopy]bool{},
	}
	l.routes = newRoutes(l.log)
	l.grants = newGrantsClear(l)
	l.wakes = newWakes(l)
	return l
}

func (n *Node) currentLife() *life { return n.present.Load() }

// nextSession numbers the sessions of attachments; later attachments of a queue get higher numbers.
func (l *life) nextSession() uint64 { return l.sessions.Add(1) }

// spawn runs f on a goroutine that the life waits for; once the life is over it does nothing.
func (l *life) spawn(f func()) {
	l.spawnMu.RLock()
	defer l.spawnMu.RUnlock()
	if !l.over {
		l.wg.Go(f)
	}
}

// fail ends the life.
func (l *life) fail(err error) { l.cancel(err) }

// run takes part in the cluster until ctx ends (nil) or the life must end (the reason).
func (l *life) run(ctx context.Context) error {
	joined := l.begin(ctx)
	if joined == nil {
		l.log.Info("node is up", "incarnation", l.self.Incarnation)
		l.spawn(l.keepUp)
		l.serve()
		l.spawn(l.sweepLetters)
		joined = l.wait(ctx)
	}
	return joined
}

func (l *life) wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-l.ctx.Done():
		return context.Cause(l.ctx)
	case err := <-l.node.fatal:
		return &diskError{err}
	}
}

// begin follows the metadata and proposes NodeUp once all that was committed before is applied here (metadata.md, NodeUp).
func (l *life) begin(ctx context.Context) error {
	starting, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(l.ctx, cancel)
	defer stop()
	n := l.node
	switch err := l.catchUp(starting); {
	case starting.Err() != nil:
		return l.interrupted(ctx)
	case err != nil:
		return err
	}
	if err := n.checkWitness(); err != nil {
		return err
	}
	if err := n.data.setUp(l.self.Incarnation); err != nil {
		return &diskError{err}
	}
	l.load()
	r, err := n.meta.Propose(starting, &state.NodeUp{
		Node: l.self.Name, Incarnation: l.self.Incarnation, Witness: n.cfg.Witness,
		Addresses: state.Addresses{
			AMQP: firstOf(n.cfg.clientListeners()), AMQPS: firstOf(n.cfg.clientTLSListeners()), Internode: n.internodeAddress(),
		},
		Versions: state.Versions{
			Software: n.cfg.Version, ProtocolMin: link.MinProtocol, ProtocolMax: link.MaxProtocol, Features: state.SupportedFeatures(),
		},
	})
	switch {
	case starting.Err() != nil:
		return l.interrupted(ctx)
	case err != nil:
		return fmt.Errorf("propose NodeUp: %w", err)
	}
	if err := r.Refusal(); errors.Is(err, state.ErrFeature) {
		return &UnwelcomeError{fmt.Sprintf("this version is too old for the cluster: %v", err)}
	} else if err != nil {
		return fmt.Errorf("NodeUp of incarnation %d was refused: %w", l.self.Incarnation, err)
	}
	return n.data.setJoining(false)
}

func (l *life) interrupted(ctx context.Context) error {
	if ctx.Err() != nil {
		return nil
	}
	return context.Cause(l.ctx)
}

// firstOf is the address of a node's listeners that others are told.
func firstOf(all []config.Listener) string {
	if len(all) == 0 {
		return ""
	}
	return all[0].Address()
}

// load takes the whole state and follows its changes from there on.
func (l *life) load() {
	n := l.node
	n.applyMu.Lock()
	defer n.applyMu.Unlock()
	n.life = l
	n.present.Store(l)
	n.meta.View(func(s *state.State) { l.reload(s) })
	for _, p := range n.links.Connected() {
		l.linkUp(protocol.NodeID{Name: p.ID.Node, Incarnation: p.ID.Incarnation})
	}
}

// reload compares what this life has with the whole state.
func (l *life) reload(s *state.State) {
	l.mu.Lock()
	l.loaded = s.Index()
	l.mu.Unlock()
	l.usersVersion.Add(1)
	l.routes.reload(s)
	for _, node := range s.Nodes() {
		l.nodeChanged(node)
	}
	known := map[backingqueue.ID]bool{}
	for _, q := range s.Queues() {
		known[backingqueue.ID(q.ID)] = true
		l.queueChanged(q)
	}
	for _, id := range l.unknownQueues(known) {
		l.queueDeleted(id)
	}
	for _, id := range l.node.store.IDs() {
		if !known[id] {
			l.setAside(id)
		}
	}
}

// setAside moves what an unknown queue left on disk out of the way: the metadata say that it does not exist, but a lost
// metadata store must not delete messages (storage.md, recovery).
func (l *life) setAside(id backingqueue.ID) {
	path, err := l.node.store.SetAsideAs(id, store.Label{Why: "the queue does not exist any more"})
	if err != nil {
		l.log.Error("messages of an unknown queue could not be set aside", "queue", id, "error", err)
		return
	}
	l.log.Warn("messages of a queue that does not exist any more are set aside for seven days", "queue", id, "path", path)
}

func (l *life) unknownQueues(known map[backingqueue.ID]bool) []backingqueue.ID {
	gone := map[backingqueue.ID]bool{}
	l.attachMu.RLock()
	for id := range l.attachments {
		gone[id] = !known[id]
	}
	l.attachMu.RUnlock()
	l.mu.RLock()
	for id := range l.copies {
		gone[id] = !known[id]
	}
	l.mu.RUnlock()
	maps.DeleteFunc(gone, func(_ backingqueue.ID, unknown bool) bool { return !unknown })
	return slices.Collect(maps.Keys(gone))
}

// apply takes the changes of one command; called in log order under Node.applyMu.
func (l *life) apply(index uint64, changes []state.Change) {
	for _, c := range changes {
		if c.Kind == state.Reset {
			// A snapshot came from the leader: views may lie in it that the rings here never saw, and a member that leaps
			// over views cannot close the senders that only those had. A new incarnation joins anew.
			l.fail(errLeapt)
			return
		}
		l.mu.RLock()
		seen := index <= l.loaded
		l.mu.RUnlock()
		if seen {
			continue
		}
		l.routes.apply(c)
		l.node.happenings.change(c)
		switch c.Kind {
		case state.NodeChanged:
			l.nodeChanged(c.Node)
		case state.NodeForgotten:
			l.mu.Lock()
			delete(l.nodes, c.OldNode.Name)
			l.mu.Unlock()
		case state.QueueCreated, state.QueueChanged:
			l.logChange(c.OldQueue, c.Queue)
			l.queueChanged(c.Queue)
		case state.QueueDeleted:
			l.queueDeleted(backingqueue.ID(c.OldQueue.ID))
		case state.UsersChanged:
			l.usersVersion.Add(1)
			if c.User != "" {
				l.closeClientsOf(CloseQuery{User: c.User, Reason: fmt.Sprintf("user '%s' is deleted", c.User)})
			}
		case state.VhostDeleted:
			l.closeClientsOf(CloseQuery{Vhost: c.Vhost, ByVhost: true, Reason: fmt.Sprintf("vhost '%s' is deleted", c.Vhost)})
		}
	}
}

// nodeChanged tells the copies which nodes are up.
func (l *life) nodeChanged(n *state.Node) {
	l.mu.Lock()
	old := l.nodes[n.Name]
	l.nodes[n.Name] = n
	up := l.upNodes()
	l.mu.Unlock()
	if n.Name == l.self.Name {
		l.pauseChanged()
	}
	if old != nil && old.Status.Up() == n.Status.Up() && old.Incarnation == n.Incarnation {
		return
	}
	ev := evNodes{up: up}
	if old != nil && old.Status.Up() && (!n.Status.Up() || n.Incarnation != old.Incarnation) {
		ev.gone = protocol.NodeID{Name: old.Name, Incarnation: old.Incarnation}
	}
	for _, c := range l.copyList() {
		c.post(ev)
	}
}

// upNodes is called with mu held.
func (l *life) upNodes() []protocol.NodeID {
	var up []protocol.NodeID
	for _, n := range l.nodes {
		if n.Status.Up() {
			up = append(up, protocol.NodeID{Name: n.Name, Incarnation: n.Incarnation})
		}
	}
	return up
}

// incarnationUp says whether the metadata count that incarnation as up.
func (l *life) incarnationUp(node string, incarnation uint64) bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	n := l.nodes[node]
	return n != nil && n.Status.Up() && n.Incarnation == incarnation
}

// queueChanged brings this node's part in a queue in line with its record.
func (l *life) queueChanged(q *state.Queue) {
	id := backingqueue.ID(q.ID)
	if c := l.copyFor(q); c != nil {
		c.post(evAssign{q})
	}
	l.attachMu.Lock()
	a := l.attachments[id]
	early, isEarly := l.early[id]
	delete(l.early, id)
	l.attachMu.Unlock()
	if a != nil {
		a.assign(q)
	}
	if isEarly {
		l.fromMaster(early.from, id, early.m)
	}
}

// copyFor finds this node's copy of a queue, or makes it if the record has a place for it; nil if there is neither.
func (l *life) copyFor(q *state.Queue) *queueCopy {
	id := backingqueue.ID(q.ID)
	l.mu.Lock()
	defer l.mu.Unlock()
	if c := l.copies[id]; c != nil {
		return c
	}
	m, ok := q.Member(l.self.Name)
	if !ok || m.Incarnation != l.self.Incarnation || m.State == state.MemberAway || l.ended {
		return nil
	}
	c := newCopy(l, q)
	l.copies[id] = c
	c.post(evNodes{up: l.upNodes()})
	return c
}

func (l *life) queueDeleted(id backingqueue.ID) {
	l.attachMu.Lock()
	a := l.attachments[id]
	delete(l.attachments, id)
	l.attachMu.Unlock()
	if a != nil {
		a.deleted()
	}
	l.mu.RLock()
	c := l.copies[id]
	l.mu.RUnlock()
	if c != nil {
		c.post(evDeleted{})
	}
}

// attachment finds or makes this node's half of a queue.
func (l *life) attachment(id backingqueue.ID) *attachment {
	l.attachMu.RLock()
	a := l.attachments[id]
	l.attachMu.RUnlock()
	if a != nil {
		return a
	}
	l.attachMu.Lock()
	defer l.attachMu.Unlock()
	if a = l.attachments[id]; a != nil {
		return a
	}
	a = newAttachment(l, id)
	// Read under the lock: a change that comes later finds the attachment in the table.
	q, ok := l.queueByID(id)
	if !ok {
		a.deleted() // it was deleted a moment ago: everything is answered so
		return a
	}
	for n := range l.linked {
		a.linkUp(n)
	}
	a.assign(q)
	l.attachments[id] = a
	return a
}

// fromNode takes a message of another node's attachment.
func (l *life) fromNode(from protocol.NodeID, id backingqueue.ID, m protocol.Message) {
	l.mu.RLock()
	c := l.copies[id]
	l.mu.RUnlock()
	if c != nil {
		c.post(evMessage{from, m})
	}
}

// fromMaster takes a message of a queue process. A master that begins its term says so to every node; for a queue that this
// node has not heard of yet that is kept until it does.
func (l *life) fromMaster(from protocol.NodeID, id backingqueue.ID, m protocol.Message) {
	l.attachMu.RLock()
	a := l.attachments[id]
	l.attachMu.RUnlock()
	if a == nil {
		if _, ready := m.(*protocol.Ready); !ready {
			return
		}
		if _, known := l.queueByID(id); !known {
			l.keepEarly(id, earlyReady{from, m})
			return
		}
		a = l.attachment(id)
	}
	a.receive(from, m)
}

func (l *life) queueByID(id backingqueue.ID) (*state.Queue, bool) { return l.node.queueByID(id) }

func (l *life) keepEarly(id backingqueue.ID, e earlyReady) {
	if uint64(id) <= l.node.meta.Applied() {
		return // it was deleted
	}
	l.attachMu.Lock()
	defer l.attachMu.Unlock()
	if len(l.early) < maxEarly {
		l.early[id] = e
	}
}

// toMaster sends a message of an attachment to the queue process on a node.
func (l *life) toMaster(id backingqueue.ID, to protocol.NodeID, m protocol.Message) {
	if to == l.self {
		l.fromNode(l.self, id, m)
		return
	}
	l.sendQueue(frameToMaster, id, to, m)
}

// toNode sends a message of a queue process to the attachment on a node.
func (l *life) toNode(id backingqueue.ID, to protocol.NodeID, m protocol.Message) {
	if to == l.self {
		l.fromMaster(l.self, id, m)
		return
	}
	l.sendQueue(frameToNode, id, to, m)
}

// linkUp and linkDown are told of each peer link, in order.
func (l *life) linkUp(id protocol.NodeID) {
	l.attachMu.Lock()
	l.linked[id] = true
	as := l.attachmentList()
	l.attachMu.Unlock()
	for _, a := range as {
		a.linkUp(id)
	}
	for _, c := range l.copyList() {
		c.post(evLinkUp{id})
	}
}

func (l *life) linkDown(id protocol.NodeID) {
	l.attachMu.Lock()
	delete(l.linked, id)
	as := l.attachmentList()
	l.attachMu.Unlock()
	for _, a := range as {
		a.linkDown(id)
	}
	for _, c := range l.copyList() {
		c.post(evLinkDown{id})
	}
}

func (l *life) copyList() []*queueCopy {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return slices.Collect(maps.Values(l.copies))
}

// attachmentList is called with attachMu held.
func (l *life) attachmentList() []*attachment {
	return slices.Collect(maps.Values(l.attachments))
}

func (l *life) sendQueue(kind link.FrameKind, id backingqueue.ID, to protocol.NodeID, m protocol.Message) {
	head := binary.AppendUvarint(make([]byte, 0, 10+protocol.WireSize(m)), uint64(id))
	err := l.node.links.Send(to.Name, kind, protocol.Append(head, m))
	if err != nil {
		// The link's end tells both halves, and they resume; nothing else is to be done here.
		l.log.Debug("a message about a queue was not sent", "queue", id, "peer", to.Name, "error", err)
	}
}

// propose has a command executed and waits until it is applied here and on every node that is up and can be reached, so
// that a client that goes on through another node finds what it made (metadata.md, reads and writes).
func (l *life) propose(ctx context.Context, cmd state.Command) (state.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, proposeTimeout)
	defer cancel()
	stop := context.AfterFunc(l.ctx, cancel)
	defer stop()
	r, err := l.node.meta.Propose(ctx, cmd)
	if err != nil {
		return r, fmt.Errorf("the metadata could not be changed: %w", err)
	}
	if err := r.Refusal(); err != nil {
		return r, err
	}
	l.awaitEverywhere(ctx, r.Index)
	return r, nil
}

func (l *life) awaitEverywhere(ctx context.Context, index uint64) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	l.mu.RLock()
	up := l.upNodes()
	l.mu.RUnlock()
	var wg sync.WaitGroup
	for _, n := range up {
		if n == l.self || l.node.detector.PeerApplied(n.Name) >= index || !l.node.detector.Reachable(n.Name) {
			continue
		}
		wg.Go(func() {
			if _, err := l.node.links.Call(ctx, n.Name, callApplied, binary.AppendUvarint(nil, index)); err != nil {
				l.log.Warn("a node has not applied a change of the metadata yet", "peer", n.Name, "index", index, "error", err)
			}
		})
	}
	wg.Wait()
}
