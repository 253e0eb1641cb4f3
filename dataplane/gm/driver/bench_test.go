package driver

import (
	"fmt"
	"math"
	"slices"
	"syscall"
	"testing"
	"time"

	"warren/dataplane/gm"
	"warren/dataplane/link"
)

// outstanding is how many messages a benchmark's sender has under way: enough to keep every hop busy.
const outstanding = 1000

var benchSizes = []struct {
	name string
	size int
}{{"100", 100}, {"1k", 1 << 10}, {"10k", 10 << 10}}

// load is a sender that keeps a number of messages under way until it has sent all, and measures each one's way.
type load struct {
	m       *Member
	body    []byte
	total   int
	sentAt  []time.Time
	stable  int
	latency []time.Duration
	done    chan struct{}
}

func (l *load) more() {
	now := time.Now()
	for len(l.sentAt) < l.total && len(l.sentAt)-l.stable < outstanding {
		if _, err := l.m.Broadcast(gm.Bulk, l.body); err != nil {
			return
		}
		l.sentAt = append(l.sentAt, now)
	}
}

func (l *load) progress(upTo int) {
	now := time.Now()
	for ; l.stable < upTo; l.stable++ {
		l.latency = append(l.latency, now.Sub(l.sentAt[l.stable]))
	}
	if l.stable == l.total {
		close(l.done)
		return
	}
	l.more()
}

// sink is a member's user that does the least that a user may do: it persists, at the end of each batch, what it was
// delivered of the one sender that there is.
type sink struct {
	actor    *Actor
	host     *Host
	m        *Member
	sender   gm.Member
	last     uint64
	joined   *counter
	onStable func(upTo uint64)
}

func (s *sink) HandleEvent(any) {}

func (s *sink) HandleOutput(out gm.Output) {
	switch {
	case out.Kind == gm.Deliver:
		s.last = out.Number
	case out.Kind == gm.Progress && s.onStable != nil:
		s.onStable(out.Persisted)
	case out.Kind == gm.Joined:
		s.joined.add(1)
	}
}

func (s *sink) EndBatch() {
	if s.m != nil && s.last > 0 {
		s.m.Persisted(s.sender, s.last)
	}
}

