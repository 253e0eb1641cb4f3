package broker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/vmihailenco/msgpack/v5"

	"warren/dataplane/backingqueue"
	"warren/dataplane/link"
	"warren/dataplane/mirror"
	"warren/metadata/state"
)

// What an operator is told about a synchronisation that cannot be begun or ended.
var (
	ErrNotMirrored = errors.New("the queue is not mirrored")
	ErrNotSyncing  = errors.New("the queue is not being synchronised")
	ErrQueueDown   = errors.New("the queue is down")
)

// syncPoll is how often a synchronisation that is waited for is looked at.
const syncPoll = 50 * time.Millisecond

type syncVerb uint8

const (
	syncLook syncVerb = iota
	syncBegin
	syncCancel
)

// syncRequest is the body of callSync.
type syncRequest struct {
	Queue uint64   `msgpack:"q"`
	Verb  syncVerb `msgpack:"v"`
}

// syncAnswer: Waiting is how many mirrors are to be synchronised because somebody asked for it, Was whether a synchronisation
// was under way.
type syncAnswer struct {
	Waiting int  `msgpack:"w"`
	Was     bool `msgpack:"s"`
}

type evSyncCall struct {
	verb   syncVerb
	answer chan<- syncResult // has room
}

type syncResult struct {
	syncAnswer
	err error
}

func (e evSyncCall) apply(c *queueCopy) error {
	if c.replica == nil || c.replica.Role() != mirror.Master {
		e.answer <- syncResult{err: errNotMaster}
		return nil
	}
	var r syncResult
	var err error
	switch e.verb {
	case syncBegin:
		_, err = c.replica.SyncQueue()
	case syncCancel:
		r.Was, err = c.replica.CancelSync()
	}
	r.Waiting = c.replica.Requested()
	r.err = err
	e.answer <- r
	return err
}

func (n *Node) answerSync(ctx context.Context, _ link.PeerID, body []byte) ([]byte, error) {
	var r syncRequest
	if err := link.Unmarshal(body, &r); err != nil {
		return nil, fmt.Errorf("read a request about a synchronisation: %w", err)
	}
	c := n.copyOf(r.Queue)
	if c == nil {
		return nil, errNotMaster
	}
	answer := make(chan syncResult, 1)
	c.post(evSyncCall{r.Verb, answer})
	select {
	case a := <-answer:
		if a.err != nil {
			return nil, a.err
		}
		return msgpack.Marshal(&a.syncAnswer)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// askSync asks the master's node.
func (n *Node) askSync(ctx context.Context, q *state.Queue, verb syncVerb) (a syncAnswer, err error) {
	body, err := msgpack.Marshal(&syncRequest{q.ID, verb})
	if err != nil {
		return a, err
	}
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var b []byte
	if q.Master == n.cfg.Node {
		b, err = n.answerSync(call, link.PeerID{}, body)
	} else {
		b, err = n.links.Call(call, q.Master, callSync, body)
	}
	if err != nil {
		return a, fmt.Errorf("ask %s about the synchronisation of queue '%s' in vhost '%s': %w", q.Master, q.Name, q.Vhost, err)
	}
	return a, link.Unmarshal(b, &a)
}

// SyncQueue synchronises all mirrors of a queue and returns when that is done, was cancelled, or the queue is gone. A new
// master is asked again. Errors: ErrNotMirrored, ErrQueueDown, ErrNotUp, ctx's.
func (n *Node) SyncQueue(ctx context.Context, q *state.Queue) error {
	l := n.currentLife()
	if l == nil {
		return ErrNotUp
	}
	begun := uint64(0) // the epoch whose master was asked
	tick := time.NewTicker(syncPoll)
	defer tick.Stop()
	for {
		switch {
		case q.Status == state.QueueDown:
			return fmt.Errorf("synchronise queue '%s' in vhost '%s': %w", q.Name, q.Vhost, ErrQueueDown)
		case !q.Mirrored():
			return ErrNotMirrored
		}
		verb := syncLook
		if begun != q.Epoch {
			verb = syncBegin
		}
		a, err := n.askSync(ctx, q, verb)
		if err == nil {
			begun = q.Epoch
			if a.Waiting == 0 {
				l.awaitEverywhere(ctx, n.meta.Applied())
				return nil
			}
		}
		select { // an error: the master is about to change, or to be seen here
		case <-tick.C:
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-l.ctx.Done():
			return ErrNotUp
		}
		now, ok := l.queueByID(backingqueue.ID(q.ID))
		if !ok {
			return nil
		}
		q = now
	}
}

// CancelSync ends the synchronisation of a queue's mirrors. Errors: ErrNotSyncing, ErrQueueDown, or that the master's node did
// not answer.
func (n *Node) CancelSync(ctx context.Context, q *state.Queue) error {
	if q.Status == state.QueueDown {
		return fmt.Errorf("queue '%s' in vhost '%s': %w", q.Name, q.Vhost, ErrQueueDown)
	}
	if !q.Mirrored() {
		return ErrNotSyncing
	}
	a, err := n.askSync(ctx, q, syncCancel)
	if err == nil && !a.Was {
		return ErrNotSyncing
	}
	return err
}
