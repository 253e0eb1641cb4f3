package state

import "fmt"

func (s *State) initCluster(index uint64, c *InitCluster) Result {
	if s.clusterID != "" {
		return refused(CodeExists, "cluster", "", s.clusterName)
	}
	s.clusterID, s.clusterName = c.ID, c.Name
	s.addFeatures(c.Features)
	d := c.Default
	if d == nil {
		d = &InitialData{Vhost: "/", Tags: []string{"administrator"}, Permission: Permission{Configure: ".*", Write: ".*", Read: ".*"}}
	}
	if d.None {
		return Result{Created: true}
	}
	s.putVhost(index, &PutVhost{Name: d.Vhost, Description: "Default virtual host"})
	s.users.put(c.User, &User{Name: c.User, PasswordHash: c.PasswordHash, Tags: d.Tags})
	p := d.Permission
	p.User, p.Vhost = c.User, d.Vhost
	s.permissions.put(key(p.Vhost, p.User), &p)
	s.changes = append(s.changes, Change{Kind: UsersChanged})
	return Result{Created: true}
}

func (s *State) createVhost(index uint64, name string) {
	s.vhosts.put(name, &Vhost{Name: name, PolicyVersion: index, ObjectVersion: index})
	s.changes = append(s.changes, Change{Kind: VhostCreated, Vhost: name})
	for _, x := range []struct{ name, kind string }{{"", "direct"}, {"amq.direct", "direct"}, {"amq.fanout", "fanout"},
		{"amq.headers", "headers"}, {"amq.match", "headers"}, {"amq.topic", "topic"}} {
		s.putExchange(&Exchange{Vhost: name, Name: x.name, Type: x.kind, Durable: true}, ExchangeCreated)
	}
}

func (s *State) addVhost(index uint64, c *AddVhost) Result {
	if _, ok := s.vhosts.get(c.Name); ok {
		return refused(CodeExists, KindVhost, "", c.Name)
	}
	s.createVhost(index, c.Name)
	return Result{Created: true}
}

func (s *State) deleteVhost(c *DeleteVhost) Result {
	if _, ok := s.vhosts.get(c.Name); !ok {
		return refused(CodeNotFound, KindVhost, "", c.Name)
	}
	for _, q := range s.VhostQueues(c.Name) {
		s.dropQueue(q)
	}
	for _, x := range s.Exchanges(c.Name) {
		if now, ok := s.exchanges.get(key(x.Vhost, x.Name)); ok { // not gone already as an auto-delete exchange
			s.dropExchange(now)
		}
	}
	for _, operator := range []bool{false, true} {
		for _, p := range s.Policies(c.Name, operator) {
			s.policyTable(operator).del(key(p.Vhost, p.Name))
		}
	}
	for _, p := range s.Permissions(c.Name) {
		s.permissions.del(key(p.Vhost, p.User))
	}
	s.forgetVhost(c.Name)
	s.vhosts.del(c.Name)
	s.changes = append(s.changes, Change{Kind: VhostDeleted, Vhost: c.Name})
	return Result{}
}

func (s *State) putUser(c *PutUser) Result {
	if _, ok := s.users.get(c.User.Name); ok && c.Create {
		return refused(CodeExists, KindUser, "", c.User.Name)
	}
	u := c.User
	s.users.put(u.Name, &u)
	s.changes = append(s.changes, Change{Kind: UsersChanged})
	return Result{Created: c.Create}
}

func (s *State) deleteUser(c *DeleteUser) Result {
	if _, ok := s.users.get(c.Name); !ok {
		return refused(CodeNotFound, KindUser, "", c.Name)
	}
	s.users.del(c.Name)
	s.forgetUser(c.Name)
	for _, p := range s.permissions.all() {
		if p.User == c.Name {
			s.permissions.del(key(p.Vhost, p.User))
		}
	}
	s.changes = append(s.changes, Change{Kind: UsersChanged, User: c.Name})
	return Result{}
}

func (s *State) setPermission(c *SetPermission) Result {
	p := c.Permission
	if _, ok := s.vhosts.get(p.Vhost); !ok {
		return refused(CodeNotFound, KindVhost, "", p.Vhost)
	}
	if _, ok := s.users.get(p.User); !ok {
		return refused(CodeNotFound, KindUser, "", p.User)
	}
	s.permissions.put(key(p.Vhost, p.User), &p)
	s.changes = append(s.changes, Change{Kind: UsersChanged})
	return Result{}
}

func (s *State) clearPermission(c *ClearPermission) Result {
	if _, ok := s.vhosts.get(c.Vhost); !ok {
		return refused(CodeNotFound, KindVhost, "", c.Vhost)
	}
	if _, ok := s.users.get(c.User); !ok {
		return refused(CodeNotFound, KindUser, "", c.User)
	}
	s.permissions.del(key(c.Vhost, c.User))
	s.changes = append(s.changes, Change{Kind: UsersChanged})
	return Result{}
}

