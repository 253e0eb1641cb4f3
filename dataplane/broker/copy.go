package broker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"warren/dataplane/amqp"
	"warren/dataplane/backingqueue"
	"warren/dataplane/gm"
	"warren/dataplane/gm/driver"
	"warren/dataplane/mirror"
	"warren/dataplane/queue"
	"warren/dataplane/queue/protocol"
	"warren/metadata/state"
)

// consumerWindow is what may be under way to one consumer that its client has not read (amqp.Config and queue.Options
// agree on it).
var consumerWindow = protocol.Credit{Count: 1024, Bytes: 1 << 20}

// handOverTimeout is after how long without a commit a planned move is taken back (mirroring.md, planned moves).
const handOverTimeout = time.Second

// retryPause is how long a proposal that failed waits before it is made again.
const retryPause = 100 * time.Millisecond

// Events of a copy's actor.
type (
	evAssign  struct{ q *state.Queue }
	evDeleted struct{}
	evMessage struct {
		from protocol.NodeID
		m    protocol.Message
	}
	evDurable struct{}
	evNodes   struct {
		up   []protocol.NodeID
		gone protocol.NodeID // the incarnation that is not up any more, if any
	}
	evLinkUp   struct{ node protocol.NodeID }
	evLinkDown struct{ node protocol.NodeID }
	evGrants   struct{ view uint64 }
	evFailed   struct{ c mirror.Command }
	evHandOver struct{}
	evTimeout  struct{} // of a hand-over
	evFlush    struct{}
	evWake     struct{} // a time has come that the queue process asked for
	evLettered struct { // a target has answered for a dead letter of this queue
		by   *attachment
		id   backingqueue.OriginID
		code protocol.Code
	}
	evRetryLetters struct{}
	evSources      struct {
		answer chan<- []backingqueue.OriginID
	} // has room
	evForgotten struct {
		positions []protocol.Position
		answer    chan<- []protocol.Position // has room
	}
	evForget  struct{ ids []backingqueue.OriginID }
	evFigures struct{ answer chan<- QueueFigures } // has room
	evOffer   struct {
		from   protocol.NodeID
		answer chan<- error // has room
	}
	evNotReady struct{ node protocol.NodeID } // its MirrorReady was refused
)

// queueCopy is this node's copy of one queue: the replica and the queue process, which works while this copy is master. All
// fields below actor are of the actor's goroutine.
type queueCopy struct {
	life  *life
	id    backingqueue.ID
	log   *slog.Logger
	actor *driver.Actor

	leases   struct{ asked, held bool } // at the end of a batch
	durable  atomic.Bool                // an evDurable is in the mailbox
	master   atomic.Bool                // the replica is acting master
	ringBusy atomic.Bool                // it is, and waits for its ring: it is watched (stall.go)

	q          *state.Queue
	args       amqp.Table // q's
	wakeAt     int64      // when it is to be woken
	dead       deadLetters
	letters    letters
	flushAgain bool // letters were done after the last Flush
	replica    *mirror.Replica
	opened     backingqueue.Queue // the replica's store
	process    *queue.Process
	joiners    map[protocol.NodeID]bool // MirrorReady is proposed: their leases are needed already
	asked      uint64                   // the view whose grants were asked for
	asking     context.CancelFunc
	found      bool               // the store had something of this queue when it was opened
	offering   context.CancelFunc // ends the offer or the recovery that is under way
	moves      moves
	ring       *driver.Member // of the replica, once it has joined
	stall      stall
	failed     bool

	syncing syncing // sync.go
}

func newCopy(l *life, q *state.Queue) *queueCopy {
	c := &queueCopy{
		life: l, id: backingqueue.ID(q.ID), q: q,
		log:     l.log.With("queue", q.Name, "vhost", q.Vhost),
		joiners: map[protocol.NodeID]bool{},
	}
	args, err := arguments(q.Arguments)
	if err != nil {
		c.log.Error("the queue's arguments cannot be read; it goes on without them", "error", err)
	}
	c.args = args
	c.process = queue.New(fixedOptions(q, args))
	c.configure(q)
	c.actor = l.node.host.NewActor(c)
	return c
}