func joinSinks(b *testing.B, c *cluster, n int) []*sink {
	var sinks []*sink
	v := view(10)
	for i := range n {
		v.Members = append(v.Members, member(i))
	}
	joined := newCounter()
	for i := range n {
		s := &sink{host: c.nodes[i].Host, sender: member(0), joined: joined}
		s.actor = s.host.NewActor(s)
		sinks = append(sinks, s)
		err := s.actor.Do(b.Context(), func() {
			var err error
			if s.m, err = s.host.Join(s.actor, 1, gm.Config{Self: member(i)}); err != nil {
				b.Error(err)
			} else if err = s.m.Install(v); err != nil {
				b.Error(err)
			}
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	joined.wait(b, "join", n)
	return sinks
}

// BenchmarkRing moves messages of one sender round a ring over loopback until they are persisted by all (which costs
// nothing here: it is the ring that is measured). All members run in this process, so CPU time is the whole ring's.
func BenchmarkRing(b *testing.B) {
	for _, s := range benchSizes {
		for _, n := range []int{2, 3, 5, 7} {
			b.Run(fmt.Sprintf("size=%s/ring=%d", s.name, n), func(b *testing.B) { benchRing(b, n, s.size) })
		}
	}
}

func benchRing(b *testing.B, n, size int) {
	c := newCluster(b, n, Config{}, nil)
	sinks := joinSinks(b, c, n)
	l := &load{m: sinks[0].m, body: make([]byte, size), total: b.N, done: make(chan struct{})}
	l.sentAt, l.latency = make([]time.Time, 0, b.N), make([]time.Duration, 0, b.N)
	before, _ := c.nodes[0].links.Traffic()
	cpu := cpuTime()
	b.ResetTimer()
	err := sinks[0].actor.Do(b.Context(), func() {
		sinks[0].onStable = func(upTo uint64) { l.progress(int(upTo)) }
		l.more()
	})
	if err != nil {
		b.Fatal(err)
	}
	<-l.done
	b.StopTimer()
	after, _ := c.nodes[0].links.Traffic()
	report(b, size, cpuTime()-cpu, after-before, l.latency)
}

// BenchmarkChain is what to compare BenchmarkRing with: the same links, each node passing frames on to the next and
// doing nothing else.
func BenchmarkChain(b *testing.B) {
	for _, s := range benchSizes {
		for _, n := range []int{2, 3, 5, 7} {
			b.Run(fmt.Sprintf("size=%s/ring=%d", s.name, n), func(b *testing.B) { benchChain(b, n, s.size) })
		}
	}
}

func benchChain(b *testing.B, n, size int) {
	const kind = link.FirstUserKind + 100
	free := make(chan struct{}, outstanding)
	arrived := newCounter()
	got := 0
	c := newChain(b, n, func(i int, links *link.Transport) func(link.PeerID, []byte) {
		if i == n-1 {
			return func(link.PeerID, []byte) {
				if got++; got == b.N {
					arrived.add(got)
				}
				<-free
			}
		}
		next := nodeName(i + 1)
		return func(_ link.PeerID, body []byte) {
			if err := links.Send(next, kind, body); err != nil {
				b.Error(err)
			}
		}
	}, kind)
	body := make([]byte, size)
	cpu := cpuTime()
	before, _ := c.nodes[0].links.Traffic()
	b.ResetTimer()
	for range b.N {
		free <- struct{}{}
		if err := c.nodes[0].links.Send("b", kind, body); err != nil {
			b.Fatal(err)
		}
	}
	arrived.wait(b, "the frames", b.N)
	b.StopTimer()
	after, _ := c.nodes[0].links.Traffic()
	report(b, size, cpuTime()-cpu, after-before, nil)
}

func newChain(b *testing.B, n int, handler func(i int, links *link.Transport) func(link.PeerID, []byte), kind link.FrameKind) *cluster {
	c := &cluster{ups: newCounter()}
	var peers []link.Peer
	for i := range n {
		nd := newNode(b, i, c.ups, Config{}, nil)
		nd.links.HandleFrame(kind, handler(i, nd.links)) // no link is up before SetPeers
		c.nodes = append(c.nodes, nd)
		peers = append(peers, link.Peer{Node: nodeName(i), Addr: nd.links.Addr().String()})
	}
	for _, nd := range c.nodes {
		nd.links.SetPeers(peers)
	}
	c.ups.wait(b, "links", n*(n-1))
	return c
}

func report(b *testing.B, size int, cpu time.Duration, sent uint64, latency []time.Duration) {
	msgs := float64(b.N)
	secs := b.Elapsed().Seconds()
	b.ReportMetric(msgs/secs, "msg/s")
	b.ReportMetric(msgs*float64(size)/secs/1e6, "MB/s")
	b.ReportMetric(float64(cpu.Microseconds())/msgs, "cpu-µs/msg")
	b.ReportMetric(float64(sent)/msgs, "sent-B/msg")
	if len(latency) == 0 {
		return
	}
	slices.Sort(latency)
	at := func(q float64) float64 {
		return float64(latency[int(math.Ceil(q*float64(len(latency))))-1].Microseconds()) / 1000
	}
	b.ReportMetric(at(0.5), "p50-ms")
	b.ReportMetric(at(0.99), "p99-ms")
	b.ReportMetric(at(1), "max-ms")
}

// cpuTime is what this process has used, user and system.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkNodeDeath: of 10,000 groups of three, all lose the same member. Measured from the death until each survivor of
// each group works in the new ring: it has delivered the end of the dead sender (aim: 2 s).
func BenchmarkNodeDeath(b *testing.B) {
	const groups = 10_000
	for range b.N {
		b.StopTimer()
		c := newCluster(b, 3, Config{}, nil)
		closed := newCounter()
		var all, alive []*user
		for g := range groups {
			users := c.join(b, uint64(g+1), 0, 1, 2)
			for _, u := range users[:2] {
				u.closed = closed
			}
			all, alive = append(all, users...), append(alive, users[:2]...)
		}
		for _, u := range all {
			u.joined.wait(b, "join", 1)
		}
		cpu := cpuTime()
		sent := traffic(c)
		b.StartTimer()
		if err := c.nodes[2].links.Close(); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(b.Elapsed().Seconds(), "s-closing")
		v := view(11, member(0), member(1))
		for _, u := range alive {
			if err := u.actor.PostAlways(v); err != nil {
				b.Fatal(err)
			}
		}
		closed.wait(b, "the new rings", len(alive))
		b.StopTimer()
		b.ReportMetric(float64((cpuTime()-cpu).Microseconds())/groups, "cpu-µs/group")
		b.ReportMetric(float64(traffic(c)-sent)/groups, "B/group")
	}
}

func traffic(c *cluster) (n uint64) {
	for _, nd := range c.nodes {
		sent, _ := nd.links.Traffic()
		n += sent
	}
	return n
}
