package state

import (
	"cmp"
	"slices"
	"strconv"
)

// Numbers of the operators' commands; see command.go.
const (
	numPutVhost             = 56
	numSetVhostLimits       = 57
	numSetUserLimits        = 58
	numSetTopicPermission   = 59
	numClearTopicPermission = 60
	numSetGlobalParameter   = 61
	numClearGlobalParameter = 62
	numSetUserTags          = 63
	numSetUserPassword      = 64
)

// Limit is one limit of a vhost or a user; a negative value is none.
type Limit struct {
	Name  string `msgpack:"n"`
	Value int64  `msgpack:"v"`
}

// Names of the limits that are kept to.
const (
	// LimitConnections: of a vhost or a user, over the whole cluster. Kept by the nodes that accept connections.
	LimitConnections = "max-connections"
	// LimitQueues: of a vhost. DeclareQueue is refused with CodeLimit.
	LimitQueues = "max-queues"
	// LimitChannels: of a user, over the whole cluster.
	LimitChannels = "max-channels"
)

// Limits are all limits of a vhost or a user, sorted by name. Immutable.
type Limits struct {
	Owner  string  `msgpack:"o"` // the vhost or the user
	Limits []Limit `msgpack:"l"`
}

// Get is the limit of that name; ok is false where there is none.
func (l *Limits) Get(name string) (value int64, ok bool) {
	if l == nil {
		return 0, false
	}
	for _, one := range l.Limits {
		if one.Name == name && one.Value >= 0 {
			return one.Value, true
		}
	}
	return 0, false
}

// TopicPermission is which routing keys a user may publish with to a topic exchange, and bind with from it: two regular
// expressions. A user without one for an exchange may use any key. Immutable.
type TopicPermission struct {
	User     string `msgpack:"u"`
	Vhost    string `msgpack:"v"`
	Exchange string `msgpack:"x"`
	Write    string `msgpack:"w"`
	Read     string `msgpack:"r"`
}

// Global is a global runtime parameter; Value is JSON. Immutable.
type Global struct {
	Name  string `msgpack:"n"`
	Value string `msgpack:"v"`
}

// PutVhost creates a virtual host, or gives one that exists this description, these tags and this type (Result.Created).
type PutVhost struct {
	Name             string   `msgpack:"n"`
	Description      string   `msgpack:"d"`
	Tags             []string `msgpack:"t"`
	DefaultQueueType string   `msgpack:"q"`
}

// SetVhostLimits replaces the limits of a vhost; none removes them. CodeNotFound: the vhost.
type SetVhostLimits struct {
	Vhost  string  `msgpack:"v"`
	Limits []Limit `msgpack:"l"`
}

// SetUserLimits changes the limits of a user: those named replace the ones of the same name, and Clear are removed; with All, all
// are removed first. CodeNotFound: the user.
type SetUserLimits struct {
	User   string   `msgpack:"u"`
	Limits []Limit  `msgpack:"l"`
	Clear  []string `msgpack:"c"`
	All    bool     `msgpack:"a"`
}

// SetTopicPermission sets a user's topic permission for an exchange, which need not exist. CodeNotFound: vhost or user.
type SetTopicPermission struct {
	Permission TopicPermission `msgpack:"p"`
}

// ClearTopicPermission removes a user's topic permission for one exchange, or with All for all of a vhost; there may be none.
type ClearTopicPermission struct {
	User     string `msgpack:"u"`
	Vhost    string `msgpack:"v"`
	Exchange string `msgpack:"x"`
	All      bool   `msgpack:"a"`
}

// SetGlobalParameter sets a global parameter; Value is JSON. The one called cluster_name is the cluster's name.
type SetGlobalParameter struct {
	Name  string `msgpack:"n"`
	Value string `msgpack:"v"`
	// Text is the value of a cluster_name as users see it.
	Text string `msgpack:"t"`
}

// ClearGlobalParameter removes a global parameter; CodeNotFound if there is none.
type ClearGlobalParameter struct {
	Name string `msgpack:"n"`
}

// SetUserTags replaces a user's tags; CodeNotFound.
type SetUserTags struct {
	Name string   `msgpack:"n"`
	Tags []string `msgpack:"t"`
}

