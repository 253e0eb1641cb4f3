package journal

import (
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/hashicorp/raft"
	raftwal "github.com/hashicorp/raft-wal"

	"warren/dataplane/backingqueue/journal"
	"warren/dataplane/vfs"
)

// group is a log under group commit: put returns at once, done is called when the record is durable.
type group interface {
	put(queue int, head, body []byte, done func())
	syncs() uint64
	close() error
}

// own is Warren's journal.
type own struct {
	j       *journal.Journal
	mu      []sync.Mutex
	streams []*journal.Stream
	waiting [][]func()
	lsn     []uint64
	told    []uint64
}

func newOwn(b *testing.B, queues int) *own {
	j, _, err := journal.Load(journal.Options{FS: vfs.OS{}, Dir: b.TempDir(), Log: slog.New(slog.DiscardHandler)},
		func(journal.Pos, []byte) error { return nil })
	if err != nil {
		b.Fatal(err)
	}
	j.Start()
	o := &own{
		j: j, mu: make([]sync.Mutex, queues), streams: make([]*journal.Stream, queues),
		waiting: make([][]func(), queues), lsn: make([]uint64, queues), told: make([]uint64, queues),
	}
	for q := range o.streams {
		o.streams[q] = journal.NewStream(func(lsn uint64) { o.tell(q, lsn) })
	}
	return o
}

func (o *own) tell(q int, lsn uint64) {
	o.mu[q].Lock()
	n := lsn - o.told[q]
	o.told[q] = lsn
	ready := o.waiting[q][:n]
	o.waiting[q] = o.waiting[q][n:]
	o.mu[q].Unlock()
	for _, f := range ready {
		f()
	}
}

func (o *own) put(q int, head, body []byte, done func()) {
	o.mu[q].Lock()
	o.waiting[q] = append(o.waiting[q], done)
	o.lsn[q]++
	_, err := o.j.Put(o.streams[q], o.lsn[q], head, body, false)
	o.mu[q].Unlock()
	if err != nil {
		panic(err)
	}
	o.j.Sync()
}

func (o *own) syncs() uint64 { return o.j.Metrics().Syncs }
func (o *own) close() error  { return o.j.Close() }

// wal is raft-wal with a goroutine above it that gathers what comes while a StoreLogs runs.
type wal struct {
	w     *raftwal.WAL
	mu    sync.Mutex
	cond  sync.Cond
	logs  []*raft.Log
	done  []func()
	next  uint64
	ended bool
	n     atomic.Uint64
	exit  chan struct{}
}

func newWAL(b *testing.B) *wal {
	w, err := raftwal.Open(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	g := &wal{w: w, next: 1, exit: make(chan struct{})}
	g.cond.L = &g.mu
	go g.run()
	return g
}

func (g *wal) run() {
	defer close(g.exit)
	for {
		g.mu.Lock()
		for len(g.logs) == 0 && !g.ended {
			g.cond.Wait()
		}
		logs, done := g.logs, g.done
		g.logs, g.done = nil, nil
		g.mu.Unlock()
		if len(logs) == 0 {
			return
		}
		if err := g.w.StoreLogs(logs); err != nil {
			panic(err)
		}
		g.n.Add(1)
		for _, f := range done {
			f()
		}
	}
}

func (g *wal) put(_ int, head, body []byte, done func()) {
	data := append(append(make([]byte, 0, len(head)+len(body)), head...), body...)
	g.mu.Lock()
	g.logs = append(g.logs, &raft.Log{Index: g.next, Data: data})
	g.next++
	g.done = append(g.done, done)
	g.cond.Signal()
	g.mu.Unlock()
}

func (g *wal) syncs() uint64 { return g.n.Load() }

func (g *wal) close() error {
	g.mu.Lock()
	g.ended = true
	g.cond.Signal()
	g.mu.Unlock()
	<-g.exit
	return g.w.Close()
}

// BenchmarkJournal appends records of 1 KiB to 1, 10 and 100 queues, each with up to window records that are not durable.
func BenchmarkJournal(b *testing.B) {
	for _, queues := range []int{1, 10, 100} {
		for _, window := range []int{1, 100} {
			for _, kind := range []string{"own", "raft-wal"} {
				b.Run(fmt.Sprintf("queues=%d/window=%d/journal=%s", queues, window, kind), func(b *testing.B) {
					var g group
					if kind == "own" {
						g = newOwn(b, queues)
					} else {
						g = newWAL(b)
					}
					measure(b, g, queues, window)
					if err := g.close(); err != nil {
						b.Error(err)
					}
				})
			}
		}
	}
}

func measure(b *testing.B, g group, queues, window int) {
	head, body := make([]byte, 40), make([]byte, 1024)
	b.SetBytes(1024)
	b.ReportAllocs()
	b.ResetTimer()
	var left atomic.Int64
	left.Store(int64(b.N))
	var wg sync.WaitGroup
	for q := range queues {
		wg.Go(func() {
			slots := make(chan struct{}, window)
			done := func() { <-slots }
			for left.Add(-1) >= 0 {
				slots <- struct{}{}
				g.put(q, head, body, done)
			}
			for range window {
				slots <- struct{}{}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "confirms/s")
	b.ReportMetric(float64(g.syncs())/float64(b.N), "syncs/confirm")
}