// post hands an event to the actor. What is posted is bounded by credit and by the metadata's pace; after the actor was
// closed it is dropped.
func (c *queueCopy) post(ev any) { _ = c.actor.PostAlways(ev) }

// HandleEvent implements driver.Handler.
func (c *queueCopy) HandleEvent(ev any) {
	if c.failed {
		return
	}
	c.releaseHeld()
	c.process.SetTime(time.Now().UnixMilli())
	var err error
	if down, ok := ev.(evLinkDown); ok {
		err = c.syncLinkDown(down.node)
	}
	if err != nil || c.hold(ev) {
		c.check(err)
		return
	}
	switch ev := ev.(type) {
	case evWake:
		c.wakeAt = 0
	case evLettered, evRetryLetters, evSources, evForgotten, evForget:
		err = c.aboutLetters(ev)
	case evMessage:
		err = c.process.Handle(ev.from, ev.m)
	case evDurable:
		c.durable.Store(false)
		if c.replica != nil {
			c.replica.DurableMoved()
		}
	case evFlush:
	case evAssign:
		err = c.assign(ev.q)
	case evDeleted:
		err = c.deleted()
	case evNodes:
		err = c.nodesChanged(ev)
	case evLinkUp:
		c.process.LinkUp(ev.node)
	case evLinkDown:
		c.process.LinkDown(ev.node)
	case evGrants:
		if c.replica != nil {
			err = c.replica.GrantsClear(ev.view)
		}
	case evFailed:
		if c.replica != nil {
			err = c.replica.ProposalFailed(ev.c)
		}
	case evHandOver:
		c.handOver()
	case evTimeout:
		c.handOverTimedOut()
	case evOffer:
		ev.answer <- c.offer(ev.from)
	case evFigures:
		ev.answer <- c.count()
	case evNotReady:
		delete(c.joiners, ev.node)
	case copyEvent:
		err = ev.apply(c)
	}
	if c.check(err) {
		c.releaseHeld()
	}
}

// HandleOutput implements driver.Handler.
func (c *queueCopy) HandleOutput(o gm.Output) {
	if c.replica != nil && !c.failed {
		c.process.SetTime(time.Now().UnixMilli())
		c.check(c.replica.Output(o))
	}
}

// EndBatch implements driver.Handler: what was done is made durable, and what may be told is told.
func (c *queueCopy) EndBatch() {
	if c.replica == nil || c.failed {
		return
	}
	if !c.check(c.syncStep()) {
		return
	}
	// Not before syncStep, which reads from the disk and may be held up there for longer than a lease lasts.
	if c.replica.Role() == mirror.Master {
		c.askLeases()
		c.leases.asked = true
		defer func() { c.leases.asked = false }()
	}
	if !c.check(c.replica.Flush()) {
		return
	}
	c.releaseHeld()
	if c.replica == nil || c.failed || c.replica.Blocked() {
		return
	}
	held := c.replica.Role() == mirror.Master && c.LeasesHeld()
	outs, more, err := c.process.Flush(held, func() bool {
		if held = c.askLeases(); !held { // it has read from the disk, too
			c.log.Warn("a lease lapsed while messages were read; nothing of it is delivered, and the queue's nodes attach anew", "epoch", c.q.Epoch)
			c.forgetLetters()
		}
		return held
	})
	if !c.check(err) {
		return
	}
	for _, o := range outs {
		c.carryOut(o)
	}
	if !c.check(c.lettersGone()) {
		return
	}
	if !c.check(c.replica.Flush()) {
		return
	}
	c.noteRing()
	if c.replica.Role() == mirror.Master && !held {
		c.life.noteLapsed(c)
	} else {
		c.setWake()
	}
	if more || c.flushAgain || held && c.process.Due() {
		c.flushAgain = false
		c.post(evFlush{})
	}
}

