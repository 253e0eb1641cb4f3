package broker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/vmihailenco/msgpack/v5"

	"warren/dataplane/backingqueue"
	"warren/dataplane/gm"
	"warren/dataplane/link"
	"warren/dataplane/mirror"
	"warren/metadata/state"
)

// copyEvent is an event that knows what to do with the copy; it is applied on the actor's goroutine.
type copyEvent interface{ apply(c *queueCopy) error }

// A planned move that a policy asks for and that came to nothing is tried again after a pause, since each attempt stops the
// queue for up to handOverTimeout.
const (
	movePauseMin = time.Second
	movePauseMax = time.Minute
)

var (
	errMoving   = errors.New("a move of its master is under way")
	errKept     = errors.New("the move was not committed in time, and the old master goes on")
	errNoMirror = errors.New("that node has no synchronised mirror of it")
)

// moves is what a copy knows of the planned moves of its master.
type moves struct {
	timer *time.Timer   // of the move under way: taken back when it fires
	later *time.Timer   // of the next look at the policy
	pause time.Duration // before the next move that a policy asks for
	next  time.Time
}

// evMove asks the master to move to a node.
type evMove struct {
	to     string
	answer chan<- error // has room
}

func (e evMove) apply(c *queueCopy) error {
	e.answer <- c.moveTo(e.to)
	return nil
}

// evReview has a master look whether the policy wants it elsewhere.
type evReview struct{}

func (evReview) apply(c *queueCopy) error {
	c.review()
	return nil
}

// review moves the master to the node that the policy wants it on, as soon as the record has a synchronised mirror there
// (metadata.md, Placement, nodes).
func (c *queueCopy) review() {
	if c.replica == nil || c.replica.Role() != mirror.Master {
		return
	}
	to, ok := c.q.MoveTo()
	if !ok {
		return
	}
	if wait := time.Until(c.moves.next); wait > 0 {
		if c.moves.later != nil {
			c.moves.later.Stop()
		}
		c.moves.later = time.AfterFunc(wait, func() { c.post(evReview{}) })
		return
	}
	c.moves.pause = min(max(2*c.moves.pause, movePauseMin), movePauseMax)
	c.moves.next = time.Now().Add(c.moves.pause)
	c.log.Info("the policy wants the master on another node; it is moved there", "peer", to, "epoch", c.q.Epoch)
	if err := c.moveTo(to); err != nil {
		c.log.Warn("the master could not be moved", "peer", to, "epoch", c.q.Epoch, "error", err)
	}
}

// moveTo starts a planned move to a node (mirroring.md, planned moves); nil: it is under way.
func (c *queueCopy) moveTo(node string) error {
	if c.replica == nil {
		return errNotMaster
	}
	switch c.replica.Role() {
	case mirror.Master:
	case mirror.Ending:
		return errMoving
	default:
		return errNotMaster
	}
	m, ok := c.q.Member(node)
	if !ok || m.State != state.MemberUp || !m.Synchronised || node == c.life.self.Name {
		return errNoMirror
	}
	if err := c.replica.HandOver(gm.Member{Node: m.Node, Incarnation: m.Incarnation, JoinIndex: m.JoinIndex}); err != nil {
		return err
	}
	c.moves.timer = time.AfterFunc(handOverTimeout, func() { c.post(evTimeout{}) })
	return nil
}

// handOver moves the master to the oldest synchronised mirror on a node that can take it; without one nothing happens.
func (c *queueCopy) handOver() {
	if c.replica == nil || c.replica.Role() != mirror.Master {
		return
	}
	for _, m := range c.q.Members {
		if m.Node == c.life.self.Name || m.State != state.MemberUp || !m.Synchronised || !c.life.canTakeMasters(m.Node) {
			continue
		}
		err := c.moveTo(m.Node)
		if err == nil {
			return
		}
		c.log.Warn("the master could not be handed over", "peer", m.Node, "epoch", c.q.Epoch, "error", err)
	}
}

