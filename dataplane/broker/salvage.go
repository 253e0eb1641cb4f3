package broker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"warren/dataplane/amqp"
	"warren/dataplane/backingqueue"
	"warren/dataplane/backingqueue/store"
	"warren/dataplane/exchange"
	"warren/dataplane/message"
	"warren/metadata/state"
)

// What is published again before it is waited for and marked as published: what a crash may have published twice.
const (
	salvageBatch = 512
	salvageBytes = 8 << 20
)

// Salvage says what to publish again, and where.
type Salvage struct {
	Set string // its name on this node
	// Where to; Queue, or Exchange with RoutingKey. Nothing of it: the queue that the set is of.
	VHost, Queue, Exchange, RoutingKey string
	Restart                            bool // from the first message, whatever was published before
	Keep                               bool // do not remove the set when all is published
}

// Salvaged says what came of it.
type Salvaged struct {
	Published int    // now
	Before    int    // by earlier calls
	Kept      bool   // the set is still there
	Damage    string // what of it cannot be read, and so was not published
	VHost     string
	Target    string // a queue or an exchange
}

// Asides are the sets of messages that copies on this node had to give up, oldest first.
func (n *Node) Asides() ([]store.AsideSet, error) {
	sets, err := n.store.Asides()
	for i := range sets {
		n.nameAside(&sets[i])
	}
	return sets, err
}

// nameAside adds whose messages a set holds where the set does not say it and the queue still exists.
func (n *Node) nameAside(set *store.AsideSet) {
	if set.Label.Name != "" {
		return
	}
	if q, ok := n.queueByID(set.Queue); ok {
		set.VHost, set.Label.Name = q.Vhost, q.Name
	}
}

func (n *Node) queueByID(id backingqueue.ID) (found *state.Queue, ok bool) {
	n.meta.View(func(s *state.State) { found, ok = s.QueueByID(uint64(id)) })
	return found, ok
}

// label is what is written beside what this copy sets aside.
func (c *queueCopy) label(why string) store.Label {
	return store.Label{VHost: c.q.Vhost, Name: c.q.Name, Why: why}
}

// SalvageSet publishes a set of messages again, in order, each with a header x-salvaged, waits until all are confirmed, and removes
// the set. Every 512 messages it writes down how far it is: a later call goes on there, and what a crash can double is less than
// that. The error says how far it came and what to do; ctx ends it like a crash. Errors: ErrNotUp, an *amqp.Error about the
// target, backingqueue.ErrNotFound, ErrOpen.
func (n *Node) SalvageSet(ctx context.Context, s Salvage) (out Salvaged, err error) {
	l := n.currentLife()
	if l == nil {
		return out, ErrNotUp
	}
	a, err := n.store.OpenAside(s.Set)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	if s.Restart {
		a.Restart()
	}
	out.Before, out.Kept = a.Set.Published, true
	for _, d := range a.Damage {
		out.Damage += d + "\n"
	}
	p, err := l.newSalvager(a, &s)
	if err != nil {
		return out, err
	}
	out.VHost, out.Target = s.VHost, p.target
	defer p.close()
	err = p.run(ctx)
	out.Published = a.Set.Published - out.Before
	log := l.log.With("set", a.Set.Path, "vhost", s.VHost, "target", p.target, "messages", out.Published)
	if err != nil {
		log.Warn("publishing again what was set aside came to an end before its end", "error", err)
		return out, fmt.Errorf("publish again what was set aside as %s to %s: %d of %d messages are published (the same command goes on there; "+
			"at most the %d after them may come twice): %w", s.Set, p.target, a.Set.Published, a.Set.Messages, salvageBatch, err)
	}
	log.Info("what was set aside is published again", "kept", s.Keep || out.Damage != "")
	if s.Keep || out.Damage != "" {
		return out, nil
	}
	out.Kept = false
	return out, a.Remove()
}

// salvager publishes a set as a client's channel would. It is its channel's sink.
type salvager struct {
	life   *life
	aside  *store.Aside
	to     Salvage
	target string
	ch     *channel

	seq     uint64 // of the newest publish
	pending []pendingSalvage
	bytes   int

	mu      sync.Mutex
	answers map[uint64]bool
	told    chan struct{} // has room for one
}

type pendingSalvage struct{ seq, position uint64 }

// newSalvager finds the target; s is completed with what it does not say.
func (l *life) newSalvager(a *store.Aside, s *Salvage) (*salvager, error) {
	l.node.nameAside(&a.Set)
	if s.VHost == "" {
		s.VHost = a.Set.VHost
	}
	if s.Queue == "" && s.Exchange == "" {
		s.Queue = a.Set.Label.Name
	}
	p := &salvager{life: l, aside: a, to: *s, answers: map[uint64]bool{}, told: make(chan struct{}, 1)}
	switch {
	case s.Exchange != "":
		p.target = fmt.Sprintf("exchange '%s' in vhost '%s'", s.Exchange, s.VHost)
	case s.Queue == "":
		return nil, amqp.Errorf(amqp.PreconditionFailed, "it is not known which queue %s was of: name a queue or an exchange", s.Set)
	default:
		p.target = fmt.Sprintf("queue '%s' in vhost '%s'", s.Queue, s.VHost)
		if _, ok := l.routes.queue(s.VHost, s.Queue); !ok {
			return nil, noQueue(s.Queue, s.VHost)
		}
	}
	sess := &session{life: l, info: amqp.ConnectionInfo{VHost: s.VHost}}
	p.ch = newChannel(sess, amqp.ChannelInfo{}, p, l.operatorChannel())
	return p, nil
}

