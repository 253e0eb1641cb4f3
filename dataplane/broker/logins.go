package broker

import (
	"cmp"
	"net"
	"slices"
	"sync"

	"warren/dataplane/amqp"
)

// Logins counts clients' attempts to log in to this node over AMQP, since it started or the counts were reset. Source and User are
// empty in the sum over all.
type Logins struct {
	Source, User      string
	Failed, Succeeded uint64
}

// maxSources bounds the sources of logins that are counted apart; those that come when there are more are in the sum alone.
const maxSources = 1000

type source struct{ address, user string }

// logins counts; by source only while an operator wants that.
type logins struct {
	mu       sync.Mutex
	sum      Logins
	bySource map[source]*Logins // nil: not tracked
}

func (t *logins) count(c amqp.Credentials, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	to := []*Logins{&t.sum}
	if t.bySource != nil {
		host := ""
		if tcp, ok := c.Remote.(*net.TCPAddr); ok {
			host = tcp.IP.String()
		}
		key := source{host, c.Username}
		if t.bySource[key] == nil && len(t.bySource) < maxSources {
			t.bySource[key] = &Logins{Source: host, User: c.Username}
		}
		if one := t.bySource[key]; one != nil {
			to = append(to, one)
		}
	}
	for _, l := range to {
		if err != nil {
			l.Failed++
		} else {
			l.Succeeded++
		}
	}
}

// Logins are the counts of this node: the sum, and if sources are tracked those of each, by address and user.
func (n *Node) Logins() (sum Logins, sources []Logins) {
	t := &n.logins
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, l := range t.bySource {
		sources = append(sources, *l)
	}
	slices.SortFunc(sources, func(a, b Logins) int { return cmp.Or(cmp.Compare(a.Source, b.Source), cmp.Compare(a.User, b.User)) })
	return t.sum, sources
}

// ResetLogins sets all counts to zero.
func (n *Node) ResetLogins() {
	t := &n.logins
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sum = Logins{}
	clear(t.bySource)
}

// TrackLoginSources begins or ends to count logins by address and user.
func (n *Node) TrackLoginSources(on bool) {
	t := &n.logins
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case !on:
		t.bySource = nil
	case t.bySource == nil:
		t.bySource = map[source]*Logins{}
	}
}
