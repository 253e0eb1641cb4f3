package amqp

import (
	"context"
	"errors"
	"slices"
	"sync"

	"warren/dataplane/exchange"
	"warren/dataplane/message"
)

// fakeBroker is a Backend in memory: one lock, classic queues, prefetch, windows.
type fakeBroker struct {
	mu       sync.Mutex
	tab      *exchange.Table
	queues   map[string]*fakeQueue
	sessions int
	channels int
	secret   string

	// holdConfirms keeps confirms until release; refuse nacks every publish to the queue of that name.
	holdConfirms bool
	held         []heldConfirm
	refuse       string
	gate         chan struct{} // handed out by Publish
	overWindow   bool          // ignore windows
	published    int
	declareHook  func(ctx context.Context, name string) error
}

type heldConfirm struct {
	sink Sink
	seq  uint64
}

type fakeMessage struct {
	seq         uint64
	redelivered bool
	m           message.Message
}

type fakeQueue struct {
	name       string
	owner      *fakeSession
	autoDelete bool
	nextSeq    uint64
	messages   []fakeMessage
	consumers  []*fakeConsumer
}

type fakeConsumer struct {
	ch       *fakeChannel
	q        *fakeQueue
	c        Consume
	unacked  int
	inFlight int
	bytes    int64
}

type fakeSession struct {
	b    *fakeBroker
	info ConnectionInfo
}

type fakeChannel struct {
	s         *fakeSession
	info      ChannelInfo
	sink      Sink
	scratch   exchange.Scratch
	consumers map[string]*fakeConsumer
	unacked   map[*fakeUnacked]struct{}
	global    int
	gathered  []fakeAnswer // until Flush
}

type fakeAnswer struct {
	seq uint64
	ok  bool
}

type fakeUnacked struct {
	q    *fakeQueue
	cons *fakeConsumer
	m    fakeMessage
}

func newFakeBroker() *fakeBroker {
	b := &fakeBroker{tab: exchange.NewTable(), queues: map[string]*fakeQueue{}}
	for _, typ := range []string{"direct", "fanout", "topic", "headers"} {
		if err := b.tab.Declare(exchange.Exchange{Name: "amq." + typ, Type: typ}); err != nil {
			panic(err)
		}
	}
	return b
}

func (b *fakeBroker) Authenticate(_ context.Context, c Credentials) (User, error) {
	if c.Username == "broken" {
		return User{}, errors.New("the user store is on fire")
	}
	if c.Username != "guest" || c.Password != "guest" {
		return User{}, Errorf(AccessRefused, "user '%s' - invalid credentials", c.Username)
	}
	return User{Name: c.Username}, nil
}

func (b *fakeBroker) Open(_ context.Context, c ConnectionInfo) (Session, error) {
	if c.VHost != "/" {
		return nil, Errorf(NotAllowed, "vhost %s not found", c.VHost)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sessions++
	return &fakeSession{b, c}, nil
}

func (s *fakeSession) OpenChannel(_ context.Context, c ChannelInfo, sink Sink) (ChannelBackend, error) {
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	s.b.channels++
	return &fakeChannel{s: s, info: c, sink: sink, consumers: map[string]*fakeConsumer{}, unacked: map[*fakeUnacked]struct{}{}}, nil
}

func (s *fakeSession) UpdateSecret(_ context.Context, secret, _ string) error {
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	s.b.secret = secret
	return nil
}

func (s *fakeSession) Close(context.Context) {
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	s.b.sessions--
	for name, q := range s.b.queues {
		if q.owner == s {
			s.b.drop(name)
		}
	}
}

func (b *fakeBroker) drop(name string) {
	q := b.queues[name]
	delete(b.queues, name)
	for _, c := range q.consumers {
		delete(c.ch.consumers, c.c.Tag)
		c.ch.sink.ConsumerCancelled(c.c.Tag)
	}
}

func (b *fakeBroker) deleteQueue(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.drop(name)
}

// release confirms what is held, in the order that the indices say.
func (b *fakeBroker) release(ok bool, order ...int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, i := range order {
		b.held[i].sink.Confirm([]uint64{b.held[i].seq}, ok)
	}
}

func (b *fakeBroker) count(f func() int) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return f()
}

func (c *fakeChannel) Check(p Publish) error {
	m := exchange.Message{Exchange: p.Message.Exchange, Key: p.Message.RoutingKey}
	c.s.b.mu.Lock()
	defer c.s.b.mu.Unlock()
	if _, err := c.s.b.tab.Route(&c.scratch, m); err != nil {
		return Errorf(NotFound, "no exchange '%s' in vhost '/'", p.Message.Exchange)
	}
	return nil
}

