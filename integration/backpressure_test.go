package integration

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"warren/integration/cluster"
)

// deafConn is a connection that can stop reading what comes.
type deafConn struct {
	net.Conn
	deaf chan struct{} // closed: nothing is read any more
	over <-chan struct{}
}

func (d *deafConn) Read(b []byte) (int, error) {
	select {
	case <-d.deaf:
		<-d.over
		return 0, io.EOF
	default:
	}
	return d.Conn.Read(b)
}

// deafConsumer consumes a queue and then reads nothing more from its socket, until the test is over.
func deafConsumer(t *testing.T, uri, queue string, noAck bool) {
	t.Helper()
	d := &deafConn{deaf: make(chan struct{}), over: t.Context().Done()}
	conn, err := amqp.DialConfig(uri, amqp.Config{Heartbeat: time.Minute, Dial: func(network, addr string) (net.Conn, error) {
		nc, err := net.Dial(network, addr)
		d.Conn = nc
		return d, err
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Conn.Close() })
	deliveries, err := channelOf(t, conn).Consume(queue, "", noAck, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	close(d.deaf)
	go func() { // the library's goroutine must not wait for us
		for range deliveries {
		}
	}()
}

// TestDeafConsumers floods a queue with large transient messages while its consumers do not read: the node stays within its memory,
// takes everything, and serves who reads, on the same queue and on another one.
func TestDeafConsumers(t *testing.T) {
	const limit, publishers, each, size = 120 << 20, 4, 150, 256 << 10
	c := cluster.StartConfigured(t, 1, "vm_memory_high_watermark.absolute = "+strconv.Itoa(limit))
	declareQueue(t, c, 1, "flood")
	declareQueue(t, c, 1, "calm")
	for i := range 4 {
		deafConsumer(t, c.URI(1), "flood", i%2 == 0)
	}
	var peak atomic.Int64
	look := func() { peak.Store(max(peak.Load(), int64(c.ResidentMemory(1)))) }
	var flood sync.WaitGroup
	body := make([]byte, size)
	for range publishers {
		conn := dial(t, c.URI(1))
		ch := channelOf(t, conn)
		if err := ch.Confirm(false); err != nil {
			t.Fatal(err)
		}
		flood.Go(func() {
			for i := range each {
				confirmed, err := ch.PublishWithDeferredConfirm("", "flood", false, false, amqp.Publishing{DeliveryMode: amqp.Transient, Body: body})
				if err != nil {
					t.Errorf("publish: %v", err)
					return
				}
				if i%50 == 49 {
					look()
				}
				if i == each-1 {
					awaitConfirm(t, confirmed)
				}
			}
		})
	}
	flood.Wait()
	look()
	if got := int(peak.Load()); got > limit*5/4 {
		t.Errorf("resident memory reached %d MB with a limit of %d MB", got>>20, limit>>20)
	}
	t.Logf("peak of resident memory: %d MB, with %d MB of bodies", peak.Load()>>20, publishers*each*size>>20)

	p := newPublisher("p1")
	if p.run(c.URI(1), "calm", 100); p.err != nil {
		t.Fatal(p.err)
	}
	drain(t, c.URI(1), "calm", map[string]map[int]bool{"p1": p.confirmed}, hang)
	began := time.Now()
	reader := channelOf(t, dial(t, c.URI(1)))
	if err := reader.Qos(10, 0, false); err != nil {
		t.Fatal(err)
	}
	deliveries, err := reader.Consume("flood", "", false, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	// What a deaf consumer has is bounded by its window of bytes and by the sockets' buffers.
	for range publishers*each - 4*64 {
		if err := next(t, deliveries, "a delivery to the one that reads").Ack(false); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("the one that reads took %v", time.Since(began))
}

func awaitConfirm(t *testing.T, c *amqp.DeferredConfirmation) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), hang)
	defer cancel()
	if ok, err := c.WaitContext(ctx); !ok || err != nil {
		t.Errorf("the last publish was not confirmed: %v, %v", ok, err)
	}
}

// idleConn opens a connection by hand, without the goroutines of a client library, and leaves it.
func idleConn(addr string) (net.Conn, error) {
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	method := func(channel byte, payload ...byte) []byte {
		b := []byte{1, 0, channel, byte(len(payload) >> 24), byte(len(payload) >> 16), byte(len(payload) >> 8), byte(len(payload))}
		return append(append(b, payload...), 0xce)
	}
	// start-ok with empty properties and PLAIN, tune-ok without heartbeats, open of "/": each after the server's answer.
	startOk := append([]byte{0, 10, 0, 11, 0, 0, 0, 0, 5}, "PLAIN\x00\x00\x00\x0c\x00guest\x00guest\x05en_US"...)
	for _, b := range [][]byte{
		[]byte("AMQP\x00\x00\x09\x01"), method(0, startOk...), append(method(0, 0, 10, 0, 31, 7, 255, 0, 2, 0, 0, 0, 0), method(0, 0, 10, 0, 40, 1, '/', 0, 0)...),
	} {
		if _, err := nc.Write(b); err != nil {
			return nil, err
		}
		if err := readFrame(nc); err != nil {
			return nil, err
		}
	}
	return nc, nil
}

func readFrame(nc net.Conn) error {
	var head [7]byte
	if _, err := io.ReadFull(nc, head[:]); err != nil {
		return err
	}
	n := int64(head[3])<<24 | int64(head[4])<<16 | int64(head[5])<<8 | int64(head[6])
	_, err := io.CopyN(io.Discard, nc, n+1)
	return err
}

// TestIdleConnections (LONG=1): ten thousand connections that say nothing take less than 500 MB. CONNECTIONS= for another number.
func TestIdleConnections(t *testing.T) {
	if os.Getenv("LONG") == "" {
		t.Skip("LONG is not set")
	}
	n := 10_000
	if text := os.Getenv("CONNECTIONS"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	c := cluster.StartConfigured(t, 1, "log.level = warning")
	before := c.ResidentMemory(1)
	conns := make(chan net.Conn, n)
	var wg sync.WaitGroup
	const dialers = 8
	start := time.Now()
	for d := range dialers {
		wg.Go(func() {
			for i := d; i < n; i += dialers {
				nc, err := idleConn(c.Address(1))
				if err != nil {
					t.Errorf("connection %d: %v", i, err)
					return
				}
				conns <- nc
			}
		})
	}
	wg.Wait()
	took, after := time.Since(start), c.ResidentMemory(1)
	t.Logf("%d connections in %v: resident memory %d MB before, %d MB after, %.1f KB each", len(conns), took.Round(time.Millisecond),
		before>>20, after>>20, float64(after-before)/1024/float64(max(1, len(conns))))
	if after > 500<<20 {
		t.Errorf("%d idle connections take %d MB", n, after>>20)
	}
	for range len(conns) {
		if err := (<-conns).Close(); err != nil {
			t.Error(err)
		}
	}
	cluster.Eventually(t, hang, "the node knows that they are gone", func() bool { return !hasRows(c.Ctl(1, "list_connections", "-q", "pid")) })
}

func hasRows(list string) bool { return len(list) > 0 }

// TestDeclareRate (LONG=1): queues declared and deleted by sixteen channels on three nodes, for ten seconds; the rate is printed.
func TestDeclareRate(t *testing.T) {
	if os.Getenv("LONG") == "" {
		t.Skip("LONG is not set")
	}
	const channels, lasting = 16, 10 * time.Second
	c := cluster.StartConfigured(t, 3, "log.level = warning")
	var done atomic.Int64
	var wg sync.WaitGroup
	stop := time.Now().Add(lasting)
	for i := range channels {
		ch := channelOf(t, dial(t, c.URI(i%3+1)))
		wg.Go(func() {
			for k := 0; time.Now().Before(stop); k++ {
				name := fmt.Sprintf("q%d.%d", i, k)
				if _, err := ch.QueueDeclare(name, true, false, false, false, nil); err != nil {
					t.Errorf("declare %s: %v", name, err)
					return
				}
				if _, err := ch.QueueDelete(name, false, false, false); err != nil {
					t.Errorf("delete %s: %v", name, err)
					return
				}
				done.Add(1)
			}
		})
	}
	wg.Wait()
	t.Logf("%.0f queues declared and deleted per second by %d channels on three nodes", float64(done.Load())/lasting.Seconds(), channels)
}