func (p *salvager) close() {
	for a := range p.ch.used {
		a.closeChannel(p.ch)
	}
}

func (p *salvager) run(ctx context.Context) error {
	for e, err := range p.aside.Messages() {
		if err != nil {
			return err
		}
		if err := p.publish(ctx, &e); err != nil {
			return errors.Join(err, p.settle(ctx))
		}
		if len(p.pending) < salvageBatch && p.bytes < salvageBytes {
			continue
		}
		if err := p.settle(ctx); err != nil {
			return err
		}
	}
	return p.settle(ctx)
}

// publish waits while a node is short of something, as a client would have to.
func (p *salvager) publish(ctx context.Context, e *backingqueue.Entry) error {
	for p.life.node.alarms.all() != 0 {
		if err := p.wait(ctx, nil, alarmHurry); err != nil {
			return err
		}
	}
	set := &p.aside.Set
	key, exchange := p.to.RoutingKey, p.to.Exchange
	if exchange == "" {
		key = p.to.Queue
	} else if key == "" {
		key = e.Message.RoutingKey
	}
	m, err := amqp.Salvaged(&e.Message, amqp.Salvage{
		Node: p.life.self.Name, VHost: set.VHost, Queue: set.Label.Name, Set: set.Name, Reason: set.Why, Position: e.Seq,
		Time: amqp.Timestamp(set.When.Unix()),
	}, exchange, key)
	if err != nil {
		return err
	}
	targets, err := p.route(&m)
	if err != nil {
		return err
	}
	p.seq++
	p.pending, p.bytes = append(p.pending, pendingSalvage{p.seq, e.Seq}), p.bytes+len(m.Body)
	wait := p.ch.publishAll(targets, p.seq, m)
	p.ch.Flush()
	if wait == nil {
		return nil
	}
	return p.wait(ctx, wait, 0)
}

func (p *salvager) route(m *message.Message) (targets []*attachment, err error) {
	err = p.life.routes.route(p.to.VHost, m, &p.ch.scratch, func(q *state.Queue) {
		targets = append(targets, p.life.attachment(backingqueue.ID(q.ID)))
	})
	var unknown *exchange.UnknownExchangeError
	if errors.As(err, &unknown) {
		return nil, amqp.Errorf(amqp.NotFound, "no %s", p.target)
	}
	if err == nil && len(targets) == 0 {
		err = amqp.Errorf(amqp.NoRoute, "no queue takes a message with routing key '%s' from %s", m.RoutingKey, p.target)
	}
	for _, a := range targets {
		p.ch.used[a] = true
	}
	return targets, err
}

// wait waits until gate is closed or has something, or until some time has passed, if after is not 0.
func (p *salvager) wait(ctx context.Context, gate <-chan struct{}, after time.Duration) error {
	var passed <-chan time.Time
	if after > 0 {
		passed = time.After(after)
	}
	select {
	case <-gate:
	case <-passed:
	case <-ctx.Done():
		return ctx.Err()
	case <-p.life.ctx.Done():
		return ErrNotUp
	}
	return nil
}

// settle waits until all that is under way is answered, and marks as published what was confirmed, up to the first that was not.
func (p *salvager) settle(ctx context.Context) error {
	pending := p.pending
	p.pending, p.bytes = nil, 0
	var waiting error
	for waiting == nil && !p.answered(pending) {
		waiting = p.wait(ctx, p.told, 0)
	}
	p.mu.Lock()
	n := 0
	for n < len(pending) && p.answers[pending[n].seq] {
		n++
	}
	clear(p.answers)
	p.mu.Unlock()
	if n > 0 {
		if err := p.aside.Mark(pending[n-1].position, n); err != nil {
			return errors.Join(waiting, err)
		}
	}
	if waiting == nil && n < len(pending) {
		waiting = fmt.Errorf("message %d was refused: its queue is full, down or deleted, or too few of its mirrors are in sync", pending[n].position)
	}
	return waiting
}

func (p *salvager) answered(pending []pendingSalvage) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.answers) >= len(pending)
}

// Confirm implements amqp.Sink.
func (p *salvager) Confirm(seqs []uint64, ok bool) {
	p.mu.Lock()
	for _, seq := range seqs {
		p.answers[seq] = ok
	}
	p.mu.Unlock()
	select {
	case p.told <- struct{}{}:
	default:
	}
}

// Deliver, Return, ConsumerCancelled and Fail implement amqp.Sink: nothing is consumed, and what nobody takes is noticed before.
func (p *salvager) Deliver([]amqp.Delivery)                {}
func (p *salvager) Return(uint16, string, message.Message) {}
func (p *salvager) ConsumerCancelled(string)               {}
func (p *salvager) Fail(error)                             {}
