package amqp

import (
	"context"
)

// maxTxEntries and maxTxBytes bound what an open transaction holds.
const (
	maxTxEntries = 65536
	maxTxBytes   = 128 << 20
)

// tx is an open transaction of a channel: as in RabbitMQ, publishes are kept until the commit, and so is the fate of
// deliveries. The commit is atomic for each publish, not over several queues, and is answered when all publishes are as safe
// as confirmed ones.
type tx struct {
	publishes []Publish
	bytes     int64
	settled   []txSettled
}

type txSettled struct {
	outcome Outcome
	entries []unackedEntry
}

// txWait waits for the answers to a commit's publishes; it is used under the outbox's lock.
type txWait struct {
	active bool
	nacked bool          // one of the publishes was refused
	done   chan struct{} // closed when all are answered; nil: no commit waits
}

// check ends the wait if no publish is open.
func (t *txWait) check(c *confirms) {
	if t.active && t.done != nil && c.open == 0 {
		close(t.done)
		t.done = nil
		c.reset()
	}
}

func (ch *channel) txSelect() error {
	if ch.confirming {
		return Errorf(PreconditionFailed, "cannot switch from confirm to tx mode")
	}
	if ch.tx == nil {
		ch.tx = &tx{}
		ch.shown.transactional.Store(true)
		ch.out.mu.Lock()
		ch.out.tx.active = true
		ch.out.mu.Unlock()
	}
	ch.out.reply(&txSelectOk{}, false)
	return nil
}

// txPublish keeps a publish for the commit.
func (ch *channel) txPublish(p Publish) error {
	if err := ch.backend.Check(p); err != nil {
		return err
	}
	t := ch.tx
	t.bytes += int64(len(p.Message.Body) + len(p.Message.Properties))
	if len(t.publishes) >= maxTxEntries || t.bytes > maxTxBytes {
		return Errorf(PreconditionFailed, "the transaction holds more than %d messages or %d bytes", maxTxEntries, maxTxBytes)
	}
	t.publishes = append(t.publishes, p)
	ch.shown.publishes.Add(1)
	return nil
}

func (ch *channel) txCommit(ctx context.Context) error {
	t := ch.tx
	if t == nil {
		return Errorf(PreconditionFailed, "channel is not transactional")
	}
	ch.tx = &tx{}
	ch.shown.transaction(ch.tx)
	for _, p := range t.publishes {
		if err := ch.publishNow(ctx, p); err != nil {
			return err
		}
	}
	for _, s := range t.settled {
		ch.settleNow(s.outcome, s.entries)
	}
	ch.backend.Flush()
	o := &ch.out
	done := make(chan struct{})
	o.mu.Lock()
	o.tx.done = done
	o.tx.check(&o.confirms)
	o.mu.Unlock()
	select {
	case <-done:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-ch.failed:
		return ch.failErr
	}
	o.mu.Lock()
	nacked := o.tx.nacked
	o.tx.nacked = false
	o.mu.Unlock()
	if nacked {
		return Errorf(PreconditionFailed, "partial tx completion")
	}
	o.reply(&txCommitOk{}, false)
	return nil
}

func (ch *channel) txRollback() error {
	t := ch.tx
	if t == nil {
		return Errorf(PreconditionFailed, "channel is not transactional")
	}
	ch.tx = &tx{}
	ch.shown.transaction(ch.tx)
	var back []unackedEntry
	for _, s := range t.settled {
		back = append(back, s.entries...)
	}
	ch.out.mu.Lock()
	ch.out.unacked.putBack(back)
	ch.out.mu.Unlock()
	ch.out.reply(&txRollbackOk{}, false)
	return nil
}