func (c *fakeChannel) Publish(p Publish) (<-chan struct{}, error) {
	b := c.s.b
	b.mu.Lock()
	defer b.mu.Unlock()
	b.published++
	m := exchange.Message{Exchange: p.Message.Exchange, Key: p.Message.RoutingKey, Headers: func() map[string]any {
		t, _ := HeadersOf(p.Message.Properties)
		return t
	}}
	names, err := b.tab.Route(&c.scratch, m)
	if err != nil {
		return nil, Errorf(NotFound, "no exchange '%s' in vhost '/'", p.Message.Exchange)
	}
	taken, ok := false, true
	for _, name := range names {
		q := b.queues[name]
		if q == nil {
			continue
		}
		taken = true
		if name == b.refuse {
			ok = false
			continue
		}
		q.nextSeq++
		q.messages = append(q.messages, fakeMessage{seq: q.nextSeq, m: p.Message})
		q.dispatch()
	}
	if !taken && p.Mandatory {
		c.sink.Return(NoRoute, "NO_ROUTE", p.Message)
	}
	switch {
	case p.Seq != 0 && b.holdConfirms:
		b.held = append(b.held, heldConfirm{c.sink, p.Seq})
	case p.Seq != 0:
		c.gathered = append(c.gathered, fakeAnswer{p.Seq, ok})
	}
	return b.gate, nil
}

// Flush answers what was published: a channel that forgets it leaves its client waiting.
func (c *fakeChannel) Flush() {
	c.s.b.mu.Lock()
	defer c.s.b.mu.Unlock()
	for _, a := range c.gathered {
		c.sink.Confirm([]uint64{a.seq}, a.ok)
	}
	c.gathered = nil
}

func (q *fakeQueue) dispatch() {
	for idle := 0; len(q.messages) > 0 && idle < len(q.consumers); {
		c := q.consumers[0]
		q.consumers = append(q.consumers[1:], c)
		if !c.room() {
			idle++
			continue
		}
		idle = 0
		m := q.messages[0]
		q.messages = q.messages[1:]
		d := Delivery{ConsumerTag: c.c.Tag, Redelivered: m.redelivered, Message: m.m}
		c.inFlight++
		c.bytes += int64(len(m.m.Body))
		if !c.c.NoAck {
			u := &fakeUnacked{q, c, m}
			c.ch.unacked[u] = struct{}{}
			c.unacked++
			d.Token = Token{Ref: u}
		}
		c.ch.sink.Deliver([]Delivery{d})
	}
}

func (c *fakeConsumer) room() bool {
	if c.ch.s.b.overWindow {
		return true
	}
	if c.c.Prefetch != 0 && c.unacked >= int(c.c.Prefetch) && !c.c.NoAck {
		return false
	}
	if c.ch.global != 0 && len(c.ch.unacked) >= c.ch.global && !c.c.NoAck {
		return false
	}
	return c.inFlight < c.c.WindowMessages && c.bytes < c.c.WindowBytes
}

func (c *fakeChannel) Settle(o Outcome, tokens []Token) {
	b := c.s.b
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, t := range tokens {
		u := t.Ref.(*fakeUnacked)
		if _, ok := c.unacked[u]; !ok {
			panic("settled twice")
		}
		c.settle(u, o == Requeued)
	}
}

func (c *fakeChannel) settle(u *fakeUnacked, requeue bool) {
	delete(c.unacked, u)
	if u.cons != nil {
		u.cons.unacked--
	}
	if requeue {
		u.m.redelivered = true
		i, _ := slices.BinarySearchFunc(u.q.messages, u.m.seq, func(m fakeMessage, seq uint64) int { return int(m.seq) - int(seq) })
		u.q.messages = slices.Insert(u.q.messages, i, u.m)
	}
	u.q.dispatch()
}

func (c *fakeChannel) ExchangeDeclare(_ context.Context, d ExchangeDeclare) error {
	b := c.s.b
	b.mu.Lock()
	defer b.mu.Unlock()
	if d.Passive || b.tab.Has(d.Name) {
		if !b.tab.Has(d.Name) {
			return Errorf(NotFound, "no exchange '%s' in vhost '/'", d.Name)
		}
		return nil
	}
	if err := b.tab.Declare(exchange.Exchange{Name: d.Name, Type: d.Type, Args: d.Arguments}); err != nil {
		return Errorf(CommandInvalid, "unknown exchange type '%s'", d.Type)
	}
	return nil
}

func (c *fakeChannel) ExchangeDelete(_ context.Context, d ExchangeDelete) error {
	b := c.s.b
	b.mu.Lock()
	defer b.mu.Unlock()
	if d.IfUnused && b.tab.Bindings(d.Name) > 0 {
		return Errorf(PreconditionFailed, "exchange '%s' in vhost '/' in use", d.Name)
	}
	b.tab.Delete(d.Name)
	return nil
}

func (c *fakeChannel) bind(x Binding, toExchange, unbind bool) error {
	b := c.s.b
	b.mu.Lock()
	defer b.mu.Unlock()
	if !toExchange && b.queues[x.Destination] == nil {
		return Errorf(NotFound, "no queue '%s' in vhost '/'", x.Destination)
	}
	eb := exchange.Binding{Source: x.Source, Destination: x.Destination, ToExchange: toExchange, Key: x.RoutingKey, Args: x.Arguments}
	if unbind {
		b.tab.Unbind(eb)
		return nil
	}
	if b.tab.Bind(eb) != nil {
		return Errorf(NotFound, "no exchange '%s' in vhost '/'", x.Source)
	}
	return nil
}

