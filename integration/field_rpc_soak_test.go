//go:build soak

package integration

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"warren/integration/cluster"
)

// rpcPatience is how long a caller waits for an answer before it begins anew.
const rpcPatience = 3 * time.Second

var errNoAnswer = errors.New("no answer in time")

// rpc is callers and servers that connect again to whichever node answers.
type rpc struct {
	c        *cluster.Cluster
	stop     chan struct{}
	wg       sync.WaitGroup
	timeouts atomic.Int64
	answered []atomic.Int64 // by caller
}

const directReplies = "amq.rabbitmq.reply-to"

// startRPC has a server on each node and callers, of which every third uses direct reply-to and the others a transient auto-delete
// queue each.
func startRPC(c *cluster.Cluster, callers int) *rpc {
	r := &rpc{c: c, stop: make(chan struct{}), answered: make([]atomic.Int64, callers)}
	for i := range c.Nodes {
		r.again(i, func(ch *amqp.Channel, _ int) error { return r.serve(ch) })
	}
	for k := range callers {
		r.again(k, func(ch *amqp.Channel, life int) error { return r.call(ch, k, life) })
	}
	return r
}

// again does something with a new channel whenever it ends, through one node after the other.
func (r *rpc) again(first int, do func(ch *amqp.Channel, life int) error) {
	r.wg.Go(func() {
		pause := time.NewTicker(20 * time.Millisecond)
		defer pause.Stop()
		for life := first; ; life++ {
			if conn, err := amqp.Dial(r.c.URI(life%r.c.Nodes + 1)); err == nil {
				ch, err := conn.Channel()
				if err == nil {
					err = do(ch, life)
				}
				if errors.Is(err, errNoAnswer) {
					r.timeouts.Add(1)
				}
				_ = conn.Close() // it may be closed already
			}
			select {
			case <-r.stop:
				return
			case <-pause.C:
			}
		}
	})
}

func (r *rpc) serve(ch *amqp.Channel) error {
	requests, err := ch.Consume("rpc", "", false, false, false, false, nil)
	if err != nil {
		return err
	}
	for {
		select {
		case <-r.stop:
			return nil
		case d, ok := <-requests:
			if !ok {
				return errors.New("the channel was closed")
			}
			if err := ch.Publish("", d.ReplyTo, false, false, amqp.Publishing{CorrelationId: d.CorrelationId}); err != nil {
				return err
			}
			if err := d.Ack(false); err != nil {
				return err
			}
		}
	}
}

// call asks and waits for the answer, again and again.
func (r *rpc) call(ch *amqp.Channel, k, life int) error {
	reply := directReplies
	if k%3 > 0 {
		reply = fmt.Sprintf("reply_%d_%d", k, life)
		if _, err := ch.QueueDeclare(reply, false, true, false, false, nil); err != nil {
			return err
		}
	}
	answers, err := ch.Consume(reply, "", true, false, false, false, nil)
	if err != nil {
		return err
	}
	pace := time.NewTicker(50 * time.Millisecond)
	defer pace.Stop()
	for n := 0; ; n++ {
		id := fmt.Sprint(n)
		if err := ch.Publish("", "rpc", false, false, amqp.Publishing{ReplyTo: reply, CorrelationId: id}); err != nil {
			return err
		}
		patience := time.After(rpcPatience)
		for answered := false; !answered; {
			select {
			case d, ok := <-answers:
				if !ok {
					return errors.New("the channel was closed")
				}
				answered = d.CorrelationId == id // an answer may come twice
			case <-patience:
				return errNoAnswer
			}
		}
		r.answered[k].Add(1)
		select {
		case <-r.stop:
			return nil
		case <-pace.C:
		}
	}
}

// all waits until every caller has had n more answers, and returns how long that took.
func (r *rpc) all(t *testing.T, what string, n int64) time.Duration {
	t.Helper()
	began := time.Now()
	want := make([]int64, len(r.answered))
	for k := range r.answered {
		want[k] = r.answered[k].Load() + n
	}
	cluster.Eventually(t, hang, what, func() bool {
		for k := range r.answered {
			if r.answered[k].Load() < want[k] {
				return false
			}
		}
		return true
	})
	return time.Since(began)
}

// B73: requests and their answers, through transient auto-delete queues under a catch-all policy and by direct reply-to, go on while
// the nodes are restarted one after the other; afterwards nobody waits in vain, and no queue of a caller that went is left.
func TestFieldReportsRPC(t *testing.T) {
	const callers = 90
	c := cluster.Start(t, 3)
	c.Ctl(1, mirrorAll...)
	declareQueue(t, c, 1, "rpc")
	r := startRPC(c, callers)
	r.all(t, "everyone is answered", 5)
	for i := 1; i <= c.Nodes; i++ {
		if i == 2 {
			c.Kill(i)
		} else {
			c.StopNode(i)
		}
		down := r.all(t, "everyone is answered while a node is down", 3)
		c.StartNode(i)
		up := r.all(t, "everyone is answered after the restart", 3)
		t.Logf("node %d: everyone had answers %v after it went, %v after it was back; %d calls were in vain so far", i, down, up, r.timeouts.Load())
		if limit := 5*time.Second + rpcPatience; down > limit || up > limit {
			t.Errorf("node %d: answers took %v and %v, want less than %v", i, down, up, limit)
		}
		awaitCopiesAt(t, c, i, "rpc", "its mirrors are in sync", inSync(2))
	}
	before := r.timeouts.Load()
	r.all(t, "everyone is answered in quiet times", 20)
	if n := r.timeouts.Load() - before; n > 0 {
		t.Errorf("%d calls were in vain long after the restarts", n)
	}
	close(r.stop)
	r.wg.Wait()
	cluster.Eventually(t, hang, "only the servers' queue is left", func() bool { return len(listAll(c, 1)) == 1 })
}