// SetUserPassword replaces a user's password hash, an empty one takes the password away; CodeNotFound.
type SetUserPassword struct {
	Name         string `msgpack:"n"`
	PasswordHash []byte `msgpack:"p"`
}

func (*PutVhost) number() uint16             { return numPutVhost }
func (*SetVhostLimits) number() uint16       { return numSetVhostLimits }
func (*SetUserLimits) number() uint16        { return numSetUserLimits }
func (*SetTopicPermission) number() uint16   { return numSetTopicPermission }
func (*ClearTopicPermission) number() uint16 { return numClearTopicPermission }
func (*SetGlobalParameter) number() uint16   { return numSetGlobalParameter }
func (*ClearGlobalParameter) number() uint16 { return numClearGlobalParameter }
func (*SetUserTags) number() uint16          { return numSetUserTags }
func (*SetUserPassword) number() uint16      { return numSetUserPassword }

func operatorCommands() []Command {
	return []Command{&PutVhost{}, &SetVhostLimits{}, &SetUserLimits{}, &SetTopicPermission{}, &ClearTopicPermission{},
		&SetGlobalParameter{}, &ClearGlobalParameter{}, &SetUserTags{}, &SetUserPassword{}}
}

// executeOperator carries out an operator's command; ok is false for any other.
func (s *State) executeOperator(index uint64, cmd Command) (r Result, ok bool) {
	switch c := cmd.(type) {
	case *PutVhost:
		return s.putVhost(index, c), true
	case *SetVhostLimits:
		return s.setVhostLimits(c), true
	case *SetUserLimits:
		return s.setUserLimits(c), true
	case *SetTopicPermission:
		return s.setTopicPermission(c), true
	case *ClearTopicPermission:
		return s.clearTopicPermission(c), true
	case *SetGlobalParameter:
		s.globals.put(c.Name, &Global{Name: c.Name, Value: c.Value})
		if c.Name == ClusterNameParameter {
			s.clusterName = c.Text
		}
		return Result{}, true
	case *ClearGlobalParameter:
		if _, ok := s.globals.get(c.Name); !ok {
			return refused(CodeNotFound, "parameter", "", c.Name), true
		}
		s.globals.del(c.Name)
		return Result{}, true
	case *SetUserTags:
		return s.changeUser(c.Name, func(u *User) { u.Tags = c.Tags }), true
	case *SetUserPassword:
		return s.changeUser(c.Name, func(u *User) { u.PasswordHash = c.PasswordHash }), true
	}
	return Result{}, false
}

// ClusterNameParameter is the global parameter that is the cluster's name.
const ClusterNameParameter = "cluster_name"

func (s *State) putVhost(index uint64, c *PutVhost) Result {
	created := false
	if _, ok := s.vhosts.get(c.Name); !ok {
		s.createVhost(index, c.Name)
		created = true
	}
	was, _ := s.vhosts.get(c.Name)
	now := *was
	now.Description, now.Tags, now.DefaultQueueType = c.Description, c.Tags, c.DefaultQueueType
	s.vhosts.put(c.Name, &now)
	return Result{Created: created}
}

func sortedLimits(owner string, limits []Limit) *Limits {
	l := &Limits{Owner: owner, Limits: slices.Clone(limits)}
	slices.SortFunc(l.Limits, func(a, b Limit) int { return cmp.Compare(a.Name, b.Name) })
	return l
}

func (s *State) setVhostLimits(c *SetVhostLimits) Result {
	if _, ok := s.vhosts.get(c.Vhost); !ok {
		return refused(CodeNotFound, KindVhost, "", c.Vhost)
	}
	if len(c.Limits) == 0 {
		s.vhostLimits.del(c.Vhost)
		return Result{}
	}
	s.vhostLimits.put(c.Vhost, sortedLimits(c.Vhost, c.Limits))
	return Result{}
}

func (s *State) setUserLimits(c *SetUserLimits) Result {
	if _, ok := s.users.get(c.User); !ok {
		return refused(CodeNotFound, KindUser, "", c.User)
	}
	var now []Limit
	if was, ok := s.userLimits.get(c.User); ok && !c.All {
		for _, l := range was.Limits {
			replaced := slices.ContainsFunc(c.Limits, func(o Limit) bool { return o.Name == l.Name })
			if !replaced && !slices.Contains(c.Clear, l.Name) {
				now = append(now, l)
			}
		}
	}
	if now = append(now, c.Limits...); len(now) == 0 {
		s.userLimits.del(c.User)
		return Result{}
	}
	s.userLimits.put(c.User, sortedLimits(c.User, now))
	return Result{}
}

