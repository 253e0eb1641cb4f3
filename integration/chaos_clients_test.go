package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"warren/integration/cluster"
)

// crowd is the clients of a chaos test. Each stays on a node until that lets it down, or until it feels like moving.
type crowd struct {
	c       *cluster.Cluster
	ledger  *ledger
	ctx     context.Context
	cancel  context.CancelFunc
	wg      sync.WaitGroup
	quiet   atomic.Bool // publishers send nothing
	waiting atomic.Int64
	nacks   atomic.Int64
}

func newCrowd(c *cluster.Cluster, l *ledger) *crowd {
	w := &crowd{c: c, ledger: l}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	return w
}

func (w *crowd) stop() {
	w.cancel()
	w.wg.Wait()
}

func (w *crowd) pause(d time.Duration) {
	select {
	case <-time.After(d):
	case <-w.ctx.Done():
	}
}

// dial connects to some node, or returns nil.
func (w *crowd) dial(node int) (*amqp.Connection, *amqp.Channel) {
	conn, err := amqp.DialConfig(w.c.URI(node), amqp.Config{Heartbeat: 2 * time.Second, Dial: amqp.DefaultDial(2 * time.Second)})
	if err != nil {
		return nil, nil
	}
	ch, err := conn.Channel()
	if err != nil {
		_ = conn.Close()
		return nil, nil
	}
	return conn, ch
}

// publish keeps publishing to queue under ever new names, one for each connection.
func (w *crowd) publish(queue string, id int) {
	rng := rand.New(rand.NewPCG(uint64(id), 1))
	for turn := 0; w.ctx.Err() == nil; turn++ {
		w.publishThrough(1+rng.IntN(w.c.Nodes), queue, fmt.Sprintf("p%d.%d", id, turn), 200+rng.IntN(4000))
		w.pause(20 * time.Millisecond)
	}
}

// publishThrough sends about count messages through one connection and notes the confirms until it ends.
func (w *crowd) publishThrough(node int, queue, name string, count int) {
	conn, ch := w.dial(node)
	if conn == nil {
		return
	}
	defer conn.Close()
	const window = 100
	confirms := ch.NotifyPublish(make(chan amqp.Confirmation, window))
	if ch.Confirm(false) != nil {
		return
	}
	last := time.Now()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	sent, open := 0, 0
	defer func() { w.waiting.Add(int64(-open)) }()
	for sent < count || open > 0 {
		select {
		case c, ok := <-confirms:
			if !ok {
				return
			}
			open--
			w.waiting.Add(-1)
			if !c.Ack {
				w.nacks.Add(1)
				continue
			}
			w.ledger.confirmed(queue, fmt.Sprintf("%s:%d", name, c.DeliveryTag), time.Since(last))
			last = time.Now()
		case <-tick.C:
			if open == 0 {
				last = time.Now()
			}
			if open >= window || sent >= count || w.quiet.Load() {
				continue
			}
			err := ch.PublishWithContext(w.ctx, "", queue, false, false,
				amqp.Publishing{DeliveryMode: amqp.Persistent, Body: fmt.Appendf(nil, "%s:%d", name, sent+1)})
			if err != nil {
				return
			}
			sent++
			open++
			w.waiting.Add(1)
		case <-w.ctx.Done():
			return
		}
	}
}

// consume keeps one consumer on queue.
func (w *crowd) consume(queue string, id int) {
	rng := rand.New(rand.NewPCG(uint64(id), 2))
	for w.ctx.Err() == nil {
		w.consumeThrough(1+rng.IntN(w.c.Nodes), queue, 1+rng.IntN(30), time.Duration(1+rng.IntN(20))*time.Second)
		w.pause(20 * time.Millisecond)
	}
}

// consumeThrough acknowledges about every multiple messages and moves on after some time.
func (w *crowd) consumeThrough(node int, queue string, multiple int, stay time.Duration) {
	me := &consumption{node: node, began: time.Now()}
	conn, ch := w.dial(node)
	if conn == nil {
		return
	}
	broken := true
	defer func() { w.ledger.ended(queue, me, broken); _ = conn.Close() }()
	if ch.Qos(100, 0, false) != nil {
		return
	}
	deliveries, err := ch.Consume(queue, "", false, false, false, false, nil)
	if err != nil {
		return
	}
	leave := time.After(stay)
	idle := time.NewTicker(50 * time.Millisecond)
	defer idle.Stop()
	var open []string
	var newest uint64
	ack := func() bool {
		if len(open) == 0 {
			return true
		}
		if ch.Ack(newest, true) != nil {
			return false
		}
		w.ledger.acknowledged(queue, open, me)
		open = open[:0]
		return true
	}
	for {
		select {
		case d, ok := <-deliveries:
			if !ok {
				return
			}
			w.ledger.delivered(queue, string(d.Body), d.Redelivered, me)
			open, newest = append(open, string(d.Body)), d.DeliveryTag
			if len(open) >= multiple && !ack() {
				return
			}
		case <-idle.C:
			if !ack() {
				return
			}
		case <-leave:
			broken = ch.Close() != nil
			return
		case <-w.ctx.Done():
			broken = ch.Close() != nil
			return
		}
	}
}
