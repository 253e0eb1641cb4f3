package integration

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// stream publishes to a queue and consumes from it, each through a node of its own, until it is stopped. Neither connection may
// be closed by the broker.
type stream struct {
	stop chan struct{}
	done sync.WaitGroup

	mu        sync.Mutex
	confirmed int // 1 … confirmed were
	nacked    int
	longest   time.Duration // between two confirms
	seen      map[int]int
	doubled   []int // delivered again without the redelivered flag, or after it was acknowledged
	errs      []error
}

const streamRate = 1000 // publishes per second

// startStream begins with publishing through one URI and consuming through another; "" consumes nothing.
func startStream(publish, consume, queue string) *stream {
	s := &stream{stop: make(chan struct{}), seen: map[int]int{}}
	stopConsumer := make(chan struct{})
	s.done.Go(func() {
		defer close(stopConsumer)
		s.fail(s.publish(publish, queue))
	})
	if consume != "" {
		s.done.Go(func() { s.fail(s.consume(consume, queue, stopConsumer)) })
	}
	return s
}

func (s *stream) fail(err error) {
	if err != nil {
		s.mu.Lock()
		s.errs = append(s.errs, err)
		s.mu.Unlock()
	}
}

func (s *stream) publish(uri, queue string) error {
	conn, err := amqp.Dial(uri)
	if err != nil {
		return err
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err == nil {
		err = ch.Confirm(false)
	}
	if err != nil {
		return err
	}
	confirms := ch.NotifyPublish(make(chan amqp.Confirmation, confirmWindow))
	began, last := time.Now(), time.Now()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	stop := s.stop
	for sent, outstanding := 0, 0; stop != nil || outstanding > 0; {
		for stop != nil && outstanding < confirmWindow && time.Since(began) > time.Duration(sent)*time.Second/streamRate {
			sent++
			outstanding++
			if err := ch.PublishWithContext(context.Background(), "", queue, false, false,
				amqp.Publishing{DeliveryMode: amqp.Persistent, Body: []byte(strconv.Itoa(sent))}); err != nil {
				return fmt.Errorf("publish: %w", err)
			}
		}
		select {
		case c, ok := <-confirms:
			if !ok {
				return fmt.Errorf("the publisher's channel was closed with %d confirms outstanding", outstanding)
			}
			outstanding--
			s.mu.Lock()
			if c.Ack {
				s.confirmed++
			} else {
				s.nacked++
			}
			s.longest, last = max(s.longest, time.Since(last)), time.Now()
			s.mu.Unlock()
		case <-stop:
			stop = nil
		case <-tick.C:
		}
	}
	return nil
}

// consumeFrom opens a connection with one consumer, which has to acknowledge. Close the connection where there is no error.
func consumeFrom(uri, queue string, prefetch int) (*amqp.Connection, <-chan amqp.Delivery, error) {
	conn, err := amqp.Dial(uri)
	if err != nil {
		return nil, nil, err
	}
	var deliveries <-chan amqp.Delivery
	ch, err := conn.Channel()
	if err == nil {
		err = ch.Qos(prefetch, 0, false)
	}
	if err == nil {
		deliveries, err = ch.Consume(queue, "", false, false, false, false, nil)
	}
	if err != nil {
		_ = conn.Close() // the server may have closed it
		return nil, nil, err
	}
	return conn, deliveries, nil
}

// consume acknowledges everything until stop is closed and all that was confirmed has come.
func (s *stream) consume(uri, queue string, stop <-chan struct{}) error {
	conn, deliveries, err := consumeFrom(uri, queue, 100)
	if err != nil {
		return err
	}
	defer conn.Close()
	timeout := (<-chan time.Time)(nil)
	for {
		s.mu.Lock()
		finished := stop == nil && len(s.seen) >= s.confirmed
		s.mu.Unlock()
		if finished {
			return nil
		}
		select {
		case d, ok := <-deliveries:
			if !ok {
				return fmt.Errorf("the consumer's channel was closed")
			}
			s.take(&d)
			if err := d.Ack(false); err != nil {
				return err
			}
		case <-stop:
			stop, timeout = nil, time.After(hang)
		case <-timeout:
			return fmt.Errorf("%d messages were consumed of %d that were confirmed", len(s.seen), s.confirmed)
		}
	}
}

func (s *stream) take(d *amqp.Delivery) {
	n, err := strconv.Atoi(string(d.Body))
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.errs = append(s.errs, err)
	}
	s.seen[n]++
	if s.seen[n] > 1 && !d.Redelivered {
		s.doubled = append(s.doubled, n)
	}
}

// count waits until n more messages were confirmed.
func (s *stream) count(t *testing.T, n int) {
	t.Helper()
	s.mu.Lock()
	want := s.confirmed + n
	s.mu.Unlock()
	deadline := time.After(hang)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		s.mu.Lock()
		now, errs := s.confirmed, s.errs
		s.mu.Unlock()
		if now >= want {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%d of %d were confirmed within %v; %v", now, want, hang, errs)
		}
		if len(errs) > 0 {
			t.Fatalf("the stream ended: %v", errs)
		}
	}
}

// end stops the stream and checks that nothing was lost, nothing nacked, and no connection closed.
func (s *stream) end(t *testing.T) {
	t.Helper()
	close(s.stop)
	s.done.Wait()
	for _, err := range s.errs {
		t.Error(err)
	}
	if s.nacked > 0 {
		t.Errorf("%d publishes were nacked", s.nacked)
	}
	for n := 1; n <= s.confirmed && len(s.seen) > 0; n++ {
		if s.seen[n] == 0 {
			t.Fatalf("message %d of %d was confirmed and never delivered", n, s.confirmed)
		}
	}
	if len(s.doubled) > 0 {
		t.Errorf("%d messages were delivered twice without the flag: %d, …", len(s.doubled), s.doubled[0])
	}
	t.Logf("%d messages; longest time between two confirms %v", s.confirmed, s.longest)
}