func (s *State) declareExchange(index uint64, c *DeclareExchange) Result {
	v, ok := s.vhosts.get(c.Vhost)
	if !ok {
		return refused(CodeNotFound, KindVhost, "", c.Vhost)
	}
	if x, ok := s.Exchange(c.Vhost, c.Name); ok {
		return redeclareExchange(x, c)
	}
	if v.PolicyVersion != c.PolicyVersion {
		return stale(KindExchange, c.Vhost, c.Name, "policies are at %d, not %d", v.PolicyVersion, c.PolicyVersion)
	}
	effective, ok := s.effective(c.Vhost, c.Match)
	if !ok {
		return stale(KindExchange, c.Vhost, c.Name, "its policies do not exist")
	}
	x := &Exchange{Vhost: c.Vhost, Name: c.Name, Type: c.Type, Durable: c.Durable, AutoDelete: c.AutoDelete, Internal: c.Internal,
		Arguments: c.Arguments, Compared: c.Compared, Effective: effective}
	x.setMatch(c.Match)
	s.objectCreated(index, v)
	s.putExchange(x, ExchangeCreated)
	return Result{Created: true}
}

func redeclareExchange(x *Exchange, c *DeclareExchange) Result {
	for _, f := range []struct{ key, have, want string }{{"type", x.Type, c.Type},
		{"durable", fmt.Sprint(x.Durable), fmt.Sprint(c.Durable)}, {"auto_delete", fmt.Sprint(x.AutoDelete), fmt.Sprint(c.AutoDelete)},
		{"internal", fmt.Sprint(x.Internal), fmt.Sprint(c.Internal)}} {
		if f.have != f.want {
			return inequivalent(KindExchange, c.Vhost, c.Name, f.key, "'"+f.have+"'", "'"+f.want+"'")
		}
	}
	r, _ := compareArguments(KindExchange, c.Vhost, c.Name, x.Compared, c.Compared)
	return r
}

func (s *State) deleteExchange(c *DeleteExchange) Result {
	if _, ok := s.vhosts.get(c.Vhost); !ok {
		return refused(CodeNotFound, KindVhost, "", c.Vhost)
	}
	x, ok := s.Exchange(c.Vhost, c.Name)
	if !ok {
		return refused(CodeNotFound, KindExchange, c.Vhost, c.Name)
	}
	if c.IfUnused && len(s.BindingsFrom(c.Vhost, c.Name)) > 0 {
		return refused(CodeInUse, KindExchange, c.Vhost, c.Name)
	}
	s.dropExchange(x)
	return Result{}
}

// bindable checks both ends of a binding.
func (s *State) bindable(b Binding, owner Owner) (Result, bool) {
	if _, ok := s.vhosts.get(b.Vhost); !ok {
		return refused(CodeNotFound, KindVhost, "", b.Vhost), false
	}
	if _, ok := s.Exchange(b.Vhost, b.Source); !ok {
		return refused(CodeNotFound, KindExchange, b.Vhost, b.Source), false
	}
	if b.Kind == KindExchange {
		if _, ok := s.Exchange(b.Vhost, b.Destination); !ok {
			return refused(CodeNotFound, KindExchange, b.Vhost, b.Destination), false
		}
		return Result{}, true
	}
	q, ok := s.Queue(b.Vhost, b.Destination)
	if b.Kind != KindQueue || !ok {
		return refused(CodeNotFound, KindQueue, b.Vhost, b.Destination), false
	}
	if q.Exclusive && owner != (Owner{}) && q.Owner != owner {
		return refused(CodeLocked, KindQueue, b.Vhost, b.Destination), false
	}
	return Result{}, true
}

func (s *State) bind(c *Bind) Result {
	if r, ok := s.bindable(c.Binding, c.Owner); !ok {
		return r
	}
	if _, ok := s.bindings.get(bindingKey(&c.Binding)); ok {
		return Result{}
	}
	b := c.Binding
	s.putBinding(&b)
	return Result{Created: true}
}

// unbind removes a binding. That there is none is fine, also where another connection's exclusive queue is named; that there is no
// such queue or exchange is told.
func (s *State) unbind(c *Unbind) Result {
	if q, ok := s.Queue(c.Binding.Vhost, c.Binding.Destination); ok && c.Binding.Kind == KindQueue && q.Exclusive {
		if _, ok := s.bindings.get(bindingKey(&c.Binding)); !ok {
			return Result{}
		}
	}
	if r, ok := s.bindable(c.Binding, c.Owner); !ok {
		return r
	}
	if b, ok := s.bindings.get(bindingKey(&c.Binding)); ok {
		s.dropBinding(b)
	}
	return Result{}
}
