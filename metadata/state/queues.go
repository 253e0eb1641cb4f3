package state

import (
	"fmt"
	"slices"

	"warren/metadata/placement"
	"warren/metadata/policy"
)

func (s *State) declareQueue(index uint64, c *DeclareQueue) Result {
	v, ok := s.vhosts.get(c.Vhost)
	if !ok {
		return refused(CodeNotFound, KindVhost, "", c.Vhost)
	}
	if q, ok := s.Queue(c.Vhost, c.Name); ok {
		return Redeclare(q, c)
	}
	if r, ok := s.queueLimit(c.Vhost, c.Name); !ok {
		return r
	}
	if v.PolicyVersion != c.PolicyVersion {
		return stale(KindQueue, c.Vhost, c.Name, "policies are at %d, not %d", v.PolicyVersion, c.PolicyVersion)
	}
	effective, ok := s.effective(c.Vhost, c.Match)
	if !ok {
		return stale(KindQueue, c.Vhost, c.Name, "its policies do not exist")
	}
	q := &Queue{ID: index, Vhost: c.Vhost, Name: c.Name, Durable: c.Durable, AutoDelete: c.AutoDelete, Exclusive: c.Exclusive,
		Arguments: c.Arguments, Compared: c.Compared, Effective: withType(c.Compared, effective), Status: QueueRunning, Epoch: 1}
	q.setMatch(c.Match)
	if c.Exclusive {
		q.Owner = c.Owner
	}
	if err := s.placeQueue(index, q, c); err != nil {
		return Result{Err: err}
	}
	s.objectCreated(index, v)
	s.publish(index, q)
	return Result{Queue: index, Created: true}
}

// placeQueue gives a new queue its first view: the master and all its mirrors, which count as synchronised, since there is
// nothing yet that they could lack.
func (s *State) placeQueue(index uint64, q *Queue, c *DeclareQueue) *Error {
	locator := c.DefaultLocator
	if l := q.Effective.HA().Locator; l != "" {
		locator = l
	}
	if c.Locator != "" {
		locator = c.Locator
	}
	nodes := s.placementNodes()
	if c.Exclusive {
		locator = placement.ClientLocal // stays with its client (reference L2)
	}
	master, ok := placement.Master(q.rule(), locator, c.Node, c.Seed, nodes)
	if !ok {
		return &Error{Code: CodeNoNode, Kind: KindQueue, Vhost: c.Vhost, Name: c.Name, Detail: "no node can carry it"}
	}
	if c.Exclusive && master != c.Node {
		return &Error{Code: CodeStale, Kind: KindQueue, Vhost: c.Vhost, Name: c.Name, Detail: fmt.Sprintf("node %s is not up", c.Node)}
	}
	q.Master = master
	for _, name := range append([]string{master}, placement.Mirrors(q.rule(), master, nodes)...) {
		n, _ := s.nodes.get(name)
		q.Members = append(q.Members, Member{Node: name, Incarnation: n.Incarnation, JoinIndex: index, Synchronised: true, State: MemberUp})
	}
	return nil
}

// Redeclare is the answer to a declaration of a queue that is there: whether it is the same, or what differs, with RabbitMQ's
// words and in its order: access, state, flags, arguments. It changes nothing.
func Redeclare(q *Queue, c *DeclareQueue) Result {
	if q.Exclusive != c.Exclusive || q.Exclusive && q.Owner != c.Owner {
		return refused(CodeLocked, KindQueue, c.Vhost, c.Name)
	}
	if q.Status == QueueDown {
		return queueDown(q)
	}
	for _, f := range []struct {
		key        string
		have, want bool
	}{{"durable", q.Durable, c.Durable}, {"auto_delete", q.AutoDelete, c.AutoDelete}} {
		if f.have != f.want {
			return inequivalent(KindQueue, c.Vhost, c.Name, f.key, fmt.Sprintf("'%t'", f.have), fmt.Sprintf("'%t'", f.want))
		}
	}
	if r, ok := compareArguments(KindQueue, c.Vhost, c.Name, q.Compared, c.Compared); !ok {
		return r
	}
	return Result{Queue: q.ID}
}

