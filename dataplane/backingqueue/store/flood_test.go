package store

import (
	"sync/atomic"
	"testing"
	"time"
)

// TestFlood: publishers are held from five quarters of the budget on, and until it holds again; at twice the budget somebody is told,
// once.
func TestFlood(t *testing.T) {
	const budget, size = 100_000, 1000
	var told atomic.Int64
	r := newRig(t, Options{Budget: budget, OnFlood: func() { told.Add(1) }})
	q, _ := r.open(1)
	r.s.paging.Lock() // the pager is slow
	seq := uint64(1)
	add := func(until int64) {
		for ; r.s.ram.Load() < until; seq++ {
			r.fill(q, seq, 1, size)
		}
	}
	add(budget)
	if r.s.Calm() != nil || r.s.Flooded() {
		t.Error("a flood within the budget")
	}
	add(budget + budget/2)
	calm := r.s.Calm()
	if calm == nil || r.s.Flooded() || told.Load() != 0 {
		t.Fatalf("at one and a half budgets: held %v, flooded %v, told %d times", calm != nil, r.s.Flooded(), told.Load())
	}
	add(2*budget + budget/2)
	if !r.s.Flooded() || told.Load() != 1 {
		t.Errorf("above two budgets: flooded %v, told %d times", r.s.Flooded(), told.Load())
	}
	select {
	case <-calm:
		t.Error("the flood is over though nothing was paged out")
	default:
	}
	r.s.paging.Unlock()
	r.flush()
	select {
	case <-calm:
	case <-time.After(30 * time.Second):
		t.Fatal("the flood is not over")
	}
	if r.s.Calm() != nil || r.s.Flooded() {
		t.Error("the flood goes on after its end")
	}
	r.check(q, 1, seq-1)
}
