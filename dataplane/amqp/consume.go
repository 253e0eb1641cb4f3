package amqp

import "context"

func (ch *channel) basicMethod(ctx context.Context, m method) error {
	switch m := m.(type) {
	case *basicQos:
		return ch.qos(ctx, m)
	case *basicConsume:
		return ch.consume(ctx, m)
	case *basicCancel:
		return ch.cancel(ctx, m)
	case *basicGet:
		return ch.get(ctx, m)
	case *basicRecover:
		if err := ch.recover(m.Requeue); err != nil {
			return err
		}
		ch.out.reply(&basicRecoverOk{}, false)
		return nil
	case *basicRecoverAsync:
		return ch.recover(m.Requeue)
	}
	return Errorf(CommandInvalid, "unimplemented method")
}

func (ch *channel) qos(ctx context.Context, m *basicQos) error {
	if m.PrefetchSize != 0 {
		return Errorf(NotImplemented, "prefetch_size!=0 (%d)", m.PrefetchSize)
	}
	global := m.PrefetchCount
	if !m.Global {
		global = 0 // one that is not global takes the bound off the channel (RabbitMQ)
	}
	if err := ch.backend.Qos(ctx, global); err != nil {
		return err
	}
	ch.shown.global.Store(uint32(global))
	if !m.Global {
		ch.prefetch = m.PrefetchCount
		ch.shown.prefetch.Store(uint32(m.PrefetchCount))
	}
	ch.out.reply(&basicQosOk{}, false)
	return nil
}

func (ch *channel) consume(ctx context.Context, m *basicConsume) error {
	queue, err := ch.queueName(m.Queue)
	if err != nil {
		return err
	}
	tag := m.ConsumerTag
	if tag == "" {
		tag = "amq.ctag-" + randomName()
	}
	c := &consumer{tag: tag, noAck: m.NoAck, waiting: true}
	o := &ch.out
	o.mu.Lock()
	used := o.consumers[tag] != nil
	if !used {
		o.consumers[tag] = c
	}
	o.mu.Unlock()
	if used {
		return Errorf(NotAllowed, "attempt to reuse consumer tag '%s'", tag)
	}
	cfg := &ch.conn.srv.cfg
	err = ch.backend.Consume(ctx, Consume{Queue: queue, Tag: tag, NoLocal: m.NoLocal, NoAck: m.NoAck, Exclusive: m.Exclusive,
		Prefetch: ch.prefetch, Arguments: m.Arguments, WindowMessages: cfg.WindowMessages, WindowBytes: cfg.WindowBytes})
	ch.consuming(c, err, m.NoWait)
	return err
}

// consuming ends the wait for consume-ok: what came for c meanwhile follows it.
func (ch *channel) consuming(c *consumer, err error, noWait bool) {
	o := &ch.out
	o.mu.Lock()
	c.waiting = false
	if err != nil {
		delete(o.consumers, c.tag)
	} else {
		if !noWait {
			o.push(item{kind: itemReply, m: &basicConsumeOk{ConsumerTag: c.tag}})
		}
		for i := range c.held {
			o.deliver(c, &c.held[i])
		}
		if c.gone {
			ch.cancelled(c)
		}
	}
	c.held = nil
	o.mu.Unlock()
	o.ready()
}

func (ch *channel) cancel(ctx context.Context, m *basicCancel) error {
	o := &ch.out
	o.mu.Lock()
	c := o.consumers[m.ConsumerTag]
	o.mu.Unlock()
	if c != nil {
		if err := ch.backend.Cancel(ctx, m.ConsumerTag); err != nil {
			return err
		}
		o.mu.Lock()
		c.gone = true
		delete(o.consumers, m.ConsumerTag)
		o.mu.Unlock()
	}
	return ch.answer(nil, m.NoWait, &basicCancelOk{ConsumerTag: m.ConsumerTag})
}

func (ch *channel) get(ctx context.Context, m *basicGet) error {
	queue, err := ch.queueName(m.Queue)
	if err != nil {
		return err
	}
	g, ok, err := ch.backend.Get(ctx, queue, m.NoAck)
	if err != nil {
		return err
	}
	if !ok {
		ch.out.reply(&basicGetEmpty{}, false)
		return nil
	}
	o := &ch.out
	o.mu.Lock()
	o.nextTag++
	if !m.NoAck {
		o.unacked.add(o.nextTag, g.Token)
	}
	o.push(item{kind: itemGet, tag: o.nextTag, redelivered: g.Redelivered, count: g.Messages, msg: g.Message})
	o.mu.Unlock()
	o.ready()
	return nil
}

// recover requeues everything that is not settled.
func (ch *channel) recover(requeue bool) error {
	if !requeue {
		return Errorf(NotImplemented, "requeue=false")
	}
	ch.out.mu.Lock()
	entries, _ := ch.out.unacked.take(0, true, nil)
	ch.out.mu.Unlock()
	ch.settleNow(Requeued, entries)
	return nil
}