// setWake asks to be woken when the queue process wants it.
func (c *queueCopy) setWake() {
	if at := c.process.Wake(); at != c.wakeAt {
		c.wakeAt = at
		c.life.wakes.set(c, at)
	}
}

// configure tells the queue process what arguments and policies say now.
func (c *queueCopy) configure(q *state.Queue) {
	var settings queue.Settings
	settings, c.dead = settingsOf(q, c.args)
	c.process.Configure(settings)
}

func (c *queueCopy) carryOut(o queue.Output) {
	switch o.Kind {
	case queue.ToNode:
		c.life.toNode(c.id, o.Node, o.Message)
	case queue.FirstConsumer:
		c.background("remember that the queue had a consumer", func(ctx context.Context) error {
			return c.life.noteConsumer(ctx, c.q)
		})
	case queue.DeadLetter:
		c.sendLetter(&o.Letter)
	case queue.LettersBuried:
		c.buried(o.Positions)
	case queue.Unused:
		q := c.q
		c.background("delete a queue that nobody uses", func(ctx context.Context) error {
			_, err := c.life.deleteQueue(ctx, q, nil, true, false)
			return err
		})
	case queue.LastConsumerGone:
		q := c.q
		c.background("delete an auto-delete queue", func(ctx context.Context) error {
			_, err := c.life.deleteQueue(ctx, q, nil, true, false)
			return err
		})
	}
}

// background runs a proposal of this copy's that nobody waits for.
func (c *queueCopy) background(what string, f func(context.Context) error) {
	c.life.spawn(func() {
		ctx, cancel := context.WithTimeout(c.life.ctx, proposeTimeout)
		defer cancel()
		if err := f(ctx); err != nil && c.life.ctx.Err() == nil {
			c.log.Warn(what+": failed", "error", err)
		}
	})
}

// check ends the life if the copy has failed: what it vouched for is in doubt, so its node must not count as up with it.
func (c *queueCopy) check(err error) bool {
	if err == nil {
		return true
	}
	c.failed = true
	c.life.fail(fmt.Errorf("copy of queue '%s' in vhost '%s' failed: %w", c.q.Name, c.q.Vhost, err))
	return false
}

// assign brings the copy in line with the queue's record.
func (c *queueCopy) assign(q *state.Queue) error {
	c.q = q
	c.configure(q)
	c.endOffer()
	m, ok := q.Member(c.life.self.Name)
	if !ok {
		return c.leave()
	}
	if m.Incarnation != c.life.self.Incarnation || m.State == state.MemberAway {
		return nil // the metadata think of an earlier or a later life
	}
	if c.replica != nil && c.replica.Role() != mirror.Idle &&
		(m.State == state.MemberJoining || c.replica.Self().JoinIndex != m.JoinIndex) {
		if err := c.closeStore(); err != nil {
			return err
		}
	}
	if err := c.open(); err != nil {
		return err
	}
	if m.State == state.MemberJoining {
		c.join(q)
		return nil
	}
	c.process.SetInSync(inSync(q))
	if q.HadConsumers {
		c.process.HadConsumers()
	}
	a := assignment(q)
	a.Sync = c.syncPolicy(q)
	if err := c.replica.Assign(a); err != nil {
		return err
	}
	c.forgetJoiners(q)
	if c.replica.Role() == mirror.Promoting && c.asked < q.ViewVersion {
		c.askGrants(q)
	}
	c.endMove()
	c.review()
	return nil
}

// leave deletes this node's copy: no place is kept for it.
func (c *queueCopy) leave() error {
	if err := c.open(); err != nil {
		return err
	}
	return c.end(c.replica.Delete())
}

func (c *queueCopy) deleted() error {
	c.endOffer()
	if err := c.open(); err != nil {
		return err
	}
	return c.end(c.replica.Assign(mirror.Assignment{Status: mirror.Deleted}))
}

// end closes the actor after the copy was deleted.
func (c *queueCopy) end(err error) error {
	c.resign()
	c.life.wakes.set(c, 0)
	c.master.Store(false)
	c.replica = nil
	c.countSync()
	c.life.mu.Lock()
	if c.life.copies[c.id] == c {
		delete(c.life.copies, c.id)
	}
	c.life.mu.Unlock()
	c.actor.Close()
	return err
}

