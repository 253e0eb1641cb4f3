package amqp

import (
	"context"
	"io"
	"log/slog"
	"net"
	"runtime"
	"sync"
	"testing"

	"warren/dataplane/message"
)

// nullBackend confirms every publish at once and delivers one message for ever, so that what is measured is this package.
type nullBackend struct {
	Backend
	msg message.Message
}

type nullChannel struct {
	ChannelBackend
	b    *nullBackend
	sink Sink
	seq  [1]uint64
	mu   sync.Mutex
	ds   []Delivery
	left int
}

func (b *nullBackend) Authenticate(context.Context, Credentials) (User, error) { return User{}, nil }
func (b *nullBackend) Open(context.Context, ConnectionInfo) (Session, error) {
	return nullSession{b: b}, nil
}

type nullSession struct {
	Session
	b *nullBackend
}

func (s nullSession) OpenChannel(_ context.Context, _ ChannelInfo, sink Sink) (ChannelBackend, error) {
	return &nullChannel{b: s.b, sink: sink}, nil
}
func (s nullSession) Close(context.Context) {}

func (c *nullChannel) Close(context.Context) {}
func (c *nullChannel) Publish(p Publish) (<-chan struct{}, error) {
	if c.seq[0] = p.Seq; p.Seq != 0 {
		c.sink.Confirm(c.seq[:], true)
	}
	return nil, nil
}
func (c *nullChannel) Settle(Outcome, []Token) {}
func (c *nullChannel) Flush()                  {}
func (c *nullChannel) QueuePurge(context.Context, string) (uint32, error) {
	return 0, nil
}

// Consume takes the number of deliveries to make from the prefetch's place.
func (c *nullChannel) Consume(_ context.Context, x Consume) error {
	c.left = int(x.Arguments["n"].(int64))
	c.ds = make([]Delivery, x.WindowMessages)
	for i := range c.ds {
		c.ds[i] = Delivery{ConsumerTag: x.Tag, Message: c.b.msg}
	}
	c.more(x.WindowMessages)
	return nil
}

func (c *nullChannel) Drained(_ string, n int, _ int64) { c.more(n) }

func (c *nullChannel) more(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n = min(n, c.left)
	c.left -= n
	c.sink.Deliver(c.ds[:n])
}

func nullServer(t testing.TB, size int) *rawClient {
	b := &nullBackend{msg: message.Message{Exchange: "x", RoutingKey: "some.key", Properties: []byte{0x10, 0, 2}, Body: make([]byte, size)}}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := NewServer(Config{Logger: slog.New(slog.NewTextHandler(io.Discard, nil))}, b)
	go func() { _ = s.Serve(l) }() // ends with Shutdown
	r := rawDial(t, l.Addr().String())
	t.Cleanup(func() {
		_ = r.nc.Close()
		if err := s.Shutdown(context.Background(), "over"); err != nil {
			t.Error(err)
		}
	})
	r.begin(usualTune, nil)
	r.openChannel(1)
	return r
}

// publishAll sends n publishes and waits until all are taken.
func publishAll(r *rawClient, n, size int) {
	var batch []byte
	const per = 50
	for range per {
		batch = appendMethodFrame(batch, 1, &basicPublish{Exchange: "x", RoutingKey: "some.key"})
		batch = appendHeaderFrame(batch, 1, size, []byte{0x10, 0, 2})
		start := len(batch)
		batch = closeFrame(append(openFrame(batch, frameBody, 1), make([]byte, size)...), start)
	}
	for range n / per {
		r.write(batch)
	}
	r.send(1, &queuePurge{Queue: "q"})
	for {
		f, err := r.fr.next()
		if err != nil {
			r.t.Fatal(err)
		}
		b, err := r.fr.payload(f)
		if err != nil {
			r.t.Fatal(err)
		}
		d := decoder{b: b}
		if d.long() == idQueuePurgeOk {
			return
		}
	}
}

// consumeAll takes n deliveries of a no-ack consumer.
func consumeAll(r *rawClient, n int) {
	r.send(1, &basicConsume{Queue: "q", ConsumerTag: "tag", NoAck: true, Arguments: Table{"n": int64(n)}})
	for bodies := 0; bodies < n; {
		f, err := r.fr.next()
		if err != nil {
			r.t.Fatal(err)
		}
		if _, err := r.fr.payload(f); err != nil {
			r.t.Fatal(err)
		}
		if f.typ == frameBody {
			bodies++
		}
	}
}

func mallocs(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.Mallocs - before.Mallocs
}

// TestHotPathAllocations: a publish, with its confirm, costs one allocation, its body; a delivery costs none. The limits leave
// room for what is allocated per batch (the race detector empties pools at random), not for one more per message.
func TestHotPathAllocations(t *testing.T) {
	const n = 20000
	r := nullServer(t, 100)
	r.send(1, &confirmSelect{})
	expect[*confirmSelectOk](r)
	publishAll(r, n, 100) // warm
	if got := float64(mallocs(func() { publishAll(r, n, 100) })) / n; got > 1.5 {
		t.Errorf("%.3f allocations per publish", got)
	}
	r = nullServer(t, 100)
	if got := float64(mallocs(func() { consumeAll(r, n) })) / n; got > 0.5 {
		t.Errorf("%.3f allocations per delivery", got)
	}
}

func BenchmarkPublish(b *testing.B) {
	for _, size := range []int{100, 10_000} {
		b.Run(map[int]string{100: "size=100", 10_000: "size=10k"}[size], func(b *testing.B) {
			r := nullServer(b, size)
			r.send(1, &confirmSelect{})
			expect[*confirmSelectOk](r)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			b.ResetTimer()
			publishAll(r, (b.N+49)/50*50, size)
		})
	}
}

func BenchmarkDeliver(b *testing.B) {
	for _, size := range []int{100, 10_000} {
		b.Run(map[int]string{100: "size=100", 10_000: "size=10k"}[size], func(b *testing.B) {
			r := nullServer(b, size)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			b.ResetTimer()
			consumeAll(r, b.N)
		})
	}
}
