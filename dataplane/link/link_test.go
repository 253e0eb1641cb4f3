package link

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestFramesBothWaysInOrder(t *testing.T) {
	a, b := pair(t, nil)
	const n = 2000
	big := bytes.Repeat([]byte{'x'}, 100_000)
	for i := range n {
		if err := a.Send("b@h", testKind, fmt.Appendf(nil, "%d:", i), []byte("tail")); err != nil {
			t.Fatal(err)
		}
		if i%500 == 0 {
			if err := b.Send("a@h", testKind, big, []byte{'y'}); err != nil {
				t.Fatal(err)
			}
		}
	}
	b.rec.wait(t, "all frames", func() bool { return len(b.rec.events) >= n+1 })
	for i, e := range b.rec.all()[1:] {
		if want := fmt.Sprintf("frame %d:tail", i); e != want {
			t.Fatalf("event %d is %.50q, want %q", i, e, want)
		}
	}
	a.rec.wait(t, "the large frames", func() bool { return len(a.rec.events) >= 5 })
	if want := "frame " + string(big) + "y"; a.rec.all()[4] != want {
		t.Error("a large frame was changed")
	}
}

func TestOneConnectionPerPair(t *testing.T) {
	b := start(t, "b@h", nil)
	p := newProxy(t, b.Addr().String())
	a := start(t, "a@h", nil)
	// b has only an address for a that nobody dials frames on: the lower name dials.
	for range 5 {
		a.SetPeers([]Peer{{Node: "b@h", Addr: p.ln.Addr().String()}})
		b.SetPeers([]Peer{a.peer()})
	}
	a.rec.waitUps(t, 1)
	b.rec.waitUps(t, 1)
	if _, err := b.Call(t.Context(), "a@h", "none", nil); err == nil {
		t.Fatal("called a method that nobody serves")
	}
	if len(a.Connected()) != 1 || len(b.Connected()) != 1 || len(a.rec.all()) != 1 || len(b.rec.all()) != 1 {
		t.Errorf("links of a %v, of b %v", a.rec.all(), b.rec.all())
	}
}

// The node with the higher name learns of the other first or last: either way the link comes without a long pause.
func TestHigherNodeAsks(t *testing.T) {
	a := start(t, "a@h", func(c *Config) { c.RetryMin, c.RetryMax = time.Hour, time.Hour })
	b := start(t, "b@h", nil)
	a.SetPeers([]Peer{b.peer()}) // refused: b does not know a; the next attempt would come in an hour
	var refused *RefusedError
	if err := a.peers["b@h"].dial(b.Addr().String()); !errors.As(err, &refused) || !errors.Is(err, ErrUnknownPeer) {
		t.Fatalf("b accepted a node that it does not know: %v", err)
	}
	b.SetPeers([]Peer{a.peer()})
	a.rec.waitUps(t, 1)
	b.rec.waitUps(t, 1)
}

// A node with the higher name that moved says where it is when it asks: the other one dials there.
func TestHigherNodeMoved(t *testing.T) {
	a, b := start(t, "a@h", nil), start(t, "b@h", nil)
	b.setHello(Hello{Cluster: "c1", Incarnation: 1, Addr: b.Addr().String()})
	left, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	left.Close()
	a.SetPeers([]Peer{{Node: "b@h", Addr: left.Addr().String()}})
	b.SetPeers([]Peer{a.peer()})
	a.rec.waitUps(t, 1)
	b.rec.waitUps(t, 1)
}

