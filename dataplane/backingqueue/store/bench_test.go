package store

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"warren/dataplane/backingqueue"
	"warren/dataplane/message"
)

// publisher appends to one queue with at most window messages that are not durable, and consumes what is.
type publisher struct {
	q     backingqueue.Queue
	moved chan struct{}
	next  uint64
	body  []byte
}

func newPublisher(b testing.TB, s *Store, id backingqueue.ID, size int) *publisher {
	p := &publisher{moved: make(chan struct{}, 1), body: make([]byte, size), next: 1}
	q, _, err := s.Open(id, backingqueue.Options{Durable: true, OnDurable: func(backingqueue.LSN) {
		select {
		case p.moved <- struct{}{}:
		default:
		}
	}})
	if err != nil {
		b.Fatal(err)
	}
	p.q = q
	return p
}

func (p *publisher) publish(b testing.TB) backingqueue.LSN {
	e := backingqueue.Entry{Seq: p.next, Ref: 1, Number: p.next}
	e.Message = message.Message{Exchange: "amq.direct", RoutingKey: "orders", Body: p.body, Persistent: true}
	lsn, err := p.q.Append(e)
	if err != nil {
		b.Fatal(err)
	}
	p.next++
	return lsn
}

// run publishes n messages; consume: and removes them once they are durable.
func (p *publisher) run(b testing.TB, n, window int, consume bool) {
	var lsns []backingqueue.LSN
	removed := p.next
	for range n {
		for len(lsns) >= window {
			d := p.q.Durable()
			k := 0
			for k < len(lsns) && lsns[k] <= d {
				k++
			}
			if k == 0 {
				<-p.moved
				continue
			}
			lsns = lsns[k:]
			if consume {
				if _, err := p.q.Remove([]backingqueue.Range{{First: removed, Last: removed + uint64(k) - 1}}); err != nil {
					b.Fatal(err)
				}
			}
			removed += uint64(k)
		}
		lsns = append(lsns, p.publish(b))
		p.q.Sync()
	}
	for p.q.Durable() < lsns[len(lsns)-1] {
		<-p.moved
	}
	if consume {
		if _, err := p.q.Remove([]backingqueue.Range{{First: removed, Last: p.next}}); err != nil {
			b.Fatal(err)
		}
	}
}

func openBench(b testing.TB, o Options) *Store {
	o.Dir = b.TempDir()
	s, err := Open(o)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	})
	return s
}

// BenchmarkConfirm appends records of 1 KiB to several queues under group commit, each with a publisher that has up to
// window messages in flight, and consumes them. It reports what was confirmed and synced per second.
func BenchmarkConfirm(b *testing.B) {
	for _, queues := range []int{1, 10, 100} {
		for _, window := range []int{1, 100} {
			b.Run(fmt.Sprintf("queues=%d/window=%d/size=1k", queues, window), func(b *testing.B) {
				s := openBench(b, Options{})
				var ps []*publisher
				for i := range queues {
					ps = append(ps, newPublisher(b, s, backingqueue.ID(i+1), 1024))
				}
				before := s.j.Metrics()
				b.SetBytes(1024)
				b.ReportAllocs()
				b.ResetTimer()
				var left atomic.Int64
				left.Store(int64(b.N))
				var wg sync.WaitGroup
				for _, p := range ps {
					wg.Go(func() {
						for {
							n := min(int64(10*window), left.Add(-int64(10*window))+int64(10*window))
							if n <= 0 {
								return
							}
							p.run(b, int(n), window, true)
						}
					})
				}
				wg.Wait()
				b.StopTimer()
				m := s.j.Metrics()
				sec := b.Elapsed().Seconds()
				b.ReportMetric(float64(b.N)/sec, "confirms/s")
				b.ReportMetric(float64(m.Syncs-before.Syncs)/sec, "syncs/s")
				b.ReportMetric(float64(m.Syncs-before.Syncs)/float64(b.N), "syncs/confirm")
			})
		}
	}
}

// BenchmarkAppend is what an append costs its caller.
func BenchmarkAppend(b *testing.B) {
	for _, size := range []int{100, 1024, 16384} {
		b.Run(fmt.Sprintf("size=%d", size), func(b *testing.B) {
			s := openBench(b, Options{})
			p := newPublisher(b, s, 1, size)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				p.publish(b)
				if i%64 == 63 {
					if _, err := p.q.Remove([]backingqueue.Range{{First: 0, Last: p.next}}); err != nil {
						b.Fatal(err)
					}
				}
				if i%1024 == 1023 {
					b.StopTimer()
					if err := s.j.Flush(); err != nil {
						b.Fatal(err)
					}
					b.StartTimer()
				}
			}
		})
	}
}
