package amqp

import (
	"context"
	"errors"
	"time"
)

// publish handles basic.publish: it completes the message from its properties and hands it over.
func (ch *channel) publish(ctx context.Context, c *command) error {
	if c.immediate {
		return Errorf(NotImplemented, "immediate=true")
	}
	if limit := ch.conn.srv.cfg.MaxMessageSize; int64(len(c.msg.Body)) > limit {
		return Errorf(PreconditionFailed, "message size %d is larger than configured max size %d", len(c.msg.Body), limit)
	}
	scan, err := ScanProperties(c.msg.Properties)
	if err != nil {
		return Errorf(FrameError, "%v", err)
	}
	if scan.Present&PropDeliveryMode != 0 && scan.DeliveryMode != 1 && scan.DeliveryMode != 2 {
		return Errorf(PreconditionFailed, "invalid message: {delivery_mode_unknown,%d}", scan.DeliveryMode)
	}
	p := Publish{Mandatory: c.mandatory, Message: c.msg}
	p.Message.Persistent = scan.DeliveryMode == 2
	p.Message.Priority = scan.Priority
	if scan.Present&PropExpiration != 0 {
		ms, err := ParseExpiration(scan.Expiration)
		if err != nil {
			return Errorf(PreconditionFailed, "invalid expiration '%s': %v", scan.Expiration, err)
		}
		p.Message.Expiry = time.Now().UnixMilli() + ms
	}
	user := &ch.conn.info.User
	if scan.Present&PropUserID != 0 && string(scan.UserID) != user.Name && !user.Impersonator {
		return Errorf(PreconditionFailed, "user_id property set to '%s' but authenticated user was '%s'", scan.UserID, user.Name)
	}
	if ch.tx != nil {
		return ch.txPublish(p)
	}
	return ch.publishNow(ctx, p)
}

// publishNow numbers the publish if it is to be confirmed and gives it to the backend, whose back-pressure it obeys.
func (ch *channel) publishNow(ctx context.Context, p Publish) error {
	limit := ch.conn.srv.cfg.MaxUnconfirmed
	err := ch.wait(ctx, func(o *outbox) bool { return o.weight <= maxWeight && o.confirms.open < limit })
	if err != nil && !errors.Is(err, errGone) {
		return err
	}
	if ch.confirming || ch.tx != nil {
		ch.out.mu.Lock()
		p.Seq = ch.out.confirms.add()
		ch.out.mu.Unlock()
	}
	gate, err := ch.backend.Publish(p)
	if err != nil || gate == nil {
		return err
	}
	ch.backend.Flush()
	select {
	case <-gate:
	case <-ctx.Done():
	case <-ch.failed:
		return ch.failErr
	}
	return nil
}

// settle handles basic.ack, nack, reject.
func (ch *channel) settle(o Outcome, tag uint64, multiple bool) error {
	entries := ch.entries[:0]
	if ch.tx != nil {
		entries = nil // they are kept
	}
	ch.out.mu.Lock()
	entries, ok := ch.out.unacked.take(tag, multiple, entries)
	ch.out.mu.Unlock()
	if !ok {
		return Errorf(PreconditionFailed, "unknown delivery tag %d", tag)
	}
	if ch.tx != nil {
		ch.tx.settled = append(ch.tx.settled, txSettled{o, entries})
		ch.shown.acks.Add(int64(len(entries)))
		return nil
	}
	ch.settleNow(o, entries)
	clear(entries)
	if ch.entries = entries[:0]; cap(entries) > 4096 {
		ch.entries = nil
	}
	return nil
}

func (ch *channel) settleNow(o Outcome, entries []unackedEntry) {
	if len(entries) == 0 {
		return
	}
	tokens := ch.tokens[:0]
	for i := range entries {
		tokens = append(tokens, entries[i].token)
	}
	ch.backend.Settle(o, tokens)
	clear(tokens)
	if ch.tokens = tokens[:0]; cap(tokens) > 4096 {
		ch.tokens = nil
	}
}
