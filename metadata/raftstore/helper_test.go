package raftstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"warren/metadata/state"
)

// port listens for as long as the test runs, whether its node does or not: were the port free meanwhile, a node of another test
// process that took it would answer, and vote, in the place of ours.
type port struct {
	net.Listener
	mu sync.Mutex
	to *tcp // the node that is there now
}

func newPort(t testing.TB) *port {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &port{Listener: l}
	served := make(chan struct{})
	go func() {
		defer close(served)
		p.serve()
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-served
	})
	return p
}

func (p *port) serve() {
	for {
		c, err := p.Listener.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		to := p.to
		p.mu.Unlock()
		if to == nil || !to.offer(c) {
			_ = c.Close()
		}
	}
}

// open is the Stream of a node that starts at the port.
func (p *port) open() *tcp {
	s := &tcp{port: p, conns: map[net.Conn]bool{}, incoming: make(chan net.Conn), closed: make(chan struct{})}
	p.mu.Lock()
	p.to = s
	p.mu.Unlock()
	return s
}

// tcp is a Stream over loopback that can be cut off.
type tcp struct {
	port     *port
	incoming chan net.Conn
	closed   chan struct{}
	once     sync.Once
	mu       sync.Mutex
	conns    map[net.Conn]bool
	cut      bool
}

func newTCP(t testing.TB) *tcp { return newPort(t).open() }

func (s *tcp) Addr() net.Addr { return s.port.Addr() }

func (s *tcp) Close() error {
	s.once.Do(func() { close(s.closed) })
	return nil
}

// offer hands s a connection; it is false if s is closed.
func (s *tcp) offer(c net.Conn) bool {
	select {
	case s.incoming <- c:
		return true
	case <-s.closed:
		return false
	}
}

var errCut = errors.New("cut off")

func (s *tcp) keep(c net.Conn) (net.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cut {
		c.Close()
		return nil, errCut
	}
	s.conns[c] = true
	return c, nil
}

func (s *tcp) Accept() (net.Conn, error) {
	for {
		select {
		case c := <-s.incoming:
			if c, err := s.keep(c); err == nil {
				return c, nil
			}
		case <-s.closed:
			return nil, net.ErrClosed
		}
	}
}

func (s *tcp) Dial(addr string, timeout time.Duration) (net.Conn, error) {
	c, err := net.DialTimeout("tcp", addr, timeout)
	if err != nil {
		return nil, err
	}
	return s.keep(c)
}

func (s *tcp) cutOff(cut bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cut = cut
	for c := range s.conns {
		c.Close()
		delete(s.conns, c)
	}
}

type node struct {
	name   string
	dir    string
	addr   string
	port   *port
	stream *tcp
	store  *Store
	prober *fakeProber
}

// cluster are stores in one process.
type cluster struct {
	t     testing.TB
	mu    sync.Mutex
	nodes map[string]*node
	peers []Peer
	tune  func(*Config)
	lose  int // so many of the next answers are lost
}

func newCluster(t testing.TB, names ...string) *cluster {
	c := &cluster{t: t, nodes: map[string]*node{}}
	for _, n := range names {
		s := newTCP(t)
		c.nodes[n] = &node{name: n, dir: filepath.Join(t.TempDir(), n), addr: s.Addr().String(), port: s.port, stream: s, prober: &fakeProber{}}
		c.peers = append(c.peers, Peer{n, s.Addr().String()})
	}
	t.Cleanup(func() {
		for _, n := range c.nodes {
			c.kill(n.name)
		}
	})
	return c
}

func (c *cluster) start(names ...string) *cluster {
	c.t.Helper()
	for _, name := range names {
		n := c.nodes[name]
		if n.stream == nil {
			n.stream = n.port.open()
		}
		cfg := Config{Dir: n.dir, Self: name, Addr: n.addr, Stream: n.stream, Peers: c.peers, Prober: n.prober,
			Forward: func(ctx context.Context, to string, req []byte) ([]byte, error) { return c.forward(ctx, name, to, req) },
			Init:    &state.InitCluster{ID: "id", Name: "test", User: "guest"}, HeartbeatTimeout: 200 * time.Millisecond, LeaderLease: 150 * time.Millisecond}
		if os.Getenv("RAFTLOG") != "" {
			cfg.Logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug})).With("self", name)
		}
		if c.tune != nil {
			c.tune(&cfg)
		}
		s, err := Open(cfg)
		if err != nil {
			c.t.Fatal(err)
		}
		c.mu.Lock()
		n.store = s
		c.mu.Unlock()
	}
	return c
}

