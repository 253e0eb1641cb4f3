package state

import (
	"fmt"
	"slices"
)

// Numbers of the commands about the life of nodes and of the cluster; see command.go.
const (
	numSetDraining   = 70
	numForgetNode    = 71
	numEnableFeature = 72
)

// SetDraining puts a node into maintenance, or takes it out: it keeps what it has, and gets no new mirrors and no masters. It is
// kept over a restart of the node. CodeNotFound for a node that is not known.
type SetDraining struct {
	Node string `msgpack:"n"`
	On   bool   `msgpack:"o"`
}

// ForgetNode takes a node that is not up out of every queue and forgets it. A queue that waits for it is given to another
// at once: to a member of the last synchronised set whose node is up, or else as the promotion table says; a queue that
// nobody else has a copy of is deleted with its bindings (reference B5). CodeNotFound, or CodeInUse while the node is up.
type ForgetNode struct {
	Node string `msgpack:"n"`
}

// EnableFeature enables feature flags for good. Refused with CodeFeature if a node of the cluster does not support one; Detail
// names both.
type EnableFeature struct {
	Names []string `msgpack:"n"`
}

func (*SetDraining) number() uint16   { return numSetDraining }
func (*ForgetNode) number() uint16    { return numForgetNode }
func (*EnableFeature) number() uint16 { return numEnableFeature }

func lifecycleCommands() []Command {
	return []Command{&SetDraining{}, &ForgetNode{}, &EnableFeature{}}
}

// Feature flags (upgrades.md). A command that an older version does not know belongs to a flag, and is only proposed once
// that is enabled, which every node of the cluster has to support.
const (
	// FeatureOperators: limits, topic permissions, global parameters, changes of users and vhosts, promotion by an operator.
	FeatureOperators = "warren_operators"
	// FeatureLifecycle: draining and forgetting nodes.
	FeatureLifecycle = "warren_lifecycle"
	// FeatureQuorum: queues declared as quorum queues, which are mirrored by themselves.
	FeatureQuorum = "warren_quorum_as_mirrored"
)

// SupportedFeatures are the flags that this version knows, sorted. A node names them in NodeUp.
func SupportedFeatures() []string { return []string{FeatureLifecycle, FeatureOperators, FeatureQuorum} }

// FeatureOf is the flag that has to be enabled before the command may be proposed; "" if none has to be. EnableFeature needs
// none: it is refused by a node that does not know it before any node applies it.
func FeatureOf(cmd Command) string {
	if d, ok := cmd.(*DeclareQueue); ok && quorumSize(d.Compared) > 0 {
		return FeatureQuorum
	}
	switch n := cmd.number(); {
	case n == numPromoteMirror, n >= numPutVhost && n <= numSetUserPassword:
		return FeatureOperators
	case n == numSetDraining, n == numForgetNode:
		return FeatureLifecycle
	}
	return ""
}

// FeatureEnabled says whether a flag is enabled.
func (s *State) FeatureEnabled(name string) bool { return slices.Contains(s.features, name) }

// Features are the enabled flags, sorted.
func (s *State) Features() []string { return slices.Clone(s.features) }

// Unsupported is a node that does not support the flag; ok is false if all that are known do.
func (s *State) Unsupported(feature string) (node string, ok bool) {
	for _, n := range s.nodes.all() {
		if !slices.Contains(n.Versions.Features, feature) {
			return n.Name, true
		}
	}
	return "", false
}

func (s *State) enableFeature(c *EnableFeature) Result {
	for _, name := range c.Names {
		if node, missing := s.Unsupported(name); missing {
			return Result{Err: &Error{Code: CodeFeature, Kind: KindFeature, Name: name, Detail: "not supported by node " + node}}
		}
	}
	s.addFeatures(c.Names)
	return Result{}
}

func (s *State) addFeatures(names []string) {
	all := append(slices.Clone(s.features), names...)
	slices.Sort(all)
	s.features = slices.Compact(all)
}