func TestCutReconnects(t *testing.T) {
	b := start(t, "b@h", nil)
	p := newProxy(t, b.Addr().String())
	a := start(t, "a@h", nil)
	a.SetPeers([]Peer{{Node: "b@h", Addr: p.ln.Addr().String()}})
	b.SetPeers([]Peer{a.peer()})
	for i := 1; i <= 3; i++ {
		a.rec.waitUps(t, i)
		b.rec.waitUps(t, i)
		p.cut()
		if c := a.rec.waitDowns(t, i); c.Kind != CauseLost {
			t.Errorf("a: cut %d: cause %v", i, c)
		}
		// The new connection may be faster than the news of the old one's end.
		if c := b.rec.waitDowns(t, i); c.Kind != CauseLost && c.Kind != CauseReplaced {
			t.Errorf("b: cut %d: cause %v", i, c)
		}
	}
	a.rec.waitUps(t, 4)
	for i, e := range a.rec.all() {
		if want := []string{"up b@h/1", "down b@h/1"}[i%2]; e != want {
			t.Fatalf("events %v", a.rec.all())
		}
	}
	if err := a.SendTo(a.rec.link(0), testKind, nil); !errors.Is(err, ErrNotConnected) {
		t.Errorf("sent on a link that is gone: %v", err)
	}
}

