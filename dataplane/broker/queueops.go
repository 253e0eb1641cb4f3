package broker

import (
	"context"
	"errors"
	"sync"
	"time"

	"warren/dataplane/amqp"
	"warren/dataplane/backingqueue"
	"warren/dataplane/origin"
	"warren/dataplane/queue/protocol"
	"warren/metadata/state"
)

// call asks a queue's master on behalf of the channel.
func (c *channel) call(ctx context.Context, q *state.Queue, start func(core *origin.Attachment) (uint64, error)) (*origin.Reply, error) {
	a := c.sess.life.attachment(backingqueue.ID(q.ID))
	c.used[a] = true
	r, err := a.call(ctx, c, start)
	if err != nil {
		return nil, callError(q, err)
	}
	return r, nil
}

// Consume implements amqp.ChannelBackend.
func (c *channel) Consume(ctx context.Context, r amqp.Consume) error {
	if r.Queue == replyTo {
		return c.consumeReplies(r)
	}
	if err := c.sess.access.read(r.Queue); err != nil {
		return err
	}
	q, err := c.sess.queue(r.Queue)
	if err != nil {
		return err
	}
	args, err := consumerArguments(r, q.Vhost, c.sess.info.ClientProperties)
	if err != nil {
		return err
	}
	c.drawn[c.sess.life.attachment(backingqueue.ID(q.ID))] = true
	if args.Exclusive && singleActive(q) {
		return callError(q, protocol.ErrExclusiveConsumer)
	}
	c.showConsumer(r, args.Args)
	own := args.Prefetch
	c.mu.Lock()
	args.Prefetch = c.global.share(own)
	c.mu.Unlock()
	reply, err := c.call(ctx, q, func(core *origin.Attachment) (uint64, error) { return core.Consume(c.key, args) })
	if err != nil {
		c.hideConsumer(r.Tag)
		return err
	}
	a := c.sess.life.attachment(backingqueue.ID(q.ID))
	c.mu.Lock()
	c.consumers[r.Tag] = consumerPlace{a, own}
	c.mu.Unlock()
	if q.AutoDelete && !q.HadConsumers && reply.Code == 0 {
		return c.sess.life.noteConsumer(ctx, q)
	}
	return nil
}

// noteConsumer records that an auto-delete queue had a consumer, so that a new master knows it (reference Q3).
func (l *life) noteConsumer(ctx context.Context, q *state.Queue) error {
	_, err := l.propose(ctx, &state.SetHadConsumers{Queue: q.ID})
	if errors.Is(err, state.ErrNotFound) {
		return nil
	}
	return refusal(err)
}

// Cancel implements amqp.ChannelBackend.
func (c *channel) Cancel(ctx context.Context, tag string) error {
	c.mu.Lock()
	a := c.consumers[tag].at
	delete(c.consumers, tag)
	delete(c.shown, tag)
	c.mu.Unlock()
	if a == nil {
		c.endReplies(tag)
		return nil
	}
	_, err := a.call(ctx, c, func(core *origin.Attachment) (uint64, error) { return core.Cancel(c.key, tag) })
	c.mu.Lock()
	unseen := c.global.drop(tag)
	c.mu.Unlock()
	if len(unseen) > 0 {
		c.Settle(amqp.Requeued, unseen)
	}
	if errors.Is(err, origin.ErrClosed) || errors.Is(err, protocol.ErrDeleted) || errors.Is(err, protocol.ErrDown) {
		return nil // the consumer is gone with its queue
	}
	return err
}

// Get implements amqp.ChannelBackend.
func (c *channel) Get(ctx context.Context, name string, noAck bool) (amqp.Got, bool, error) {
	if err := c.sess.access.read(name); err != nil {
		return amqp.Got{}, false, err
	}
	q, err := c.sess.queue(name)
	if err != nil {
		return amqp.Got{}, false, err
	}
	a := c.sess.life.attachment(backingqueue.ID(q.ID))
	c.drawn[a] = true
	r, err := c.call(ctx, q, func(core *origin.Attachment) (uint64, error) { return core.Get(c.key, noAck) })
	if err != nil || r.Get == nil {
		return amqp.Got{}, false, err
	}
	return amqp.Got{
		Token:       amqp.Token{Ref: a, Pos: r.Get.ID},
		Redelivered: r.Get.Redelivered, Message: r.Get.Message, Messages: uint32(r.Messages),
	}, true, nil
}

// QueuePurge implements amqp.ChannelBackend.
func (c *channel) QueuePurge(ctx context.Context, name string) (uint32, error) {
	if err := c.sess.access.read(name); err != nil {
		return 0, err
	}
	q, err := c.sess.queue(name)
	if err != nil {
		return 0, err
	}
	r, err := c.call(ctx, q, func(core *origin.Attachment) (uint64, error) { return core.Purge(c.key) })
	if err != nil {
		return 0, err
	}
	return uint32(r.Messages), nil
}

