//go:build soak || upgrade

package integration

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"warren/integration/cluster"
)

// rollUnderLoad publishes through whichever node serves while all nodes are given another binary.
func rollUnderLoad(t *testing.T, c *cluster.Cluster, to string) {
	t.Helper()
	stop := make(chan struct{})
	var wg sync.WaitGroup
	r := &roaming{c: c, confirmed: map[string]map[int]bool{}, stop: stop}
	wg.Go(r.run)
	ended := make(chan struct{})
	var following sync.WaitGroup
	f := &follower{c: c, stop: ended, seen: map[string]int{}}
	following.Go(f.run)
	cluster.Eventually(t, hang, "the load has begun", func() bool { return r.count() > 500 })
	steps := c.Upgrade(to)
	close(stop)
	wg.Wait()
	for i := 1; i <= c.Nodes; i++ {
		for _, step := range []string{": draining", " stopped", " is up", ": reviving", ": waiting for its mirrors"} {
			if !strings.Contains(steps, c.Name(i)+step) {
				t.Errorf("no step %q of %s was printed:\n%s", step, c.Name(i), steps)
			}
		}
		mirrorsListed(t, c, i, "orders", c.Nodes-1)
	}
	t.Logf("%d nodes to %s: %d confirmed over %d connections, %d moves to another node, longest wait for a confirm %v",
		c.Nodes, filepath.Base(filepath.Dir(to)), r.count(), len(r.confirmed), r.moves, r.longest)
	if r.moves == 0 {
		t.Error("the publisher never had to change its node: nothing was shown")
	}
	cluster.Eventually(t, hang, "every confirmed message has come", func() bool { return f.missing(r.confirmed) == 0 })
	close(ended)
	following.Wait()
	if len(f.doubled) > 0 {
		t.Errorf("%d messages came twice without a mark, the first %s", len(f.doubled), f.doubled[0])
	}
}

// roaming publishes until it is told to stop, and goes to another node when its own closes the connection.
type roaming struct {
	c    *cluster.Cluster
	stop <-chan struct{}

	mu        sync.Mutex
	confirmed map[string]map[int]bool // by connection
	total     int
	moves     int // to another node
	longest   time.Duration
}

func (r *roaming) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.total
}

// run publishes a few hundred messages over each connection, and takes another node after one that ended early.
func (r *roaming) run() {
	node, last := 1, time.Now()
	for i := 1; ; i++ {
		select {
		case <-r.stop:
			return
		default:
		}
		p := newPublisher(fmt.Sprintf("r%d-%d", time.Now().UnixNano(), i))
		first := make(chan time.Time, 1)
		var watch sync.WaitGroup
		watch.Go(func() { first <- p.firstConfirm() })
		p.run(r.c.URI(node), "orders", 400)
		p.update(func() { p.sent = -1 }) // ends firstConfirm where none came
		watch.Wait()
		r.mu.Lock()
		if at := <-first; !at.IsZero() {
			r.longest = max(r.longest, at.Sub(last), p.longest)
			last = p.last
			r.confirmed[p.name] = p.confirmed
			r.total += len(p.confirmed)
		}
		r.mu.Unlock()
		if p.err != nil {
			r.moves++
			node = node%r.c.Nodes + 1
		}
	}
}

// firstConfirm waits for the first confirm and returns its time, zero if the publisher ends without one.
func (p *publisher) firstConfirm() time.Time {
	for {
		p.mu.Lock()
		count, ended, changed := len(p.confirmed), p.sent < 0, p.changed
		p.mu.Unlock()
		switch {
		case count > 0:
			return time.Now()
		case ended:
			return time.Time{}
		}
		<-changed
	}
}

// follower consumes through whichever node serves until it is told to stop.
type follower struct {
	c    *cluster.Cluster
	stop <-chan struct{}

	mu      sync.Mutex
	seen    map[string]int // by body
	doubled []string       // came again although nothing said that it might
}

func (f *follower) run() {
	for node := f.c.Nodes; ; node = node%f.c.Nodes + 1 {
		if err := f.follow(f.c.URI(node)); err == nil {
			return
		}
		select {
		case <-f.stop:
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// follow returns nil when it was told to stop.
func (f *follower) follow(uri string) error {
	conn, deliveries, err := consumeFrom(uri, "orders", 200)
	if err != nil {
		return err
	}
	defer conn.Close()
	for {
		select {
		case <-f.stop:
			return nil
		case d, ok := <-deliveries:
			if !ok {
				return amqp.ErrClosed
			}
			f.mu.Lock()
			if f.seen[string(d.Body)]++; f.seen[string(d.Body)] > 1 && !d.Redelivered {
				f.doubled = append(f.doubled, string(d.Body))
			}
			f.mu.Unlock()
			if err := d.Ack(false); err != nil {
				return err
			}
		}
	}
}

// missing counts the confirmed messages that did not come.
func (f *follower) missing(confirmed map[string]map[int]bool) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for name, numbers := range confirmed {
		for number := range numbers {
			if f.seen[fmt.Sprintf("%s:%d", name, number)] == 0 {
				n++
			}
		}
	}
	return n
}