func TestCloseSaysGoodbye(t *testing.T) {
	a, b := pair(t, nil)
	for range 1000 { // more than the sockets take at once is still delivered
		if err := a.Send("b@h", testKind, bytes.Repeat([]byte{'z'}, 1000)); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if c := b.rec.waitDowns(t, 1); c.Kind != CauseGoodbye {
		t.Errorf("b: cause %v", c)
	}
	if c := a.rec.waitDowns(t, 1); c.Kind != CauseLocal || !errors.Is(c.Err, ErrClosed) {
		t.Errorf("a: cause %v", c)
	}
	if n := len(b.rec.all()); n != 1002 {
		t.Errorf("%d events at b", n)
	}
	if r, err := b.Probe(t.Context(), a.Addr().String()); r != Refused || err == nil {
		t.Errorf("probe of a closed listener: %v, %v", r, err)
	}
}

func TestProbeAlive(t *testing.T) {
	a := start(t, "a@h", nil)
	if r, err := Probe(t.Context(), a.Addr().String()); r != Alive || err != nil {
		t.Errorf("%v, %v", r, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if r, err := Probe(ctx, a.Addr().String()); r != Unreachable || err == nil {
		t.Errorf("%v, %v", r, err)
	}
}

func TestRefusals(t *testing.T) {
	cases := map[string]struct {
		edit func(h *Hello)
		node string
		dial string // the name that the dialer expects
		want error
		text []string
	}{
		"cluster": {edit: func(h *Hello) { h.Cluster = "c2" }, want: ErrCluster, text: []string{`"c1"`, `"c2"`, "a@h", "b@h"}},
		"version": {edit: func(h *Hello) { h.Min, h.Max = 7, 9 }, want: ErrVersion, text: []string{"1 to 1", "7 to 9", "a@h", "b@h"}},
		"name":    {node: "a@h", want: ErrNameClash, text: []string{"a@h"}},
		"other":   {node: "c@h", dial: "b@h", want: ErrWrongNode, text: []string{"a@h", "b@h", "c@h"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if c.node == "" {
				c.node = "b@h"
			}
			if c.dial == "" {
				c.dial = "b@h"
			}
			a, b := start(t, "a@h", func(c *Config) { c.RetryMin = time.Hour }), start(t, c.node, nil)
			if c.edit != nil {
				h := Hello{Cluster: "c1", Incarnation: 1}
				c.edit(&h)
				b.setHello(h)
			}
			b.SetPeers([]Peer{{Node: "a@h", Addr: "127.0.0.1:1"}})
			p := &peer{t: a.Transport, node: c.dial}
			err := p.dial(b.Addr().String())
			if !errors.Is(err, c.want) {
				t.Fatalf("got %v, want %v", err, c.want)
			}
			for _, word := range c.text {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("%q does not name %s", err, word)
				}
			}
			if len(a.rec.all())+len(b.rec.all()) != 0 {
				t.Errorf("links were reported: %v %v", a.rec.all(), b.rec.all())
			}
		})
	}
}

func TestEmptyClusterFits(t *testing.T) {
	own, other := wireHello{Node: "a", Cluster: "c", Lo: 1, Hi: 3}, wireHello{Node: "b", Lo: 2, Hi: 5}
	if p, refusal := judge(own, other); refusal != nil || p != 3 {
		t.Errorf("protocol %d, %v", p, refusal)
	}
}

// A newer incarnation replaces an older one, on either side, and Down comes before the next Up.
func TestRehello(t *testing.T) {
	a, b := pair(t, nil)
	for i := 2; i <= 3; i++ {
		n, other := a, b
		if i == 3 {
			n, other = b, a
		}
		n.setHello(Hello{Cluster: "c1", Incarnation: uint64(i)})
		n.Rehello()
		n.rec.waitUps(t, i)
		other.rec.waitUps(t, i)
		want := fmt.Sprintf("up %s/%d", n.Node(), i)
		if saw := other.rec.all(); saw[len(saw)-1] != want {
			t.Errorf("%s saw %v, want %q last", other.Node(), saw, want)
		}
	}
}

// The dialer believes its link dead and dials again: the acceptor gives up the old one.
func TestNewerConnectionReplaces(t *testing.T) {
	b := start(t, "b@h", nil)
	b.SetPeers([]Peer{{Node: "a@h", Addr: "127.0.0.1:1"}})
	first := rawLink(t, b, Hello{Cluster: "c1", Incarnation: 5})
	defer first.Close()
	b.rec.waitUps(t, 1)
	second := rawLink(t, b, Hello{Cluster: "c1", Incarnation: 5})
	defer second.Close()
	b.rec.waitUps(t, 2)
	if c := b.rec.waitDowns(t, 1); c.Kind != CauseReplaced {
		t.Errorf("cause %v", c)
	}
	if _, err := rawDial(t, b, Hello{Cluster: "c1", Incarnation: 4}); !errors.Is(err, ErrStale) {
		t.Errorf("an older incarnation: %v", err)
	}
}

func TestRevokedPeerIsClosed(t *testing.T) {
	a, b := pair(t, nil)
	b.SetPeers(nil)
	if c := b.rec.waitDowns(t, 1); c.Kind != CauseLocal {
		t.Errorf("cause %v", c)
	}
	a.rec.waitDowns(t, 1)
	b.SetPeers([]Peer{a.peer()})
	a.rec.waitUps(t, 2)
	b.rec.waitUps(t, 2)
}

// rawLink makes a peer link as node a@h by hand.
func rawLink(t *testing.T, to *testNode, h Hello) net.Conn {
	t.Helper()
	c, err := rawDial(t, to, h)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func rawDial(t *testing.T, to *testNode, h Hello) (net.Conn, error) {
	t.Helper()
	conn, err := DialAuthenticated(t.Context(), to.Addr().String(), ProtoPeer, []byte(testCookie), nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), HandshakeTimeout)
	defer cancel()
	p := &peer{node: to.Node()}
	_, _, err = p.greet(ctx, conn, wireHello{Cluster: h.Cluster, Node: "a@h", Incarnation: h.Incarnation, Lo: 1, Hi: 1})
	if err != nil {
		_ = conn.Close()
	}
	return conn, err
}

func TestMalformedFramesCloseTheLinkOnly(t *testing.T) {
	b := start(t, "b@h", func(c *Config) { c.MaxFrame = 1000 })
	b.SetPeers([]Peer{{Node: "a@h", Addr: "127.0.0.1:1"}})
	cases := [][]byte{
		{0, 0, 0, 0, 20},             // no room for the kind
		{0xff, 0xff, 0xff, 0xff, 20}, // 4 GiB
		{0, 0, 3, 0xea, 20},          // one byte over the limit
		{0, 0, 0, 1, 9},              // a kind of this package that does not exist
		{0, 0, 0, 2, 1, 0xff},        // a call cut short
		{0, 0, 0, 3, 2, 1, 0xff},     // an answer cut short
		{0, 0, 0, 4, 1, 1, 0, 200},   // a method longer than the frame
	}
	for i, in := range cases {
		c := rawLink(t, b, Hello{Cluster: "c1", Incarnation: 1})
		b.rec.waitUps(t, i+1)
		if _, err := c.Write(in); err != nil {
			t.Fatal(err)
		}
		if cause := b.rec.waitDowns(t, i+1); cause.Kind != CauseProtocol {
			t.Errorf("% x: cause %v", in, cause)
		}
		_, _ = io.Copy(io.Discard, c)
		_ = c.Close()
	}
}

func TestSilentLinkTimesOut(t *testing.T) {
	b := start(t, "b@h", func(c *Config) { c.Timeout, c.Keepalive = 100*time.Millisecond, 20*time.Millisecond })
	b.SetPeers([]Peer{{Node: "a@h", Addr: "127.0.0.1:1"}})
	c := rawLink(t, b, Hello{Cluster: "c1", Incarnation: 1})
	defer c.Close()
	if cause := b.rec.waitDowns(t, 1); cause.Kind != CauseTimeout {
		t.Errorf("cause %v", cause)
	}
	got, _ := io.ReadAll(c)
	if !bytes.HasPrefix(got, []byte{0, 0, 0, 1, 0}) {
		t.Errorf("no keepalive was sent: % x", got)
	}
}

// stallConn is a connection whose writes get stuck once stop is set, until free is closed.
type stallConn struct {
	net.Conn
	stop atomic.Bool
	free chan struct{}
}

func (c *stallConn) Write(b []byte) (int, error) {
	if c.stop.Load() {
		<-c.free
		return 0, io.ErrClosedPipe
	}
	return c.Conn.Write(b)
}

// Two ends of a pipe, in a bubble's time: an idle link lives on keepalives, one whose other end falls silent does not.
func TestIdleLinkLivesSilentOneDies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c1, c2 := net.Pipe()
		stall := &stallConn{Conn: c2, free: make(chan struct{})}
		var ends []*session
		var recs []*recorder
		for i, c := range []net.Conn{c1, stall} {
			n, err := New(Config{
				Addr: "127.0.0.1:0", Node: fmt.Sprint(i), Cookie: []byte(testCookie), Hello: func() Hello { return Hello{} },
				Log: slog.New(slog.DiscardHandler),
			})
			if err != nil {
				t.Fatal(err)
			}
			defer n.Close()
			rec := newRecorder()
			n.Watch(rec)
			tc, err := n.track(c)
			if err != nil {
				t.Fatal(err)
			}
			ends = append(ends, n.newSession(&peer{t: n}, tc, wireHello{Node: fmt.Sprint(1 - i)}, 1, 0))
			recs = append(recs, rec)
		}
		began := time.Now()
		go ends[0].run()
		go ends[1].run()
		time.Sleep(time.Hour)
		synctest.Wait()
		if len(recs[0].all())+len(recs[1].all()) != 2 {
			t.Fatalf("an idle link broke: %v %v", recs[0].all(), recs[1].all())
		}
		stall.stop.Store(true)
		<-ends[0].done
		if after := time.Since(began) - time.Hour; after < 9*time.Second || after > 11*time.Second || recs[0].causes[0].Kind != CauseTimeout {
			t.Errorf("after %v: %v", after, recs[0].causes)
		}
		close(stall.free)
		<-ends[1].done
	})
}

