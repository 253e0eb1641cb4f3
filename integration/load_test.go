package integration

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

const (
	confirmWindow = 200  // unconfirmed publishes that a test publisher has under way
	publishRate   = 2500 // publishes per second of one publisher, so that what a test does falls into the load
)

// publisher publishes persistent messages "name:1", "name:2", … with confirms and remembers which were confirmed.
type publisher struct {
	name string

	mu        sync.Mutex
	confirmed map[int]bool
	nacked    int
	sent      int
	last      time.Time     // of the newest confirm
	longest   time.Duration // the longest time between two confirms
	err       error         // why it ended early
	changed   chan struct{} // closed and replaced when something above changed
}

func newPublisher(name string) *publisher {
	return &publisher{name: name, confirmed: map[int]bool{}, changed: make(chan struct{})}
}

// run publishes count messages to queue through uri; it ends early, with err set, when its connection does.
func (p *publisher) run(uri, queue string, count int) {
	if err := p.publish(uri, queue, count); err != nil {
		p.update(func() { p.err = err })
	}
}

func (p *publisher) publish(uri, queue string, count int) error {
	conn, err := amqp.Dial(uri)
	if err != nil {
		return fmt.Errorf("%s: dial %s: %w", p.name, uri, err)
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err != nil {
		return fmt.Errorf("%s: open a channel: %w", p.name, err)
	}
	if err := ch.Confirm(false); err != nil {
		return fmt.Errorf("%s: confirm.select: %w", p.name, err)
	}
	confirms := ch.NotifyPublish(make(chan amqp.Confirmation, confirmWindow))
	began := time.Now()
	p.update(func() { p.last = began })
	for outstanding := 0; p.sent < count || outstanding > 0; {
		due := began.Add(time.Duration(p.sent) * time.Second / publishRate)
		if p.sent < count && outstanding < confirmWindow && time.Until(due) <= 0 {
			body := p.name + ":" + strconv.Itoa(p.sent+1)
			err := ch.PublishWithContext(context.Background(), "", queue, false, false,
				amqp.Publishing{DeliveryMode: amqp.Persistent, Body: []byte(body)})
			if err != nil {
				return fmt.Errorf("%s: publish: %w", p.name, err)
			}
			p.update(func() { p.sent++ })
			outstanding++
		}
		var next <-chan time.Time
		if p.sent < count && outstanding < confirmWindow {
			next = time.After(time.Until(began.Add(time.Duration(p.sent) * time.Second / publishRate)))
		}
		select {
		case c, ok := <-confirms:
			outstanding--
			if err := p.take(c, ok); err != nil {
				return err
			}
		case <-next:
		}
	}
	return nil
}

func (p *publisher) take(c amqp.Confirmation, ok bool) error {
	if !ok {
		return fmt.Errorf("%s: the channel closed while confirms were awaited", p.name)
	}
	p.update(func() {
		if !c.Ack {
			p.nacked++
			return
		}
		if p.confirmed[int(c.DeliveryTag)] {
			p.err = fmt.Errorf("%s: %d was confirmed twice", p.name, c.DeliveryTag)
		}
		p.confirmed[int(c.DeliveryTag)] = true
		now := time.Now()
		p.longest, p.last = max(p.longest, now.Sub(p.last)), now
	})
	return nil
}

func (p *publisher) update(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
	close(p.changed)
	p.changed = make(chan struct{})
}

// wait returns when cond holds or the publisher has ended with an error.
func (p *publisher) wait(t *testing.T, limit time.Duration, what string, cond func(*publisher) bool) {
	t.Helper()
	timeout := time.After(limit)
	for {
		p.mu.Lock()
		done, changed := cond(p) || p.err != nil, p.changed
		p.mu.Unlock()
		if done {
			return
		}
		select {
		case <-changed:
		case <-timeout:
			t.Fatalf("%s: not within %v: %s", p.name, limit, what)
		}
	}
}

// receipt is what a consumer saw of one publisher.
type receipt struct {
	seen map[int]int // message number → times delivered
	last int
}

// drain consumes queue through uri until every number in want (by publisher) has come and nothing more does, and
// checks that each publisher's messages come in order.
func drain(t *testing.T, uri, queue string, want map[string]map[int]bool, limit time.Duration) map[string]*receipt {
	t.Helper()
	conn, err := amqp.Dial(uri)
	if err != nil {
		t.Fatalf("dial %s: %v", uri, err)
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err != nil {
		t.Fatalf("open a channel: %v", err)
	}
	if err := ch.Qos(500, 0, false); err != nil {
		t.Fatalf("qos: %v", err)
	}
	deliveries, err := ch.Consume(queue, "drain", false, false, false, false, nil)
	if err != nil {
		t.Fatalf("consume: %v", err)
	}
	missing := 0
	for _, numbers := range want {
		missing += len(numbers)
	}
	got := map[string]*receipt{}
	timeout := time.After(limit)
	for missing > 0 {
		select {
		case d, ok := <-deliveries:
			if !ok {
				t.Fatalf("the consumer's channel closed with %d confirmed messages still missing", missing)
			}
			name, n, err := take(got, string(d.Body))
			if err != nil {
				t.Error(err)
			}
			if want[name][n] && got[name].seen[n] == 1 {
				missing--
			}
			if err := d.Ack(false); err != nil {
				t.Fatalf("ack: %v", err)
			}
		case <-timeout:
			t.Fatalf("within %v, %d confirmed messages did not come: %s", limit, missing, gaps(want, got))
		}
	}
	return got
}

func take(got map[string]*receipt, body string) (string, int, error) {
	name, number, _ := strings.Cut(body, ":")
	n, err := strconv.Atoi(number)
	if err != nil {
		return name, 0, fmt.Errorf("delivered body %q: %w", body, err)
	}
	r := got[name]
	if r == nil {
		r = &receipt{seen: map[int]int{}}
		got[name] = r
	}
	r.seen[n]++
	if n <= r.last {
		err = errors.Join(err, fmt.Errorf("%s:%d was delivered after %s:%d", name, n, name, r.last))
	}
	r.last = max(r.last, n)
	return name, n, err
}

// gaps names a few of the missing messages.
func gaps(want map[string]map[int]bool, got map[string]*receipt) string {
	var b strings.Builder
	for name, numbers := range want {
		lowest, count := 0, 0
		for n := range numbers {
			if got[name] == nil || got[name].seen[n] == 0 {
				count++
				if lowest == 0 || n < lowest {
					lowest = n
				}
			}
		}
		fmt.Fprintf(&b, "%s: %d missing from number %d; ", name, count, lowest)
	}
	return b.String()
}
