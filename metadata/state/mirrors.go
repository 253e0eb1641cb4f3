package state

import (
	"slices"
	"strconv"

	"warren/metadata/placement"
)

// onQueue finds the queue that a command is about.
func (s *State) onQueue(id uint64) (*Queue, Result, bool) {
	q, ok := s.queues.get(id)
	if !ok {
		return nil, Result{Err: &Error{Code: CodeNotFound, Kind: KindQueue, Name: formatID(id)}}, false
	}
	return q.clone(), Result{Queue: id}, true
}

// unfit refuses a command about one member that no longer fits.
func unfit(q *Queue, what string, args ...any) Result {
	r := stale(KindQueue, q.Vhost, q.Name, what, args...)
	r.Queue = q.ID
	return r
}

func (s *State) mirrorReady(index uint64, c *MirrorReady) Result {
	q, r, ok := s.onQueue(c.Queue)
	if !ok {
		return r
	}
	if q.Status != QueueRunning {
		return queueDown(q)
	}
	m := q.member(c.Node)
	if m == nil || m.State != MemberJoining || m.Incarnation != c.Incarnation {
		return unfit(q, "%s/%d is not joining", c.Node, c.Incarnation)
	}
	m.State, m.JoinIndex, m.Synchronised = MemberUp, index, false
	q.LastSynchronised = nil // its master proposed this, so it has acted
	s.publish(index, q)
	return r
}

func (s *State) mirrorSynchronised(index uint64, c *MirrorSynchronised) Result {
	q, r, ok := s.onQueue(c.Queue)
	if !ok {
		return r
	}
	m := q.member(c.Node)
	if m == nil || m.State != MemberUp || m.Incarnation != c.Incarnation || m.JoinIndex != c.JoinIndex {
		return unfit(q, "%s/%d joined at %d is not in the view", c.Node, c.Incarnation, c.JoinIndex)
	}
	if q.ViewVersion != c.View {
		return unfit(q, "view is %d, not %d", q.ViewVersion, c.View)
	}
	if m.Synchronised {
		return r
	}
	m.Synchronised = true
	s.assign(q) // surplus copies may go now
	s.publish(index, q)
	return r
}

func (s *State) mirrorUnsynchronised(index uint64, c *MirrorUnsynchronised) Result {
	q, r, ok := s.onQueue(c.Queue)
	if !ok {
		return r
	}
	m := q.member(c.Node)
	if m == nil || m.State == MemberAway || m.Incarnation != c.Incarnation || m.JoinIndex != c.JoinIndex {
		return unfit(q, "%s/%d joined at %d has no place", c.Node, c.Incarnation, c.JoinIndex)
	}
	switch {
	case q.Status == QueueDown:
		q.forgetVoucher(c.Node)
		s.reviveUnvouched(index, q)
		s.assign(q)
	case c.Node == q.Master:
		s.chooseAgain(q, m)
	default:
		m.Synchronised = false
	}
	s.publish(index, q)
	return r
}

func (q *Queue) forgetVoucher(node string) {
	q.LastSynchronised = slices.DeleteFunc(q.LastSynchronised, func(p Place) bool { return p.Node == node })
}

// chooseAgain: the named master has not acted and knows that it lacks something. It leaves the view, so that its successor
// acts as after a death (its sender closes), unless it is itself the best that is left.
func (s *State) chooseAgain(q *Queue, m *Member) {
	node := m.Node
	m.Synchronised = false
	if len(q.LastSynchronised) > 0 {
		q.forgetVoucher(node)
		if len(q.LastSynchronised) > 0 {
			q.takeDown() // it was revived, and others of those who vouched are left
			return
		}
	}
	var vouching []Place
	s.succeed(q, ReasonFailure, vouching)
	if old := q.member(node); q.Status == QueueRunning && q.Master != node {
		old.State = MemberJoining
	}
}

func (s *State) recoverQueue(index uint64, c *RecoverQueue) Result {
	q, r, ok := s.onQueue(c.Queue)
	if !ok {
		return r
	}
	m := q.member(c.Node)
	switch {
	case q.Status != QueueDown || q.Epoch != c.Epoch:
		return unfit(q, "it is %s in epoch %d", q.Status, q.Epoch)
	case m == nil || m.State != MemberJoining || m.Incarnation != c.Incarnation:
		return unfit(q, "%s/%d is not up", c.Node, c.Incarnation)
	case !slices.ContainsFunc(q.LastSynchronised, func(p Place) bool { return p.Node == c.Node }):
		return unfit(q, "%s was not synchronised", c.Node)
	}
	m.State, m.JoinIndex = MemberUp, index
	q.promote(c.Node, false)
	s.assign(q)
	s.publish(index, q)
	return r
}

