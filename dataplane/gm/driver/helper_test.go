package driver

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"warren/dataplane/gm"
	"warren/dataplane/link"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// node is a Transport and a Host on loopback.
type node struct {
	*Host
	links *link.Transport
}

// cluster is n nodes that are all linked with each other, named a, b, c….
type cluster struct {
	nodes []*node
	ups   *counter
}

// counter is a number that can be waited for.
type counter struct {
	mu   sync.Mutex
	cond sync.Cond
	n    int
}

func newCounter() *counter {
	c := &counter{}
	c.cond.L = &c.mu
	return c
}

func (c *counter) add(n int) {
	c.mu.Lock()
	c.n += n
	c.mu.Unlock()
	c.cond.Broadcast()
}

func (c *counter) get() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
}

// wait blocks until the number is at least n.
func (c *counter) wait(t testing.TB, what string, n int) {
	t.Helper()
	late := false
	timer := time.AfterFunc(20*time.Second, func() {
		c.mu.Lock()
		late = true
		c.mu.Unlock()
		c.cond.Broadcast()
	})
	defer timer.Stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.n < n && !late {
		c.cond.Wait()
	}
	if c.n < n {
		t.Fatalf("waiting for %s: %d of %d", what, c.n, n)
	}
}

type upCounter struct{ *counter }

func (u upCounter) LinkUp(link.PeerID)               { u.add(1) }
func (u upCounter) LinkDown(link.PeerID, link.Cause) {}
func (u upCounter) LinkDrained(link.PeerID)          {}
func nodeName(i int) string                          { return string(rune('a' + i)) }
func member(i int) gm.Member {
	return gm.Member{Node: nodeName(i), Incarnation: uint64(i + 1), JoinIndex: 10}
}
func view(version uint64, members ...gm.Member) gm.View {
	return gm.View{Version: version, Members: members}
}

func newNode(t testing.TB, i int, ups *counter, cfg Config, edit func(*link.Config)) *node {
	t.Helper()
	lc := link.Config{
		Addr: "127.0.0.1:0", Node: nodeName(i), Cookie: []byte("the cookie of the tests"), Log: slog.New(slog.DiscardHandler),
		Hello: func() link.Hello { return link.Hello{Cluster: "c", Incarnation: uint64(i + 1)} },
	}
	if edit != nil {
		edit(&lc)
	}
	links, err := link.New(lc)
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	n := &node{Host: NewHost(links, cfg), links: links}
	links.Watch(upCounter{ups})
	t.Cleanup(func() {
		if err := links.Close(); err != nil {
			t.Error(err)
		}
		n.Close()
	})
	links.Start()
	return n
}

func newCluster(t testing.TB, n int, cfg Config, edit func(*link.Config)) *cluster {
	t.Helper()
	c := &cluster{ups: newCounter()}
	var peers []link.Peer
	for i := range n {
		nd := newNode(t, i, c.ups, cfg, edit)
		c.nodes = append(c.nodes, nd)
		peers = append(peers, link.Peer{Node: nodeName(i), Addr: nd.links.Addr().String()})
	}
	for _, nd := range c.nodes {
		nd.links.SetPeers(peers)
	}
	c.ups.wait(t, "links", n*(n-1))
	return c
}

// user is a Handler: it broadcasts what it is told to, persists at the end of each batch, and records what it sees.
type user struct {
	t     testing.TB
	actor *Actor
	host  *Host

	// Touched on the actor's goroutine only.
	m     *Member
	self  gm.Member
	queue [][]byte
	seen  map[gm.Member]uint64
	hold  bool // does not persist

	delivered *counter
	persisted *counter // own messages known persisted by all
	closed    *counter
	joined    *counter
	batches   *counter

	onDeliver func(out gm.Output)
	onStable  func(upTo uint64)

	mu  sync.Mutex
	log []string
}

func (n *node) newUser(t testing.TB) *user {
	u := &user{
		t: t, host: n.Host, seen: map[gm.Member]uint64{},
		delivered: newCounter(), persisted: newCounter(), closed: newCounter(), joined: newCounter(), batches: newCounter(),
	}
	u.actor = n.NewActor(u)
	return u
}

type (
	evJoin  struct{ group uint64 }
	evHold  bool
	evBlock chan struct{}
)

// join makes the users of some nodes members of one group, in one view.
func (c *cluster) join(t testing.TB, group uint64, members ...int) []*user {
	t.Helper()
	var users []*user
	v := view(10)
	for _, i := range members {
		v.Members = append(v.Members, member(i))
	}
	for _, i := range members {
		u := c.nodes[i].newUser(t)
		u.self = member(i)
		users = append(users, u)
		u.post(evJoin{group})
		u.post(v)
	}
	return users
}

func (u *user) post(ev any) {
	u.t.Helper()
	if err := u.actor.Post(ev); err != nil {
		u.t.Fatal(err)
	}
}

func (u *user) HandleEvent(ev any) {
	switch ev := ev.(type) {
	case evJoin:
		m, err := u.host.Join(u.actor, ev.group, gm.Config{Self: u.self})
		if err != nil {
			u.t.Errorf("join: %v", err)
			return
		}
		u.m = m
	case gm.View:
		if err := u.m.Install(ev); err != nil {
			u.t.Errorf("install: %v", err)
		}
	case []byte:
		u.queue = append(u.queue, ev)
		u.broadcast()
	case evHold:
		u.hold = bool(ev)
	case evBlock:
		<-ev
	}
}

func (u *user) broadcast() {
	for len(u.queue) > 0 {
		if _, err := u.m.Broadcast(gm.Bulk, u.queue[0]); err != nil {
			if !errors.Is(err, gm.ErrWindowFull) && !errors.Is(err, gm.ErrNotJoined) {
				u.t.Errorf("broadcast: %v", err)
			}
			return
		}
		u.queue = u.queue[1:]
	}
}

func (u *user) HandleOutput(out gm.Output) {
	switch out.Kind {
	case gm.Deliver:
		if last := u.seen[out.Sender]; last != 0 && out.Number != last+1 {
			u.t.Errorf("%s: message %d of %s after %d", u.self.Node, out.Number, out.Sender.Node, last)
		}
		u.seen[out.Sender] = out.Number
		if u.onDeliver != nil {
			u.onDeliver(out)
		} else {
			u.mu.Lock()
			u.log = append(u.log, fmt.Sprintf("%s:%s", out.Sender.Node, out.Payload))
			u.mu.Unlock()
		}
		u.delivered.add(1)
	case gm.Progress:
		if u.onStable != nil {
			u.onStable(out.Persisted)
		}
		u.persisted.add(int(out.Persisted) - u.persisted.get())
	case gm.WindowOpen:
		u.broadcast()
	case gm.Joined:
		u.joined.add(1)
		u.broadcast()
	case gm.SenderClosed:
		u.closed.add(1)
	}
}

func (u *user) EndBatch() {
	if u.m != nil && !u.hold {
		for s, n := range u.seen {
			u.m.Persisted(s, n)
		}
	}
	u.batches.add(1)
}

// of returns the payloads of one sender in the order of delivery.
func (u *user) of(i int) []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	var list []string
	for _, e := range u.log {
		if e[:2] == nodeName(i)+":" {
			list = append(list, e[2:])
		}
	}
	return list
}
