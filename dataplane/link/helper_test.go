package link

import (
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

const (
	testKind   FrameKind = 20
	testCookie           = "the cookie of the tests"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// recorder is a Watcher that keeps what it is told, one string per event.
type recorder struct {
	mu     sync.Mutex
	events []string
	causes []Cause
	ups    []PeerID
	drains int
	change chan struct{}
}

func newRecorder() *recorder { return &recorder{change: make(chan struct{}, 1)} }

func (r *recorder) add(e string, f func()) {
	r.mu.Lock()
	if e != "" {
		r.events = append(r.events, e)
	}
	if f != nil {
		f()
	}
	r.mu.Unlock()
	select {
	case r.change <- struct{}{}:
	default:
	}
}

func (r *recorder) LinkUp(id PeerID) {
	r.add(fmt.Sprintf("up %s/%d", id.Node, id.Incarnation), func() { r.ups = append(r.ups, id) })
}

func (r *recorder) LinkDown(id PeerID, c Cause) {
	r.add(fmt.Sprintf("down %s/%d", id.Node, id.Incarnation), func() { r.causes = append(r.causes, c) })
}
func (r *recorder) LinkDrained(PeerID) { r.add("", func() { r.drains++ }) }

func (r *recorder) frame(id PeerID, body []byte) { r.add(fmt.Sprintf("frame %s", body), nil) }

// all returns the events so far.
func (r *recorder) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.events)
}

// link returns the i-th link that came up, from 0.
func (r *recorder) link(i int) PeerID {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ups[i]
}

// wait blocks until cond holds of the recorder, whose mutex is held while it is asked.
func (r *recorder) wait(t *testing.T, what string, cond func() bool) {
	t.Helper()
	deadline := time.NewTimer(10 * time.Second)
	defer deadline.Stop()
	for {
		r.mu.Lock()
		ok := cond()
		events := fmt.Sprint(r.events)
		r.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-r.change:
		case <-deadline.C:
			t.Fatalf("waiting for %s; events: %.2000s", what, events)
		}
	}
}

func (r *recorder) waitUps(t *testing.T, n int) {
	t.Helper()
	r.wait(t, fmt.Sprintf("%d links up", n), func() bool { return len(r.ups) >= n })
}

func (r *recorder) waitDowns(t *testing.T, n int) Cause {
	t.Helper()
	r.wait(t, fmt.Sprintf("%d links down", n), func() bool { return len(r.causes) >= n })
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.causes[n-1]
}

type testNode struct {
	*Transport
	rec   *recorder
	mu    sync.Mutex
	hello Hello
}

func (n *testNode) peer() Peer { return Peer{Node: n.Node(), Addr: n.Addr().String()} }

func (n *testNode) setHello(h Hello) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hello = h
}

// start makes a Transport on loopback that is closed with the test; edit may change its configuration.
func start(t *testing.T, node string, edit func(*Config)) *testNode {
	t.Helper()
	n := &testNode{rec: newRecorder(), hello: Hello{Cluster: "c1", Incarnation: 1}}
	cfg := Config{
		Addr: "127.0.0.1:0", Node: node, Cookie: []byte(testCookie), Log: slog.New(slog.DiscardHandler),
		Hello: func() Hello {
			n.mu.Lock()
			defer n.mu.Unlock()
			return n.hello
		},
	}
	if edit != nil {
		edit(&cfg)
	}
	var err error
	if n.Transport, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	n.Watch(n.rec)
	n.HandleFrame(testKind, n.rec.frame)
	n.Start()
	return n
}

func pair(t *testing.T, edit func(*Config)) (a, b *testNode) {
	t.Helper()
	a, b = start(t, "a@h", edit), start(t, "b@h", edit)
	a.SetPeers([]Peer{b.peer()})
	b.SetPeers([]Peer{a.peer()})
	a.rec.waitUps(t, 1)
	b.rec.waitUps(t, 1)
	return a, b
}

// proxy forwards TCP connections to addr; cut ends those that stand, hold stops to move bytes without ending anything.
type proxy struct {
	ln   net.Listener
	addr string
	wg   sync.WaitGroup
	mu   sync.Mutex
	open map[net.Conn]struct{}
	n    int
}

func newProxy(t *testing.T, addr string) *proxy {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{ln: ln, addr: addr, open: map[net.Conn]struct{}{}}
	p.wg.Go(p.accept)
	t.Cleanup(func() {
		_ = ln.Close()
		p.cut()
		p.wg.Wait()
	})
	return p
}

func (p *proxy) accept() {
	for {
		in, err := p.ln.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", p.addr)
		if err != nil {
			_ = in.Close()
			continue
		}
		p.mu.Lock()
		p.open[in], p.open[out] = struct{}{}, struct{}{}
		p.n++
		p.mu.Unlock()
		p.wg.Go(func() { p.pump(in, out) })
		p.wg.Go(func() { p.pump(out, in) })
	}
}

func (p *proxy) pump(from, to net.Conn) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				break
			}
		}
		if err != nil {
			break
		}
	}
	_ = from.Close()
	_ = to.Close()
}

func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.open {
		_ = c.Close()
		delete(p.open, c)
	}
}