func (c *queueCopy) handOverTimedOut() {
	if c.replica == nil || c.replica.Role() != mirror.Ending || c.moves.timer == nil {
		return
	}
	c.log.Warn("a move of the master was not committed in time and is taken back", "epoch", c.q.Epoch)
	c.replica.HandOverTimeout()
	c.moves.timer.Reset(handOverTimeout)
}

// endMove stops the timer of a move that has come to an end.
func (c *queueCopy) endMove() {
	if c.replica.Role() != mirror.Ending && c.moves.timer != nil {
		c.moves.timer.Stop()
		c.moves.timer = nil
	}
}

// moveRequest is the body of callMove.
type moveRequest struct {
	Queue uint64 `msgpack:"q"`
	To    string `msgpack:"t"`
}

// answerMove starts a move at the master's node.
func (n *Node) answerMove(ctx context.Context, _ link.PeerID, body []byte) ([]byte, error) {
	var r moveRequest
	if err := link.Unmarshal(body, &r); err != nil {
		return nil, fmt.Errorf("read a request to move a master: %w", err)
	}
	c := n.copyOf(r.Queue)
	if c == nil {
		return nil, errNotMaster
	}
	answer := make(chan error, 1)
	c.post(evMove{r.To, answer})
	select {
	case err := <-answer:
		return nil, err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// copyOf is this node's present copy of a queue, nil if there is none.
func (n *Node) copyOf(id uint64) *queueCopy {
	l := n.currentLife()
	if l == nil {
		return nil
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.copies[backingqueue.ID(id)]
}

// pollPause is how often a record is looked at while a change of it is awaited.
const pollPause = 10 * time.Millisecond

// awaitQueue waits until cond holds for the queue's record (nil: deleted).
func (l *life) awaitQueue(ctx context.Context, id uint64, cond func(*state.Queue) bool) error {
	tick := time.NewTicker(pollPause)
	defer tick.Stop()
	for {
		q, ok := l.queueByID(backingqueue.ID(id))
		if !ok {
			q = nil
		}
		if cond(q) {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		case <-l.ctx.Done():
			return ErrNotUp
		}
	}
}

// Transfer moves the master of a queue to a synchronised mirror, without loss (metadata.md, promotion by hand). It returns when
// the metadata have it; a move to where the master is already does nothing. The error says in one sentence what stands in
// the way.
func (n *Node) Transfer(ctx context.Context, q *state.Queue, to string) error {
	l := n.currentLife()
	if l == nil {
		return ErrNotUp
	}
	where := fmt.Sprintf("queue '%s' in vhost '%s'", q.Name, q.Vhost)
	switch {
	case q.Status == state.QueueDown:
		return fmt.Errorf("%s is down: there is no master that could move", where)
	case q.Master == to:
		return nil
	case !q.Mirrored():
		return fmt.Errorf("%s is not mirrored", where)
	}
	body, err := msgpack.Marshal(&moveRequest{Queue: q.ID, To: to})
	if err != nil {
		return err
	}
	// What was seen here, that the target is synchronised above all, must be known to the master's node before it judges.
	l.awaitEverywhere(ctx, n.meta.Applied())
	call, cancel := context.WithTimeout(ctx, callTimeout)
	_, err = n.links.Call(call, q.Master, callMove, body)
	cancel()
	if judged := (*link.CallError)(nil); errors.As(err, &judged) && judged.Code == link.CodeFailed {
		return fmt.Errorf("%s cannot be moved from %s to %s: %s", where, q.Master, to, judged.Text)
	}
	if err != nil {
		return fmt.Errorf("%s cannot be moved from %s to %s: %w", where, q.Master, to, err)
	}
	var now *state.Queue
	if err := l.awaitQueue(ctx, q.ID, func(r *state.Queue) bool {
		now = r
		return r == nil || r.Epoch != q.Epoch
	}); err != nil {
		return fmt.Errorf("%s: the end of the move to %s was not seen: %w", where, to, err)
	}
	if now == nil || now.Master != to || now.Status != state.QueueRunning {
		return fmt.Errorf("%s: %w", where, errKept)
	}
	l.awaitEverywhere(ctx, n.meta.Applied())
	return nil
}