func inequivalent(kind Kind, vhost, name, key, have, want string) Result {
	return Result{Err: &Error{Code: CodeInequivalent, Kind: kind, Vhost: vhost, Name: name, Key: key, Have: have, Want: want}}
}

// firstCompared are the arguments that RabbitMQ looks at first, in its order, when it looks for one that differs.
var firstCompared = []string{"x-expires", "x-message-ttl", "x-dead-letter-exchange", "x-dead-letter-routing-key"}

// compareArguments finds the first argument that differs. Integers of different widths are the same.
func compareArguments(kind Kind, vhost, name string, have, want []Argument) (Result, bool) {
	keys := slices.Clone(firstCompared)
	for _, args := range [][]Argument{have, want} {
		for _, a := range args {
			keys = append(keys, a.Key)
		}
	}
	slices.Sort(keys[len(firstCompared):])
	for _, key := range keys {
		h, isHad := argument(have, key)
		w, isWanted := argument(want, key)
		switch {
		case isHad && !isWanted:
			return inequivalent(kind, vhost, name, key, typed(h), "none"), false
		case isWanted && !isHad:
			return inequivalent(kind, vhost, name, key, "none", typed(w)), false
		case typeClass(h.Type) != typeClass(w.Type) || h.Text != w.Text:
			return inequivalent(kind, vhost, name, key, "'"+h.Text+"'", "'"+w.Text+"'"), false
		}
	}
	return Result{}, true
}

func argument(args []Argument, key string) (Argument, bool) {
	i := slices.IndexFunc(args, func(a Argument) bool { return a.Key == key })
	if i < 0 {
		return Argument{}, false
	}
	return args[i], true
}

func typed(a Argument) string {
	return fmt.Sprintf("the value '%s' of type '%s'", a.Text, a.Type)
}

func typeClass(t string) string {
	switch t {
	case "byte", "short", "signedint", "long", "unsignedbyte", "unsignedshort", "unsignedint":
		return "int"
	case "float", "double":
		return "float"
	}
	return t
}

func (s *State) deleteQueue(c *DeleteQueue) Result {
	if _, ok := s.vhosts.get(c.Vhost); !ok {
		return refused(CodeNotFound, KindVhost, "", c.Vhost)
	}
	q, ok := s.Queue(c.Vhost, c.Name)
	if !ok || c.ID != 0 && c.ID != q.ID {
		return refused(CodeNotFound, KindQueue, c.Vhost, c.Name)
	}
	if q.Exclusive && c.Owner != (Owner{}) && q.Owner != c.Owner {
		return refused(CodeLocked, KindQueue, c.Vhost, c.Name)
	}
	s.dropQueue(q)
	return Result{Queue: q.ID}
}

func (s *State) setHadConsumers(c *SetHadConsumers) Result {
	q, r, ok := s.onQueue(c.Queue)
	if ok && !q.HadConsumers {
		q.HadConsumers = true
		s.putQueue(q)
	}
	return r
}

func (q *Queue) setMatch(m Match) {
	q.Policy, q.HasPolicy, q.OperatorPolicy, q.HasOperator = m.Policy, m.HasPolicy, m.Operator, m.HasOperator
}

func (q *Queue) match() Match {
	return Match{Policy: q.Policy, HasPolicy: q.HasPolicy, Operator: q.OperatorPolicy, HasOperator: q.HasOperator}
}

// effective is the merged definition; ok is false if a policy that the match names does not exist.
func (s *State) effective(vhost string, m Match) (d policy.Definition, ok bool) {
	var user, operator policy.Definition
	if m.HasPolicy {
		p, ok := s.policies.get(key(vhost, m.Policy))
		if !ok {
			return nil, false
		}
		user = p.Definition
	}
	if m.HasOperator {
		p, ok := s.operators.get(key(vhost, m.Operator))
		if !ok {
			return nil, false
		}
		operator = p.Definition
	}
	return policy.Merge(user, operator), true
}

// objectCreated notes that the set of names that policies are matched against has grown.
func (s *State) objectCreated(index uint64, v *Vhost) {
	now := *v
	now.ObjectVersion = index
	s.vhosts.put(v.Name, &now)
}
