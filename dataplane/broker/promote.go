package broker

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/vmihailenco/msgpack/v5"

	"warren/dataplane/link"
	"warren/metadata/state"
)

// PromotionPlan says what the promotion of one member of a queue that is down would mean.
type PromotionPlan struct {
	Queue       uint64 `msgpack:"q"`
	Epoch       uint64 `msgpack:"e"`
	Node        string `msgpack:"n"`
	Incarnation uint64 `msgpack:"i"`
	LastMaster  string `msgpack:"l"`
	// Vouched: the member was synchronised when the queue went down: nothing that was confirmed is lost.
	Vouched bool `msgpack:"v"`
	// Messages is how many the member's copy holds; -1: its node did not say.
	Messages int `msgpack:"m"`
}

// PlanPromotion chooses a member of a queue that is down, whose node is up, and says what its promotion would mean; node "" leaves the
// choice to the rule: one that vouches, then the one that holds most, then the oldest. Nothing is changed. The error says in one
// sentence why there is no such member.
func (n *Node) PlanPromotion(ctx context.Context, q *state.Queue, node string) (PromotionPlan, error) {
	where := fmt.Sprintf("queue '%s' in vhost '%s'", q.Name, q.Vhost)
	if q.Status != state.QueueDown {
		return PromotionPlan{}, fmt.Errorf("%s is running on %s: its master is moved with 'transfer'", where, q.Master)
	}
	if _, ok := q.Member(node); node != "" && !ok {
		return PromotionPlan{}, fmt.Errorf("%s has no copy on %s", where, node)
	}
	var best PromotionPlan
	for _, m := range q.Members {
		if m.State != state.MemberJoining || m.JoinIndex == 0 || node != "" && m.Node != node {
			continue
		}
		p := PromotionPlan{
			Queue: q.ID, Epoch: q.Epoch, Node: m.Node, Incarnation: m.Incarnation, LastMaster: q.Master,
			Vouched:  slices.ContainsFunc(q.LastSynchronised, func(p state.Place) bool { return p.Node == m.Node }),
			Messages: n.askHolds(ctx, m.Node, q.ID),
		}
		if best.Node == "" || p.Vouched && !best.Vouched || p.Vouched == best.Vouched && p.Messages > best.Messages {
			best = p
		}
	}
	switch {
	case best.Node != "":
		return best, nil
	case node != "":
		return best, fmt.Errorf("%s on %s cannot be promoted: the node is not up, or its copy was never part of the queue", where, node)
	}
	return best, fmt.Errorf("%s has no copy on a node that is up", where)
}

// Promote carries a plan out. A plan that does not fit any more is refused.
func (n *Node) Promote(ctx context.Context, p PromotionPlan) error {
	l := n.currentLife()
	if l == nil {
		return ErrNotUp
	}
	_, err := l.propose(ctx, &state.PromoteMirror{Queue: p.Queue, Epoch: p.Epoch, Node: p.Node, Incarnation: p.Incarnation})
	if err != nil {
		return fmt.Errorf("promote the copy on %s: %w", p.Node, err)
	}
	l.log.Warn("an operator had a copy of a queue that was down promoted", "queue", p.Queue, "peer", p.Node, "epoch", p.Epoch+1,
		"vouched", p.Vouched, "messages", p.Messages)
	return nil
}

// askHolds asks a node how many messages its copy of a queue holds; -1 if it does not say.
func (n *Node) askHolds(ctx context.Context, node string, queue uint64) int {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	b, err := n.links.Call(ctx, node, callHolds, binary.AppendUvarint(nil, queue))
	var held int
	if err == nil {
		err = link.Unmarshal(b, &held)
	}
	if err != nil {
		n.log.Warn("a node did not say what its copy of a queue holds", "peer", node, "queue", queue, "error", err)
		return -1
	}
	return held
}

// evHolds asks how many messages the copy holds.
type evHolds struct{ answer chan<- int } // has room

func (e evHolds) apply(c *queueCopy) error {
	held := -1
	if c.replica != nil {
		held = c.replica.Store().Stats().Messages
	}
	e.answer <- held
	return nil
}

func (n *Node) answerHolds(ctx context.Context, _ link.PeerID, body []byte) ([]byte, error) {
	id, size := binary.Uvarint(body)
	if size <= 0 {
		return nil, errors.New("a question about a copy names no queue")
	}
	c := n.copyOf(id)
	if c == nil {
		return nil, errNoPlace
	}
	answer := make(chan int, 1)
	c.post(evHolds{answer})
	select {
	case held := <-answer:
		return msgpack.Marshal(held)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
