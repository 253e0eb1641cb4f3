package amqp

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
)

// errGone is the cause of a channel's context when its connection is gone.
var errGone = errors.New("the connection is gone")

// channel is one open channel. Its goroutine, run, carries out the methods in order; the reader feeds its inbox.
type channel struct {
	conn    *conn
	info    ChannelInfo
	in      inbox
	out     outbox
	backend ChannelBackend
	done    chan struct{} // closed when run has returned

	// ended is set before channel.close goes out, or the connection's end is begun by this channel: the reader then
	// discards what still comes on the channel.
	ended    atomic.Bool
	failOnce sync.Once
	failErr  error // written before failed is closed
	failed   chan struct{}

	// Of run alone.
	confirming bool
	tx         *tx
	prefetch   uint16
	lastQueue  string
	tokens     []Token
	entries    []unackedEntry

	shown shown
}

func newChannel(c *conn, info ChannelInfo) *channel {
	ch := &channel{conn: c, info: info, in: newInbox(), done: make(chan struct{}), failed: make(chan struct{})}
	ch.out = outbox{w: c.w, channel: info.Number, consumers: make(map[string]*consumer),
		room: make(chan struct{}, 1), window: c.srv.cfg.WindowMessages}
	return ch
}

// run is the channel's goroutine. ctx ends when the connection is gone.
func (ch *channel) run(ctx context.Context) {
	defer func() {
		close(ch.done)
		ch.in.signal(ch.conn.ended)
	}()
	defer ch.out.shut()
	defer ch.in.close()
	backend, err := ch.conn.session.OpenChannel(ctx, ch.info, ch)
	if err != nil {
		ch.exception(err)
		return
	}
	ch.backend = backend
	ch.conn.came(ch)
	defer ch.conn.went(ch)
	ch.out.drained = backend.Drained
	ch.out.reply(&channelOpenOk{}, false)

	closed, err := ch.loop(ctx)
	backend.Flush()
	ch.ended.Store(true)
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), ch.conn.srv.cfg.CloseTimeout)
	backend.Close(closing)
	cancel()
	switch {
	case err != nil:
		ch.exception(err)
	case closed:
		ch.out.reply(&channelCloseOk{}, true)
	}
}

// loop handles commands until the client closed the channel, the connection ended (both without error), or a failure.
func (ch *channel) loop(ctx context.Context) (closed bool, err error) {
	var cmds []command
	for {
		gone := ctx.Err() != nil
		var done bool
		cmds, done = ch.in.take(cmds)
		if done || gone && len(cmds) == 0 {
			return false, nil
		}
		if len(cmds) == 0 {
			select {
			case <-ch.in.wake:
			case <-ctx.Done():
			case <-ch.failed:
				return false, ch.failErr
			}
			continue
		}
		for i := range cmds {
			c := &cmds[i]
			if c.id == idChannelClose {
				return true, nil
			}
			if err := ch.handle(ctx, c); err != nil {
				return false, err
			}
		}
		clear(cmds)
		ch.backend.Flush()
	}
}

// exception answers an error: channel.close, or the end of the connection if it is hard.
func (ch *channel) exception(err error) {
	ch.ended.Store(true)
	if errors.Is(err, errGone) || ch.conn.ctx.Err() != nil {
		return // nobody is left to be told
	}
	e, internal := asError(err)
	if internal {
		ch.conn.log.Error("channel failed", "channel", ch.info.Number, "err", err)
	}
	if e.Hard() {
		ch.conn.fail(e)
		return
	}
	ch.out.reply(&channelClose{ReplyCode: e.Code, ReplyText: e.Error(), ClassId: e.class, MethodId: e.method}, true)
}

// handle carries out one command. Once the connection is gone, only what needs no answer is still done: what the client
// had published and settled before it left counts.
func (ch *channel) handle(ctx context.Context, c *command) error {
	select {
	case <-ch.failed:
		return ch.failErr
	default:
	}
	var err error
	switch c.id {
	case idBasicPublish:
		err = ch.publish(ctx, c)
	case idBasicAck:
		err = ch.settle(Acked, c.tag, c.multiple)
	case idBasicNack, idBasicReject:
		o := Rejected
		if c.requeue {
			o = Requeued
		}
		err = ch.settle(o, c.tag, c.multiple)
	default:
		if ctx.Err() != nil {
			return nil
		}
		ch.backend.Flush()
		if err = ch.waitRoom(ctx); err == nil {
			err = ch.method(ctx, c.m)
		}
	}
	return withMethod(err, c.id)
}

// withMethod notes in an AMQP error which method caused it.
func withMethod(err error, id uint32) error {
	if err == nil {
		return nil
	}
	var e *Error
	if !errors.As(err, &e) {
		return err
	}
	out := *e
	out.class, out.method = uint16(id>>16), uint16(id)
	return &out
}

// waitRoom holds the channel while its client leaves too much unread.
func (ch *channel) waitRoom(ctx context.Context) error {
	return ch.wait(ctx, func(o *outbox) bool { return o.weight <= maxWeight })
}

// wait waits until ok, which is asked under the outbox's lock whenever something changed.
func (ch *channel) wait(ctx context.Context, ok func(*outbox) bool) error {
	for {
		ch.out.mu.Lock()
		fine := ok(&ch.out)
		ch.out.mu.Unlock()
		if fine {
			return nil
		}
		ch.backend.Flush()
		select {
		case <-ch.out.room:
		case <-ctx.Done():
			return errGone
		case <-ch.failed:
			return ch.failErr
		}
	}
}
