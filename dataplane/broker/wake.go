package broker

import (
	"container/heap"
	"sync"
	"time"
)

// wakes wakes copies at the times that they asked for (messages that expire, queues that nobody uses): one goroutine and
// one timer for all queues of a life.
type wakes struct {
	life *life

	mu      sync.Mutex
	heap    wakeHeap
	byCopy  map[*queueCopy]*wakeCall
	running bool
	kick    chan struct{} // the earliest call has changed
}

type wakeCall struct {
	copy  *queueCopy
	at    int64 // Unix milliseconds
	index int   // in the heap
}

func newWakes(l *life) *wakes {
	return &wakes{life: l, byCopy: map[*queueCopy]*wakeCall{}, kick: make(chan struct{}, 1)}
}

// set asks for an evWake at a time in Unix milliseconds, in place of what was asked for before; 0: for none.
func (a *wakes) set(c *queueCopy, at int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	known := a.byCopy[c]
	switch {
	case at == 0 && known == nil:
		return
	case at == 0:
		heap.Remove(&a.heap, known.index)
		delete(a.byCopy, c)
		return
	case known == nil:
		known = &wakeCall{copy: c, at: at}
		a.byCopy[c] = known
		heap.Push(&a.heap, known)
	default:
		known.at = at
		heap.Fix(&a.heap, known.index)
	}
	if a.heap[0] == known {
		select {
		case a.kick <- struct{}{}:
		default: // it was kicked already
		}
	}
	if !a.running {
		a.running = true
		a.life.spawn(a.run)
	}
}

func (a *wakes) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-a.life.ctx.Done():
			return
		case <-a.kick:
		case <-timer.C:
		}
		if next := a.ring(time.Now().UnixMilli()); next >= 0 {
			timer.Reset(time.Duration(next) * time.Millisecond)
		}
	}
}

// ring wakes those whose time has come and returns how many milliseconds are left to the next, -1: there is none.
func (a *wakes) ring(now int64) int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	for len(a.heap) > 0 && a.heap[0].at <= now {
		due := heap.Pop(&a.heap).(*wakeCall)
		delete(a.byCopy, due.copy)
		due.copy.post(evWake{})
	}
	if len(a.heap) == 0 {
		return -1
	}
	return a.heap[0].at - now
}

type wakeHeap []*wakeCall

func (h wakeHeap) Len() int           { return len(h) }
func (h wakeHeap) Less(i, j int) bool { return h[i].at < h[j].at }
func (h wakeHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}
func (h *wakeHeap) Push(x any) {
	al := x.(*wakeCall)
	al.index = len(*h)
	*h = append(*h, al)
}
func (h *wakeHeap) Pop() any {
	old := *h
	al := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return al
}
