//go:build soak

package integration

import (
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"warren/integration/cluster"
)

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

// TestIdleConnections: ten thousand connections that say nothing take less than 500 MB. CONNECTIONS= for another number.
func TestIdleConnections(t *testing.T) {
	n := int(number(t, "CONNECTIONS", 10_000))
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

// TestDeclareRate: queues declared and deleted by sixteen channels on three nodes, for ten seconds; the rate is printed.
func TestDeclareRate(t *testing.T) {
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