// lacks is the first enabled flag that a node of these versions does not know.
func (s *State) lacks(v Versions) string {
	for _, f := range s.features {
		if !slices.Contains(v.Features, f) {
			return f
		}
	}
	return ""
}

func (s *State) setDraining(index uint64, c *SetDraining) Result {
	n, ok := s.nodes.get(c.Node)
	if !ok {
		return refused(CodeNotFound, KindNode, "", c.Node)
	}
	if n.Draining == c.On {
		return Result{}
	}
	now := *n
	now.Draining = c.On
	if n.Status.Up() {
		now.Status, now.Since = upStatus(c.On), index
	}
	s.putNode(&now)
	if !c.On {
		s.reassign(index)
	}
	return Result{}
}

func upStatus(draining bool) NodeStatus {
	if draining {
		return NodeDraining
	}
	return NodeRunning
}

// reassign brings the mirrors of every queue in line with its policy again.
func (s *State) reassign(index uint64) {
	for _, was := range s.queues.all() {
		q := was.clone()
		if s.assign(q); !slices.Equal(was.Members, q.Members) {
			s.publish(index, q)
		}
	}
}

func (s *State) forgetNode(index uint64, c *ForgetNode) Result {
	n, ok := s.nodes.get(c.Node)
	switch {
	case !ok:
		return refused(CodeNotFound, KindNode, "", c.Node)
	case n.Status.Up():
		return Result{Err: &Error{Code: CodeInUse, Kind: KindNode, Name: c.Node, Detail: fmt.Sprintf("it is %s", n.Status)}}
	}
	s.nodes.del(c.Node)
	s.changes = append(s.changes, Change{Kind: NodeForgotten, OldNode: n})
	for _, was := range s.queues.all() {
		s.forgetInQueue(index, was, c.Node)
	}
	return Result{}
}

func (s *State) forgetInQueue(index uint64, was *Queue, node string) {
	if was.member(node) == nil && was.Master != node && !slices.ContainsFunc(was.LastSynchronised, func(p Place) bool { return p.Node == node }) {
		s.assignAgain(index, was)
		return
	}
	q := was.clone()
	q.Members = slices.DeleteFunc(q.Members, func(m Member) bool { return m.Node == node })
	q.LastSynchronised = slices.DeleteFunc(q.LastSynchronised, func(p Place) bool { return p.Node == node })
	if q.Status == QueueDown && q.member(q.Master) == nil && !s.inherit(index, q) {
		heir, ok := q.heir()
		if !ok {
			s.dropQueue(was) // nobody has a copy
			return
		}
		q.Master = heir
	}
	s.assign(q)
	s.publish(index, q)
}

func (s *State) assignAgain(index uint64, was *Queue) {
	q := was.clone()
	if s.assign(q); !slices.Equal(was.Members, q.Members) {
		s.publish(index, q)
	}
}

// inherit gives a queue whose last master is forgotten to one who vouches for all of it and is up, or, where nobody vouches
// any more, to whom the promotion table names. It is false if the queue has to go on waiting.
func (s *State) inherit(index uint64, q *Queue) bool {
	for _, p := range q.LastSynchronised {
		if m := q.member(p.Node); m != nil && m.State == MemberJoining {
			m.State, m.JoinIndex = MemberUp, index
			q.promote(m.Node, false)
			return true
		}
	}
	s.reviveUnvouched(index, q)
	return q.Status == QueueRunning
}

// heir is the member that a queue that is down waits for once its last master is forgotten: one who vouches, or the oldest
// that was ever in a view; ok is false if there is none, so that nobody has a copy.
func (q *Queue) heir() (node string, ok bool) {
	for _, p := range q.LastSynchronised {
		if q.member(p.Node) != nil {
			return p.Node, true
		}
	}
	oldest := Member{}
	for _, m := range q.Members {
		if m.JoinIndex > 0 && (oldest.Node == "" || m.JoinIndex < oldest.JoinIndex) {
			oldest = m
		}
	}
	return oldest.Node, oldest.Node != ""
}