func (s *State) promoteMirror(index uint64, c *PromoteMirror) Result {
	q, r, ok := s.onQueue(c.Queue)
	if !ok {
		return r
	}
	m := q.member(c.Node)
	switch {
	case q.Status != QueueDown || q.Epoch != c.Epoch:
		return unfit(q, "it is %s in epoch %d", q.Status, q.Epoch)
	case m == nil || m.State != MemberJoining || m.Incarnation != c.Incarnation:
		return unfit(q, "%s/%d is not up", c.Node, c.Incarnation)
	case m.JoinIndex == 0:
		return unfit(q, "%s was never in a view", c.Node)
	}
	m.State, m.JoinIndex = MemberUp, index
	loss := !slices.ContainsFunc(q.LastSynchronised, func(p Place) bool { return p.Node == c.Node })
	q.promote(c.Node, loss)
	if loss {
		q.LastSynchronised = nil
	}
	s.assign(q)
	s.publish(index, q)
	return r
}

func (s *State) masterActing(c *MasterActing) Result {
	q, r, ok := s.onQueue(c.Queue)
	if !ok {
		return r
	}
	m, running := q.MasterMember()
	if !running || q.Epoch != c.Epoch || m.Node != c.Node || m.Incarnation != c.Incarnation {
		return unfit(q, "%s/%d is not its master in epoch %d", c.Node, c.Incarnation, c.Epoch)
	}
	if len(q.LastSynchronised) > 0 {
		q.LastSynchronised = nil
		s.putQueue(q)
	}
	return r
}

func (s *State) transferMaster(index uint64, c *TransferMaster) Result {
	q, r, ok := s.onQueue(c.Queue)
	if !ok {
		return r
	}
	m := q.member(c.To)
	switch {
	case q.Status != QueueRunning || q.Epoch != c.Epoch:
		return unfit(q, "it is %s in epoch %d, not %d", q.Status, q.Epoch, c.Epoch)
	case m == nil || m.State != MemberUp || !m.Synchronised || c.To == q.Master:
		return unfit(q, "%s is not a synchronised mirror", c.To)
	}
	q.promote(c.To, false)
	s.assign(q)
	s.publish(index, q)
	return r
}

func (s *State) keepMaster(c *KeepMaster) Result {
	q, r, ok := s.onQueue(c.Queue)
	if !ok {
		return r
	}
	if q.Status != QueueRunning || q.Master != c.Node || q.Epoch+1 != c.Epoch {
		return unfit(q, "its master is %s in epoch %d", q.Master, q.Epoch)
	}
	q.promote(c.Node, false)
	s.putQueue(q)
	return r
}

func (s *State) dropMirror(index uint64, c *DropMirror) Result {
	q, r, ok := s.onQueue(c.Queue)
	if !ok {
		return r
	}
	m := q.member(c.Node)
	switch {
	case m == nil || m.State != MemberUp || m.JoinIndex != c.JoinIndex || q.ViewVersion != c.View:
		return unfit(q, "%s joined at %d is not in view %d", c.Node, c.JoinIndex, c.View)
	case m.Synchronised && synchronisedUp(q) == 1:
		return Result{Queue: q.ID, Err: &Error{Code: CodeLastSynchronised, Kind: KindQueue, Vhost: q.Vhost, Name: q.Name, Have: c.Node}}
	case c.Node == q.Master:
		return unfit(q, "%s is the master", c.Node)
	}
	m.State, m.Synchronised = MemberJoining, false
	s.publish(index, q)
	return r
}

func synchronisedUp(q *Queue) (n int) {
	for _, m := range q.Members {
		if m.State == MemberUp && m.Synchronised {
			n++
		}
	}
	return n
}

func (s *State) replaceMirror(index uint64, c *ReplaceMirror) Result {
	q, r, ok := s.onQueue(c.Queue)
	if !ok {
		return r
	}
	m := q.member(c.Node)
	if q.Status != QueueRunning || q.rule().Mode != placement.ModeExactly || m == nil || m.State != MemberAway ||
		slices.ContainsFunc(q.Members, func(o Member) bool { return o.Replaces == c.Node }) {
		return unfit(q, "%s is not away without a stand-in", c.Node)
	}
	name, ok := placement.StandIn(q.copies(), s.placementNodes())
	if !ok {
		return Result{Queue: q.ID, Err: &Error{Code: CodeNoNode, Kind: KindQueue, Vhost: q.Vhost, Name: q.Name,
			Detail: "no node is left for a replacement of " + c.Node}}
	}
	n, _ := s.nodes.get(name)
	q.Members = append(q.Members, Member{Node: name, Incarnation: n.Incarnation, State: MemberJoining, Replaces: c.Node})
	s.publish(index, q)
	return r
}

func queueDown(q *Queue) Result {
	return Result{Queue: q.ID, Err: &Error{Code: CodeQueueDown, Kind: KindQueue, Vhost: q.Vhost, Name: q.Name, Have: q.Master}}
}

func formatID(id uint64) string { return "#" + strconv.FormatUint(id, 10) }