// open opens the copy's store and makes its replica, unless that was done.
func (c *queueCopy) open() error {
	if c.replica != nil {
		return nil
	}
	recovery, err := c.openStore()
	if err != nil {
		return err
	}
	if recovery.Damaged {
		c.log.Error("this copy lost something on disk; its peers will repair it", "detail", recovery.Detail)
	}
	c.replica, err = mirror.New(mirror.Config{
		Queue: c.id, VHost: c.q.Vhost, Name: c.q.Name, Node: c.life.self.Name, Incarnation: c.life.self.Incarnation,
		Durable: c.q.Durable, Store: c.opened, Recovery: recovery, Env: c,
	})
	if err != nil {
		return errors.Join(err, c.opened.Close())
	}
	return nil
}

func (c *queueCopy) openStore() (backingqueue.Recovery, error) {
	opened, recovery, err := c.life.node.store.Open(c.id, backingqueue.Options{Durable: c.q.Durable, OnDurable: c.onDurable})
	if err != nil {
		return recovery, fmt.Errorf("open this node's copy of queue '%s' in vhost '%s': %w", c.q.Name, c.q.Vhost, err)
	}
	c.opened, c.found = opened, recovery.Found
	return recovery, nil
}

// onDurable is called by the store's goroutine.
func (c *queueCopy) onDurable(backingqueue.LSN) {
	if !c.durable.Swap(true) {
		c.post(evDurable{})
	}
}

// closeStore ends the replica; its content stays on disk.
func (c *queueCopy) closeStore() error {
	c.resign()
	r := c.replica
	c.replica = nil
	c.countSync()
	if r == nil {
		return nil
	}
	return r.Close()
}

// shut ends the copy with the life; its content stays on disk.
func (c *queueCopy) shut(ctx context.Context) error {
	var closing error
	err := c.actor.Do(ctx, func() {
		c.endOffer()
		c.failed = true
		c.life.wakes.set(c, 0)
		closing = c.closeStore()
	})
	c.actor.Close()
	if errors.Is(err, driver.ErrClosed) {
		err = nil // it ended by itself
	}
	return errors.Join(err, closing)
}

func (c *queueCopy) nodesChanged(ev evNodes) error {
	if err := c.process.SetNodes(ev.up); err != nil {
		return err
	}
	delete(c.joiners, ev.gone)
	c.forgetHoldOffs(ev.gone)
	if c.replica != nil && ev.gone.Name != "" {
		return c.replica.NodeDown(ev.gone.Name, ev.gone.Incarnation)
	}
	return nil
}

// inSync says whether as many members are synchronised as the policy asks for.
func inSync(q *state.Queue) bool {
	least := q.Effective.HA().MinInSync
	if least <= 1 || !q.Mirrored() {
		return true
	}
	synchronised := 0
	for _, m := range q.Members {
		if m.State == state.MemberUp && m.Synchronised {
			synchronised++
		}
	}
	return synchronised >= least
}

// assignment is what the replica needs of the queue's record.
func assignment(q *state.Queue) mirror.Assignment {
	a := mirror.Assignment{
		Mirrored: q.Mirrored(), Status: mirror.Running, Epoch: q.Epoch, LastLossEpoch: q.LastLossEpoch,
		Recovering: len(q.LastSynchronised) > 0, View: gm.View{Version: q.ViewVersion},
	}
	if q.Status == state.QueueDown {
		a.Status, a.Recovering = mirror.Down, false
	}
	for _, m := range q.Members {
		if m.State != state.MemberUp {
			continue
		}
		member := gm.Member{Node: m.Node, Incarnation: m.Incarnation, JoinIndex: m.JoinIndex}
		a.View.Members = append(a.View.Members, member)
		a.Synchronised = append(a.Synchronised, m.Synchronised)
		if m.Node == q.Master {
			a.Master = member
		}
	}
	return a
}
