package broker

import (
	"sync"

	"warren/dataplane/amqp"
	"warren/metadata/policy"
	"warren/metadata/state"
)

// access answers what a user may do in a vhost. Answers are remembered until users or permissions change.
type access struct {
	life        *life
	user, vhost string

	mu      sync.Mutex
	version uint64
	known   map[accessKey]bool
}

type accessKey struct {
	act  string
	name string
}

// maxKnownAccess bounds the answers remembered for one connection.
const maxKnownAccess = 1024

func newAccess(l *life, user, vhost string) *access {
	return &access{life: l, user: user, vhost: vhost, known: map[accessKey]bool{}}
}

func (a *access) configure(name string) error { return a.check("configure", name) }
func (a *access) write(name string) error     { return a.check("write", name) }
func (a *access) read(name string) error      { return a.check("read", name) }

func (a *access) check(act, name string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if v := a.life.usersVersion.Load(); v != a.version || len(a.known) >= maxKnownAccess {
		a.version, a.known = v, map[accessKey]bool{}
	}
	key := accessKey{act, name}
	allowed, ok := a.known[key]
	if !ok {
		allowed = a.look(act, name)
		a.known[key] = allowed
	}
	if !allowed {
		return amqp.Errorf(amqp.AccessRefused, "%s access to '%s' in vhost '%s' refused for user '%s'", act, name, a.vhost, a.user)
	}
	return nil
}

func (a *access) look(act, name string) bool {
	var p *state.Permission
	a.life.node.meta.View(func(s *state.State) { p, _ = s.Permission(a.user, a.vhost) })
	if p == nil {
		return false
	}
	pattern := map[string]string{"configure": p.Configure, "write": p.Write, "read": p.Read}[act]
	switch pattern {
	case ".*":
		return true
	case "", "^$":
		return name == ""
	}
	m, err := policy.NewMatcher(pattern)
	if err != nil {
		return false
	}
	ok, err := m.Match(name)
	return ok && err == nil
}
