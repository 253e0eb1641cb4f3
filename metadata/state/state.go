package state

import "slices"

// State is the replicated metadata of a cluster. See the package documentation for who may call what when.
type State struct {
	index       uint64 // of the newest command applied
	clusterID   string
	clusterName string
	nodes       table[string, *Node]
	vhosts      table[string, *Vhost]
	users       table[string, *User]
	permissions table[string, *Permission] // vhost, user
	exchanges   table[string, *Exchange]   // vhost, name
	bindings    table[string, *Binding]    // vhost, source, kind, destination, routing key, arguments
	policies    table[string, *Policy]     // vhost, name
	operators   table[string, *Policy]     // vhost, name
	queues      table[uint64, *Queue]
	sessions    table[uint64, *session]
	topics      table[string, *TopicPermission] // vhost, user, exchange
	vhostLimits table[string, *Limits]
	userLimits  table[string, *Limits]
	globals     table[string, *Global]
	features    []string // enabled flags, sorted

	// Derived, not in snapshots.
	bindingsTo table[string, *Binding] // vhost, kind, destination, then as above
	queueNames table[string, uint64]   // vhost, name
	replicas   map[string]int          // places per node; only looked up
	masters    map[string]int          // masters per node; only looked up

	changes []Change
	touched map[uint64]int // queue ID → its place in changes; only looked up
}

// New is the empty state, before the first command.
func New() *State { return &State{replicas: map[string]int{}, masters: map[string]int{}} }

// putQueue publishes a new version of a queue. now must be complete and is not written to afterwards.
func (s *State) putQueue(now *Queue) {
	was, _ := s.queues.get(now.ID)
	s.count(was, -1)
	s.count(now, +1)
	s.queues.put(now.ID, now)
	if was == nil {
		s.queueNames.put(key(now.Vhost, now.Name), now.ID)
	}
	if i, ok := s.touched[now.ID]; ok {
		s.changes[i].Queue = now
		return
	}
	kind := QueueChanged
	if was == nil {
		kind = QueueCreated
	}
	s.touch(now.ID, Change{Kind: kind, Vhost: now.Vhost, Queue: now, OldQueue: was})
}

// dropQueue deletes a queue and the bindings to it.
func (s *State) dropQueue(q *Queue) {
	s.count(q, -1)
	s.queues.del(q.ID)
	s.queueNames.del(key(q.Vhost, q.Name))
	if i, ok := s.touched[q.ID]; ok {
		old := s.changes[i].OldQueue
		if old == nil {
			old = q
		}
		s.changes[i] = Change{Kind: QueueDeleted, Vhost: q.Vhost, OldQueue: old}
	} else {
		s.touch(q.ID, Change{Kind: QueueDeleted, Vhost: q.Vhost, OldQueue: q})
	}
	for _, b := range under(&s.bindingsTo, key(q.Vhost, string(KindQueue), q.Name)) {
		s.dropBinding(b)
	}
}

func (s *State) touch(id uint64, c Change) {
	if s.touched == nil {
		s.touched = map[uint64]int{}
	}
	s.touched[id] = len(s.changes)
	s.changes = append(s.changes, c)
}

func (s *State) count(q *Queue, by int) {
	if q == nil {
		return
	}
	for _, m := range q.Members {
		s.replicas[m.Node] += by
	}
	s.masters[q.Master] += by
}

func (s *State) putNode(n *Node) {
	was, _ := s.nodes.get(n.Name)
	s.nodes.put(n.Name, n)
	for i := range s.changes {
		if s.changes[i].Kind == NodeChanged && s.changes[i].Node.Name == n.Name {
			s.changes[i].Node = n
			return
		}
	}
	s.changes = append(s.changes, Change{Kind: NodeChanged, Node: n, OldNode: was})
}

func (s *State) putExchange(x *Exchange, kind ChangeKind) {
	s.exchanges.put(key(x.Vhost, x.Name), x)
	s.changes = append(s.changes, Change{Kind: kind, Vhost: x.Vhost, Exchange: x})
}

// dropExchange deletes an exchange and the bindings from and to it.
func (s *State) dropExchange(x *Exchange) {
	s.exchanges.del(key(x.Vhost, x.Name))
	s.changes = append(s.changes, Change{Kind: ExchangeDeleted, Vhost: x.Vhost, Exchange: x})
	for _, b := range under(&s.bindings, key(x.Vhost, x.Name)) {
		s.dropBinding(b)
	}
	for _, b := range under(&s.bindingsTo, key(x.Vhost, string(KindExchange), x.Name)) {
		s.dropBinding(b)
	}
}

func bindingKey(b *Binding) string {
	return key(b.Vhost, b.Source, string(b.Kind), b.Destination, b.RoutingKey, string(b.Arguments))
}

func bindingToKey(b *Binding) string {
	return key(b.Vhost, string(b.Kind), b.Destination, b.Source, b.RoutingKey, string(b.Arguments))
}

func (s *State) putBinding(b *Binding) {
	s.bindings.put(bindingKey(b), b)
	s.bindingsTo.put(bindingToKey(b), b)
	s.changes = append(s.changes, Change{Kind: BindingAdded, Vhost: b.Vhost, Binding: b})
}

// dropBinding removes a binding, and its source when that was an auto-delete exchange's last one.
func (s *State) dropBinding(b *Binding) {
	if _, ok := s.bindings.get(bindingKey(b)); !ok {
		return // gone already by the deletion of its source
	}
	s.bindings.del(bindingKey(b))
	s.bindingsTo.del(bindingToKey(b))
	s.changes = append(s.changes, Change{Kind: BindingRemoved, Vhost: b.Vhost, Binding: b})
	x, ok := s.exchanges.get(key(b.Vhost, b.Source))
	if ok && x.AutoDelete && len(under(&s.bindings, key(b.Vhost, b.Source))) == 0 {
		s.dropExchange(x)
	}
}

// clone is a copy whose Members and LastSynchronised may be changed; the other slices stay shared and untouched.
func (q *Queue) clone() *Queue {
	c := *q
	c.Members = slices.Clone(q.Members)
	c.LastSynchronised = slices.Clone(q.LastSynchronised)
	return &c
}