// Qos implements amqp.ChannelBackend.
func (c *channel) Qos(_ context.Context, globalPrefetch uint16) error {
	places, shares := map[string]*attachment{}, map[string]uint32{}
	c.mu.Lock()
	released := c.global.set(int(globalPrefetch))
	for tag, k := range c.consumers {
		places[tag], shares[tag] = k.at, c.global.share(k.prefetch)
	}
	c.mu.Unlock()
	for tag, a := range places {
		a.do(func(core *origin.Attachment) { core.SetPrefetch(c.key, tag, shares[tag]) })
	}
	if len(released) > 0 {
		c.sink.Deliver(released)
	}
	return nil
}

// Close implements amqp.ChannelBackend: publishes that were taken go on, what was not settled goes back to its queues.
func (c *channel) Close(ctx context.Context) {
	defer c.sess.closedChannel(c)
	c.endReplies("")
	c.mu.Lock()
	wait := c.wait
	c.mu.Unlock()
	if wait != nil {
		select {
		case <-wait:
		case <-ctx.Done():
		}
	}
	for a := range c.used {
		a.closeChannel(c)
	}
	ctx, cancel := context.WithTimeout(ctx, fenceTimeout)
	defer cancel()
	var wg sync.WaitGroup
	for a := range c.drawn {
		wg.Go(func() { a.fence(ctx) })
	}
	wg.Wait()
}

// fenceTimeout bounds how long the close of a channel waits for masters; one that is just being replaced is not waited for.
const fenceTimeout = time.Second

// fence waits until the queue's master has all that a channel, which was closed just now, gave back: a consumer that the
// client starts elsewhere then finds it in its place. What was under way here comes before the first answer and goes back
// before the second question.
func (a *attachment) fence(ctx context.Context) {
	key := a.life.operatorChannel()
	for range 2 {
		if _, err := a.call(ctx, nil, func(core *origin.Attachment) (uint64, error) { return core.Depth(key) }); err != nil {
			break // gone, down, or on its way to another node: the order of what comes back is the new master's
		}
	}
	a.do(func(core *origin.Attachment) { core.CloseChannel(key) })
}

// operatorChannel makes the key of a channel that no client has, for calls on behalf of an operator.
func (l *life) operatorChannel() origin.Channel {
	return origin.Channel{Channel: l.operatorCalls.Add(1)}
}

// operatorCall asks a queue's master on behalf of an operator.
func (l *life) operatorCall(ctx context.Context, q *state.Queue, start func(core *origin.Attachment, key origin.Channel) (uint64, error)) (*origin.Reply, error) {
	a, key := l.attachment(backingqueue.ID(q.ID)), l.operatorChannel()
	r, err := a.call(ctx, nil, func(core *origin.Attachment) (uint64, error) { return start(core, key) })
	a.do(func(core *origin.Attachment) { core.CloseChannel(key) })
	if err != nil {
		return nil, callError(q, err)
	}
	return r, nil
}

// deleteQueue deletes a queue for a channel, or for an operator (ch nil).
func (l *life) deleteQueue(ctx context.Context, q *state.Queue, ch *channel, ifUnused, ifEmpty bool) (uint64, error) {
	a, key, owner := l.attachment(backingqueue.ID(q.ID)), l.operatorChannel(), state.Owner{}
	if ch != nil {
		key, owner = ch.key, ch.sess.owner()
		ch.used[a] = true
	} else {
		defer a.do(func(core *origin.Attachment) { core.CloseChannel(key) })
	}
	var messages uint64
	prepared := false
	if q.Status != state.QueueDown {
		r, err := a.call(ctx, ch, func(core *origin.Attachment) (uint64, error) { return core.PrepareDelete(key, ifUnused, ifEmpty) })
		switch {
		case err == nil:
			messages, prepared = r.Messages, true
		case ch == nil && !errors.Is(err, protocol.ErrDown):
			return 0, err
		case !errors.Is(err, protocol.ErrDown):
			return 0, callError(q, err)
		}
	}
	if !prepared && ifEmpty {
		return 0, amqp.Errorf(amqp.PreconditionFailed,
			"queue '%s' in vhost '%s' is down: whether it is empty cannot be known", q.Name, q.Vhost)
	}
	_, err := l.propose(ctx, &state.DeleteQueue{Vhost: q.Vhost, Name: q.Name, ID: q.ID, Owner: owner})
	if err != nil && prepared {
		a.do(func(core *origin.Attachment) { core.AbortDelete() })
	}
	if errors.Is(err, state.ErrNotFound) {
		return messages, nil
	}
	return messages, refusal(err)
}
