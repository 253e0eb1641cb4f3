package feed

import (
	"context"
	"sync"
)

// MaxQueue is how many values wait for one follower; what comes when there are more, it misses.
const MaxQueue = 1000

// Feed is ready for use as it is. It may be used from any goroutine.
type Feed[T any] struct {
	mu        sync.Mutex
	followers map[*Follower[T]]struct{}
}

type item[T any] struct {
	value  T
	missed int
}

// Follower takes the values that are sent while it is open.
type Follower[T any] struct {
	feed   *Feed[T]
	queue  chan item[T]
	missed int // guarded by feed.mu
}

// Send gives v to all followers; it does not wait.
func (f *Feed[T]) Send(v T) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for w := range f.followers {
		select {
		case w.queue <- item[T]{v, w.missed}:
			w.missed = 0
		default:
			w.missed++
		}
	}
}

// Followed tells whether anybody follows, so that what nobody sees need not be made.
func (f *Feed[T]) Followed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.followers) > 0
}

// Follow opens a follower of what is sent from now on. It has to be closed.
func (f *Feed[T]) Follow() *Follower[T] {
	w := &Follower[T]{feed: f, queue: make(chan item[T], MaxQueue)}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.followers == nil {
		f.followers = map[*Follower[T]]struct{}{}
	}
	f.followers[w] = struct{}{}
	return w
}

// Each calls row for each value, with how many were missed just before it, until ctx ends (nil) or row fails.
func (w *Follower[T]) Each(ctx context.Context, row func(v T, missed int) error) error {
	for {
		select {
		case i := <-w.queue:
			if err := row(i.value, i.missed); err != nil {
				return err
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// Close ends it; it may be called again.
func (w *Follower[T]) Close() {
	w.feed.mu.Lock()
	defer w.feed.mu.Unlock()
	delete(w.feed.followers, w)
}