// A peer that does not read: the backlog grows to the hard limit, then the link is closed; a second peer is not held up.
func TestOverflow(t *testing.T) {
	b := start(t, "b@h", func(c *Config) { c.HardLimit = 4 << 20 })
	other := start(t, "a0@h", nil)
	b.SetPeers([]Peer{{Node: "a@h", Addr: "127.0.0.1:1"}, other.peer()})
	other.SetPeers([]Peer{b.peer()})
	c := rawLink(t, b, Hello{Cluster: "c1", Incarnation: 1})
	defer c.Close()
	b.rec.waitUps(t, 2)
	body := make([]byte, 64<<10)
	var err error
	for range 1000 {
		if err = b.Send("a@h", testKind, body); err != nil {
			break
		}
	}
	if !errors.Is(err, ErrOverflow) {
		t.Fatalf("sent without limit: %v", err)
	}
	if err := b.Send("a@h", testKind, body); !errors.Is(err, ErrNotConnected) {
		t.Errorf("after the overflow: %v", err)
	}
	if cause := b.rec.waitDowns(t, 1); cause.Kind != CauseOverflow {
		t.Errorf("cause %v", cause)
	}
	if err := b.Send("a0@h", testKind, []byte("hello")); err != nil {
		t.Error(err)
	}
	other.rec.wait(t, "the frame", func() bool { return len(other.rec.events) == 2 })
	if err := b.Send("a0@h", testKind, make([]byte, 17<<20)); !errors.Is(err, ErrTooLarge) {
		t.Errorf("a frame over the limit: %v", err)
	}
}

