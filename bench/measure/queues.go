package measure

import (
	"context"
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"warren/bench/load"
	"warren/bench/peer"
)

const (
	policyName = "bench-mirrored"
	namePrefix = "bench."
	readyLimit = 60 * time.Second // for a queue's mirrors to come up
	readyPoll  = 250 * time.Millisecond
)

// queue is one queue of a measurement and the node that it was declared on.
type queue struct {
	name string
	node int
}

func dialFull(uri string) (*amqp.Connection, *amqp.Channel, error) {
	conn, err := amqp.DialConfig(uri, amqp.Config{Heartbeat: 30 * time.Second, Dial: amqp.DefaultDial(10 * time.Second)})
	if err != nil {
		return nil, nil, fmt.Errorf("dial %s: %w", uri, err)
	}
	ch, err := conn.Channel()
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("open a channel to %s: %w", uri, err), conn.Close())
	}
	return conn, ch, nil
}

// declare makes an empty durable queue on a node, anew if it is there.
func declare(uri, name string, kind Kind) error {
	conn, ch, err := dialFull(uri)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := ch.QueueDelete(name, false, false, false); err != nil {
		return fmt.Errorf("delete queue %q: %w", name, err)
	}
	args := amqp.Table{}
	if kind == Quorum {
		args["x-queue-type"] = "quorum"
	}
	if _, err := ch.QueueDeclare(name, true, false, false, false, args); err != nil {
		return fmt.Errorf("declare queue %q: %w", name, err)
	}
	return nil
}

func remove(uri, name string) error {
	conn, ch, err := dialFull(uri)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := ch.QueueDelete(name, false, false, false); err != nil {
		return fmt.Errorf("delete queue %q: %w", name, err)
	}
	return nil
}

// prepare declares n queues of the target's kind, spread over the nodes, and waits until all copies are there and synchronised.
func prepare(ctx context.Context, t Target, what string, n int) ([]queue, error) {
	return prepareFrom(ctx, t, what, n, 0)
}

// prepareFrom is prepare with the first queue on that node.
func prepareFrom(ctx context.Context, t Target, what string, n, first int) ([]queue, error) {
	nodes := t.Cluster.Nodes()
	if t.Kind == Mirrored {
		err := t.Cluster.SetPolicy(ctx, policyName, `^bench\.mirrored\.`, `{"ha-mode":"all","ha-sync-mode":"automatic"}`)
		if err != nil {
			return nil, err
		}
	}
	var out []queue
	for i := range n {
		q := queue{name: fmt.Sprintf("%s%s.%s.%d", namePrefix, t.Kind, what, i+1), node: (first + i) % len(nodes)}
		if err := declare(nodes[q.node].URI, q.name, t.Kind); err != nil {
			return nil, err
		}
		out = append(out, q)
	}
	if t.Kind == Plain {
		return out, nil
	}
	return out, awaitCopies(ctx, t, out, len(nodes)-1)
}

// awaitCopies waits until each queue has so many mirrors, all synchronised.
func awaitCopies(ctx context.Context, t Target, queues []queue, mirrors int) error {
	ctx, cancel := context.WithTimeout(ctx, readyLimit)
	defer cancel()
	var names []string
	for _, q := range queues {
		names = append(names, q.name)
	}
	for {
		all, err := t.Cluster.Queues(ctx, names)
		if err != nil {
			return err
		}
		var missing error
		for _, name := range names {
			q, ok := all[name]
			if !ok {
				return fmt.Errorf("wait for the copies of %q: %w", name, peer.ErrNoQueue)
			}
			if len(q.Mirrors) != mirrors || len(q.Synced) != mirrors {
				missing = fmt.Errorf("queue %q has %d mirrors, %d of them synchronised, not %d", name, len(q.Mirrors), len(q.Synced), mirrors)
			}
		}
		if missing == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", missing, ctx.Err())
		case <-time.After(readyPoll):
		}
	}
}

// cleanUp deletes the queues through the first node that answers.
func cleanUp(t Target, queues []queue) error {
	var err error
	for _, n := range t.Cluster.Nodes() {
		err = nil
		for _, q := range queues {
			err = errors.Join(err, remove(n.URI, q.name))
		}
		if err == nil {
			return nil
		}
	}
	return err
}

// uris are the addresses for the clients of a queue: that which Connect says first, then the others.
func uris(t Target, q queue, connect string) []string {
	nodes := t.Cluster.Nodes()
	first := q.node
	if connect == ConnectOther {
		first++
	}
	var out []string
	for i := range nodes {
		out = append(out, nodes[(first+i)%len(nodes)].URI)
	}
	return out
}

// plan is the load that the parameters describe.
func plan(t Target, queues []queue, p Params) load.Plan {
	var out load.Plan
	for _, q := range queues {
		addresses := uris(t, q, p.Connect)
		for range p.Publishers {
			out.Publishers = append(out.Publishers, load.PublisherConfig{
				URIs: addresses, Queue: q.name, Size: p.Size, Persistent: p.Persistent, Window: p.Window, Rate: p.Rate,
			})
		}
		for range p.Consumers {
			out.Consumers = append(out.Consumers, load.ConsumerConfig{
				URIs: addresses, Queue: q.name, Prefetch: uint16(p.Prefetch), AckEvery: p.AckEvery,
			})
		}
	}
	return out
}