func (c *fakeChannel) ExchangeBind(_ context.Context, x Binding) error { return c.bind(x, true, false) }
func (c *fakeChannel) ExchangeUnbind(_ context.Context, x Binding) error {
	return c.bind(x, true, true)
}
func (c *fakeChannel) QueueBind(_ context.Context, x Binding) error   { return c.bind(x, false, false) }
func (c *fakeChannel) QueueUnbind(_ context.Context, x Binding) error { return c.bind(x, false, true) }

func (c *fakeChannel) QueueDeclare(ctx context.Context, d QueueDeclare) (QueueInfo, error) {
	b := c.s.b
	if b.declareHook != nil {
		if err := b.declareHook(ctx, d.Name); err != nil {
			return QueueInfo{}, err
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	q := b.queues[d.Name]
	if q == nil {
		if d.Passive {
			return QueueInfo{}, Errorf(NotFound, "no queue '%s' in vhost '/'", d.Name)
		}
		q = &fakeQueue{name: d.Name, autoDelete: d.AutoDelete}
		if d.Exclusive {
			q.owner = c.s
		}
		b.queues[d.Name] = q
	}
	if q.owner != nil && q.owner != c.s {
		return QueueInfo{}, Errorf(ResourceLocked, "cannot obtain exclusive access to locked queue '%s' in vhost '/'", d.Name)
	}
	return QueueInfo{q.name, uint32(len(q.messages)), uint32(len(q.consumers))}, nil
}

func (c *fakeChannel) QueueDelete(_ context.Context, d QueueDelete) (uint32, error) {
	b := c.s.b
	b.mu.Lock()
	defer b.mu.Unlock()
	q := b.queues[d.Name]
	if q == nil {
		return 0, nil
	}
	if d.IfEmpty && len(q.messages) > 0 {
		return 0, Errorf(PreconditionFailed, "queue '%s' in vhost '/' not empty", d.Name)
	}
	b.drop(d.Name)
	return uint32(len(q.messages)), nil
}

func (c *fakeChannel) queue(name string) (*fakeQueue, error) {
	if q := c.s.b.queues[name]; q != nil {
		return q, nil
	}
	return nil, Errorf(NotFound, "no queue '%s' in vhost '/'", name)
}

func (c *fakeChannel) QueuePurge(_ context.Context, name string) (uint32, error) {
	c.s.b.mu.Lock()
	defer c.s.b.mu.Unlock()
	q, err := c.queue(name)
	if err != nil {
		return 0, err
	}
	n := len(q.messages)
	q.messages = nil
	return uint32(n), nil
}

func (c *fakeChannel) Consume(_ context.Context, x Consume) error {
	c.s.b.mu.Lock()
	defer c.s.b.mu.Unlock()
	q, err := c.queue(x.Queue)
	if err != nil {
		return err
	}
	cons := &fakeConsumer{ch: c, q: q, c: x}
	c.consumers[x.Tag] = cons
	q.consumers = append(q.consumers, cons)
	q.dispatch()
	return nil
}

func (c *fakeChannel) Cancel(_ context.Context, tag string) error {
	c.s.b.mu.Lock()
	defer c.s.b.mu.Unlock()
	c.cancel(tag)
	return nil
}

func (c *fakeChannel) cancel(tag string) {
	cons := c.consumers[tag]
	if cons == nil {
		return
	}
	delete(c.consumers, tag)
	cons.q.consumers = slices.DeleteFunc(cons.q.consumers, func(x *fakeConsumer) bool { return x == cons })
}

func (c *fakeChannel) Get(_ context.Context, name string, noAck bool) (Got, bool, error) {
	c.s.b.mu.Lock()
	defer c.s.b.mu.Unlock()
	q, err := c.queue(name)
	if err != nil || len(q.messages) == 0 {
		return Got{}, false, err
	}
	m := q.messages[0]
	q.messages = q.messages[1:]
	g := Got{Redelivered: m.redelivered, Message: m.m, Messages: uint32(len(q.messages))}
	if !noAck {
		u := &fakeUnacked{q: q, m: m}
		c.unacked[u] = struct{}{}
		g.Token = Token{Ref: u}
	}
	return g, true, nil
}

func (c *fakeChannel) Qos(_ context.Context, global uint16) error {
	c.s.b.mu.Lock()
	defer c.s.b.mu.Unlock()
	c.global = int(global)
	return nil
}

func (c *fakeChannel) Drained(tag string, n int, bytes int64) {
	c.s.b.mu.Lock()
	defer c.s.b.mu.Unlock()
	cons := c.consumers[tag]
	if cons == nil {
		return
	}
	cons.inFlight -= n
	cons.bytes -= bytes
	cons.q.dispatch()
}

func (c *fakeChannel) Close(context.Context) {
	c.s.b.mu.Lock()
	defer c.s.b.mu.Unlock()
	c.s.b.channels--
	for tag := range c.consumers {
		c.cancel(tag)
	}
	for u := range c.unacked {
		c.settle(u, true)
	}
}