func TestDrainedIsTold(t *testing.T) {
	a, _ := pair(t, nil)
	body := make([]byte, 64<<10)
	for range 64 {
		if err := a.Queue(a.rec.link(0), testKind, body); err != nil {
			t.Fatal(err)
		}
	}
	if a.Backlog("b@h") < 64*len(body) {
		t.Error("something left before the flush")
	}
	a.Flush(a.rec.link(0))
	a.rec.wait(t, "the drain", func() bool { return a.rec.drains > 0 })
}

func TestStreamPair(t *testing.T) {
	a, b := start(t, "a@h", nil), start(t, "b@h", nil)
	sa, sb := a.Stream(ProtoRaft), b.Stream(ProtoRaft)
	done := make(chan error, 1)
	go func() {
		c, err := sb.Accept()
		if err == nil {
			_, err = io.Copy(c, c)
			_ = c.Close()
		}
		done <- err
	}()
	c, err := sa.Dial(b.Addr().String(), time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write([]byte("raft")); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 4)
	if _, err := io.ReadFull(c, got); err != nil || string(got) != "raft" {
		t.Fatalf("%q, %v", got, err)
	}
	_ = c.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
	_ = sb.Close()
	if _, err := sb.Accept(); !errors.Is(err, ErrClosed) {
		t.Errorf("accept after close: %v", err)
	}
	if _, err := sa.Dial(b.Addr().String(), time.Second); !errors.Is(err, ErrProtoUnknown) {
		t.Errorf("dial after close: %v", err)
	}
}

// Close ends connections that handlers still use and waits for the handlers.
func TestCloseWaitsForHandlers(t *testing.T) {
	a := start(t, "a@h", nil)
	entered, left := make(chan struct{}), make(chan struct{})
	a.Handle(ProtoAdmin, func(c net.Conn) {
		close(entered)
		_, _ = io.Copy(io.Discard, c)
		close(left)
	})
	c, err := DialAuthenticated(t.Context(), a.Addr().String(), ProtoAdmin, []byte(testCookie), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	<-entered
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-left:
	default:
		t.Error("Close did not wait for the handler")
	}
}

func TestNewRefusesBadConfig(t *testing.T) {
	if _, err := New(Config{Node: "a@h", Cookie: []byte("short"), Hello: func() Hello { return Hello{} }}); err == nil {
		t.Error("a short cookie was taken")
	}
	a := start(t, "a@h", nil)
	_, err := New(Config{Node: "b@h", Addr: a.Addr().String(), Cookie: []byte(testCookie), Hello: func() Hello { return Hello{} }})
	if err == nil || !strings.Contains(err.Error(), a.Addr().String()) {
		t.Errorf("a port in use: %v", err)
	}
}