func (c *cluster) forward(ctx context.Context, from, to string, req []byte) ([]byte, error) {
	c.mu.Lock()
	a, b := c.nodes[from], c.nodes[to]
	c.mu.Unlock()
	if b == nil || b.store == nil || b.stream.isCut() || a.stream != nil && a.stream.isCut() {
		return nil, errCut
	}
	answer, err := b.store.HandleForward(ctx, req)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lose > 0 {
		c.lose--
		return nil, errCut
	}
	return answer, err
}

func (s *tcp) isCut() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cut
}

// kill ends a node as a crash does for the others: connections end, nothing is handed over.
func (c *cluster) kill(name string) {
	n := c.nodes[name]
	if n.stream != nil {
		n.stream.cutOff(true)
	}
	if n.store != nil {
		if err := n.store.Close(); err != nil {
			c.t.Errorf("close %s: %v", name, err)
		}
	}
	c.mu.Lock()
	n.store, n.stream = nil, nil
	c.mu.Unlock()
}

func (c *cluster) at(name string) *Store { return c.nodes[name].store }

// eventually waits for a condition.
func (c *cluster) eventually(what string, cond func() bool) {
	c.t.Helper()
	deadline := time.After(15 * time.Second)
	for !cond() {
		select {
		case <-deadline:
			c.t.Fatalf("never: %s", what)
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// leader waits until all running nodes name the same leader.
func (c *cluster) leader() string {
	c.t.Helper()
	var leader string
	c.eventually("one leader", func() bool {
		leader = ""
		for _, n := range c.nodes {
			if n.store == nil || n.stream.isCut() {
				continue
			}
			l, _ := n.store.Leader()
			if l == "" || leader != "" && l != leader || c.at(l) == nil || !c.at(l).IsLeader() {
				return false
			}
			leader = l
		}
		return leader != ""
	})
	return leader
}

func (c *cluster) follower() string {
	l := c.leader()
	for _, p := range c.peers {
		if p.Name != l && c.at(p.Name) != nil {
			return p.Name
		}
	}
	c.t.Fatal("no follower")
	return ""
}

func (c *cluster) propose(at string, cmd state.Command) state.Result {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	r, err := c.at(at).Propose(ctx, cmd)
	if err != nil {
		c.t.Fatalf("propose %T at %s: %v", cmd, at, err)
	}
	return r
}

func (c *cluster) up(name string, incarnation uint64) {
	c.t.Helper()
	if r := c.propose(name, &state.NodeUp{Node: name, Incarnation: incarnation}); r.Err != nil {
		c.t.Fatal(r.Err)
	}
}

func (c *cluster) snapshot(at string) string {
	var data []byte
	c.at(at).View(func(s *state.State) {
		var err error
		if data, err = s.Image().Encode(); err != nil {
			c.t.Fatal(err)
		}
	})
	return string(data)
}

// fakeProber knows who is gone.
type fakeProber struct {
	mu    sync.Mutex
	gone  map[string]bool
	asked [][]state.Place
	hold  chan struct{} // not nil: an answer waits for it
}

func (p *fakeProber) Gone(ctx context.Context, up []state.Place) (down []state.DownNode) {
	p.mu.Lock()
	p.asked = append(p.asked, up)
	hold := p.hold
	for _, u := range up {
		if p.gone[u.Node] {
			down = append(down, state.DownNode{Node: u.Node, Incarnation: u.Incarnation, Reason: state.ReasonFailure, Fenced: true})
		}
	}
	p.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
		}
	}
	return down
}

func (c *cluster) allGone(names ...string) {
	for _, n := range c.nodes {
		n.prober.mu.Lock()
		n.prober.gone = map[string]bool{}
		for _, name := range names {
			n.prober.gone[name] = true
		}
		n.prober.mu.Unlock()
	}
}

func vhost(i int) *state.AddVhost { return &state.AddVhost{Name: fmt.Sprintf("v%04d", i)} }
