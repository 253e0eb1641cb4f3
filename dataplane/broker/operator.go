package broker

import (
	"context"
	"fmt"
	"sync"

	"warren/dataplane/amqp"
	"warren/metadata/state"
)

// QueueCommand is the command that declares a queue for an operator, with its master by the rules for a client of this node.
// The error is an *amqp.Error for arguments that are refused.
func (n *Node) QueueCommand(vhost string, d amqp.QueueDeclare) (state.Command, error) {
	l := n.currentLife()
	if l == nil {
		return nil, ErrNotUp
	}
	return l.queueCommand(vhost, d)
}

// ExchangeCommand is the command that declares an exchange for an operator.
func (n *Node) ExchangeCommand(vhost string, d amqp.ExchangeDeclare) (state.Command, error) {
	cmd, err := exchangeCommand(vhost, d)
	if err != nil {
		return nil, err
	}
	return cmd, exchangeFault(vhost, d)
}

// BindCommand is the command that binds for an operator, to a queue or an exchange.
func (n *Node) BindCommand(vhost string, b amqp.Binding, kind state.Kind) (state.Command, error) {
	args, err := amqp.AppendTable(nil, b.Arguments)
	if err != nil {
		return nil, amqp.Errorf(amqp.SyntaxError, "arguments of a binding: %v", err)
	}
	return &state.Bind{Binding: state.Binding{
		Vhost: vhost, Source: b.Source, Kind: kind, Destination: b.Destination, RoutingKey: b.RoutingKey, Arguments: args,
	}}, nil
}

// proposalsAtOnce is how many commands of a batch are under way.
const proposalsAtOnce = 64

// ProposeAll executes commands that do not depend on each other's order, many at a time, and returns when all are applied on
// every node that can be reached. It stops at the first refusal, which it returns; commands under way then are still executed.
func (n *Node) ProposeAll(ctx context.Context, cmds []state.Command) error {
	l := n.currentLife()
	if l == nil {
		return ErrNotUp
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	var mu sync.Mutex
	var last uint64
	slots := make(chan struct{}, proposalsAtOnce)
	for _, cmd := range cmds {
		slots <- struct{}{}
		if ctx.Err() != nil {
			break
		}
		wg.Go(func() {
			defer func() { <-slots }()
			r, err := l.node.meta.Propose(ctx, cmd)
			if err == nil {
				err = r.Refusal()
			} else {
				err = fmt.Errorf("the metadata could not be changed: %w", err)
			}
			if err != nil {
				cancel(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			last = max(last, r.Index)
		})
	}
	wg.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	l.awaitEverywhere(ctx, last)
	return nil
}