func (s *State) setTopicPermission(c *SetTopicPermission) Result {
	p := c.Permission
	if r, ok := s.userInVhost(p.User, p.Vhost); !ok {
		return r
	}
	s.topics.put(key(p.Vhost, p.User, p.Exchange), &p)
	s.changes = append(s.changes, Change{Kind: UsersChanged})
	return Result{}
}

func (s *State) clearTopicPermission(c *ClearTopicPermission) Result {
	if r, ok := s.userInVhost(c.User, c.Vhost); !ok {
		return r
	}
	if c.All {
		for _, p := range under(&s.topics, key(c.Vhost, c.User)) {
			s.topics.del(key(p.Vhost, p.User, p.Exchange))
		}
	} else {
		s.topics.del(key(c.Vhost, c.User, c.Exchange))
	}
	s.changes = append(s.changes, Change{Kind: UsersChanged})
	return Result{}
}

func (s *State) userInVhost(user, vhost string) (Result, bool) {
	if _, ok := s.vhosts.get(vhost); !ok {
		return refused(CodeNotFound, KindVhost, "", vhost), false
	}
	if _, ok := s.users.get(user); !ok {
		return refused(CodeNotFound, KindUser, "", user), false
	}
	return Result{}, true
}

func (s *State) changeUser(name string, change func(*User)) Result {
	was, ok := s.users.get(name)
	if !ok {
		return refused(CodeNotFound, KindUser, "", name)
	}
	now := *was
	change(&now)
	s.users.put(name, &now)
	s.changes = append(s.changes, Change{Kind: UsersChanged})
	return Result{}
}

// forgetVhost and forgetUser drop what goes with a vhost and a user.
func (s *State) forgetVhost(vhost string) {
	for _, p := range under(&s.topics, key(vhost)) {
		s.topics.del(key(p.Vhost, p.User, p.Exchange))
	}
	s.vhostLimits.del(vhost)
}

func (s *State) forgetUser(user string) {
	for _, p := range s.topics.all() {
		if p.User == user {
			s.topics.del(key(p.Vhost, p.User, p.Exchange))
		}
	}
	s.userLimits.del(user)
}

// queueLimit refuses a queue that a vhost has no room for.
func (s *State) queueLimit(vhost, name string) (Result, bool) {
	limits, _ := s.vhostLimits.get(vhost)
	limit, ok := limits.Get(LimitQueues)
	if !ok || int64(len(under(&s.queueNames, key(vhost)))) < limit {
		return Result{}, true
	}
	r := refused(CodeLimit, KindQueue, vhost, name)
	r.Err.Detail = strconv.FormatInt(limit, 10)
	return r, false
}

// VhostLimits are the limits of a vhost, nil if it has none.
func (s *State) VhostLimits(vhost string) *Limits {
	l, _ := s.vhostLimits.get(vhost)
	return l
}

// UserLimits are the limits of a user, nil if it has none.
func (s *State) UserLimits(user string) *Limits {
	l, _ := s.userLimits.get(user)
	return l
}

// AllVhostLimits and AllUserLimits are those of all that have any, by ascending name.
func (s *State) AllVhostLimits() []*Limits { return s.vhostLimits.all() }

// AllUserLimits see AllVhostLimits.
func (s *State) AllUserLimits() []*Limits { return s.userLimits.all() }

// TopicPermission is a user's topic permission for an exchange.
func (s *State) TopicPermission(vhost, user, exchange string) (*TopicPermission, bool) {
	return s.topics.get(key(vhost, user, exchange))
}

// UserTopics are a user's topic permissions in a vhost by ascending exchange.
func (s *State) UserTopics(vhost, user string) []*TopicPermission {
	return under(&s.topics, key(vhost, user))
}

// TopicPermissions are all topic permissions by vhost, user and exchange.
func (s *State) TopicPermissions() []*TopicPermission { return s.topics.all() }

// AllPermissions are all permissions by vhost and user.
func (s *State) AllPermissions() []*Permission { return s.permissions.all() }

// Globals are the global parameters by ascending name.
func (s *State) Globals() []*Global { return s.globals.all() }
