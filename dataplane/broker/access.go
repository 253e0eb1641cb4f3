package broker

import (
	"strings"
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
	// topics are the user's topic permissions in the vhost by exchange; most users have none.
	topics map[string]*topicRule
}

type accessKey struct {
	act  string
	name string
}

// topicRule is a topic permission. Patterns that do not compile match nothing.
type topicRule struct{ write, read *policy.Matcher }

// maxKnownAccess bounds the answers remembered for one connection.
const maxKnownAccess = 1024

func newAccess(l *life, user, vhost string) *access {
	return &access{life: l, user: user, vhost: vhost, known: map[accessKey]bool{}}
}

// configure and read are about queues; see exchange.
func (a *access) configure(name string) error { return a.check("configure", state.KindQueue, name) }
func (a *access) read(name string) error      { return a.check("read", state.KindQueue, name) }

// exchange is what a user may do with an exchange: act is configure, write or read.
func (a *access) exchange(act, name string) error {
	return a.check(act, state.KindExchange, exchangeName(name))
}

func (a *access) check(act string, kind state.Kind, name string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refresh()
	key := accessKey{act, name}
	allowed, ok := a.known[key]
	if !ok {
		allowed = a.look(act, name)
		a.known[key] = allowed
	}
	if !allowed {
		return amqp.Errorf(amqp.AccessRefused, "access to %s '%s' in vhost '%s' refused for user '%s'", kind, name, a.vhost, a.user)
	}
	return nil
}

// refresh forgets answers that may be out of date; the caller holds mu.
func (a *access) refresh() {
	v := a.life.usersVersion.Load()
	if v == a.version && len(a.known) < maxKnownAccess {
		return
	}
	a.version, a.known, a.topics = v, map[accessKey]bool{}, nil
	var mine []*state.TopicPermission
	a.life.node.meta.View(func(s *state.State) { mine = s.UserTopics(a.vhost, a.user) })
	for _, p := range mine {
		if a.topics == nil {
			a.topics = map[string]*topicRule{}
		}
		a.topics[p.Exchange] = &topicRule{a.topicMatcher(p.Write), a.topicMatcher(p.Read)}
	}
}

// topicMatcher compiles a pattern in which {username} and {vhost} stand for the connection's.
func (a *access) topicMatcher(pattern string) *policy.Matcher {
	pattern = strings.NewReplacer("{username}", a.user, "{vhost}", a.vhost).Replace(pattern)
	m, err := policy.NewMatcher(pattern)
	if err != nil {
		return nil
	}
	return m
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

// topic is whether the user may use a routing key with an exchange, which matters for topic exchanges only: act is write for a
// publish, read for a binding.
func (a *access) topic(act, exchange, routingKey string) error {
	if exchange == "" {
		return nil
	}
	a.mu.Lock()
	a.refresh()
	rule := a.topics[exchange]
	a.mu.Unlock()
	if rule == nil {
		return nil
	}
	kind := ""
	a.life.node.meta.View(func(s *state.State) {
		if x, ok := s.Exchange(a.vhost, exchange); ok {
			kind = x.Type
		}
	})
	if kind != "topic" {
		return nil
	}
	m := rule.write
	if act == "read" {
		m = rule.read
	}
	if m != nil {
		if ok, err := m.Match(routingKey); ok && err == nil {
			return nil
		}
	}
	return amqp.Errorf(amqp.AccessRefused, "access to topic '%s' in exchange '%s' in vhost '%s' refused for user '%s'",
		routingKey, exchange, a.vhost, a.user)
}
