//go:build soak

package store

import (
	"cmp"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"warren/dataplane/backingqueue"
)

// TestBacklog makes a backlog of BACKLOG (ten million) messages of 100 B and measures memory of the index, time
// to recover, and what publishing and consuming at the ends cost against an empty queue.
func TestBacklog(t *testing.T) {
	n, err := strconv.Atoi(cmp.Or(os.Getenv("BACKLOG"), "10000000"))
	if err != nil {
		t.Fatalf("BACKLOG is a number of messages: %v", err)
	}
	dir := t.TempDir()
	o := Options{Dir: dir, Budget: 64 << 20}
	s := mustOpen(t, o)
	empty := newPublisher(t, s, 1, 100)
	rate := func(p *publisher) time.Duration {
		const k = 200_000
		start := time.Now()
		p.run(t, k, 1000, false)
		for range k {
			seq, _ := p.q.Next(0)
			if _, ok, err := p.q.Get(seq); !ok || err != nil {
				t.Fatal(ok, err)
			}
			if _, err := p.q.Remove([]backingqueue.Range{{First: seq, Last: seq}}); err != nil {
				t.Fatal(err)
			}
		}
		return time.Since(start) / k
	}
	rate(empty)
	before := rate(empty)

	p := newPublisher(t, s, 2, 100)
	start := time.Now()
	p.run(t, n, 10_000, false)
	t.Logf("published %d in %v", n, time.Since(start).Round(time.Millisecond))
	if err := s.tend(); err != nil { // until the backlog has moved to segments
		t.Fatal(err)
	}
	after := rate(p)
	t.Logf("publish, get and remove one: %v with an empty queue, %v with the backlog", before, after)
	st := p.q.Stats()
	var ms runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&ms)
	t.Logf("index %.1f bytes a message, %d MB; heap %d MB, bodies in memory %d MB",
		float64(st.IndexBytes)/float64(st.Messages), st.IndexBytes>>20, ms.HeapAlloc>>20, st.BytesRAM>>20)
	if st.IndexBytes > 32*int64(st.Messages) {
		t.Errorf("the index takes %d bytes", st.IndexBytes)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	start, cpu := time.Now(), cpuTime(t)
	s = mustOpen(t, o)
	took := cpuTime(t) - cpu
	t.Logf("recovered in %v, with %v of processor time", time.Since(start).Round(time.Millisecond), took.Round(time.Millisecond))
	q, rec, err := s.Open(2, backingqueue.Options{Durable: true})
	if err != nil || rec.Damaged || q.Stats().Messages != st.Messages {
		t.Fatalf("%+v %v: %+v", rec, err, q.Stats())
	}
	// Processor time, as the wall clock says more about what else the machine does.
	if took > 10*time.Second*time.Duration(n)/10_000_000+time.Second {
		t.Errorf("recovery took %v of processor time", took)
	}
	start = time.Now()
	if _, err := q.Remove([]backingqueue.Range{{First: 0, Last: ^uint64(0)}}); err != nil {
		t.Fatal(err)
	}
	t.Logf("purged %d in %v", st.Messages, time.Since(start).Round(time.Millisecond))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	var ru unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &ru); err != nil {
		t.Fatal(err)
	}
	return time.Duration(ru.Utime.Nano() + ru.Stime.Nano())
}

func mustOpen(t *testing.T, o Options) *Store {
	t.Helper()
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
