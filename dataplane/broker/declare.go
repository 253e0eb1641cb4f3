package broker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"warren/dataplane/amqp"
	"warren/dataplane/exchange"
	"warren/dataplane/origin"
	"warren/metadata/state"
)

// ExchangeDeclare implements amqp.ChannelBackend.
func (c *channel) ExchangeDeclare(ctx context.Context, d amqp.ExchangeDeclare) error {
	s := c.sess
	if d.Passive {
		if !s.life.routes.hasExchange(s.info.VHost, d.Name) {
			return amqp.Errorf(amqp.NotFound, "no exchange '%s' in vhost '%s'", d.Name, s.info.VHost)
		}
		return nil
	}
	if err := s.access.exchange("configure", d.Name); err != nil {
		return err
	}
	checked := d
	if s.life.routes.hasExchange(s.info.VHost, d.Name) {
		checked.Arguments = nil // what differs is told first
	}
	cmd, err := exchangeCommand(s.info.VHost, d)
	if err != nil {
		return err
	}
	if err := exchangeFault(s.info.VHost, checked); err != nil {
		return err
	}
	if err := s.mayAlternate(d); err != nil {
		return err
	}
	_, err = s.life.propose(ctx, cmd)
	return refusal(err)
}

// exchangeCommand checks a declaration and makes its command.
func exchangeCommand(vhost string, d amqp.ExchangeDeclare) (*state.DeclareExchange, error) {
	if d.Type == "" {
		return nil, amqp.Errorf(amqp.CommandInvalid, "invalid exchange type ''")
	}
	if !exchange.ValidType(d.Type) {
		return nil, amqp.Errorf(amqp.CommandInvalid, "unknown exchange type '%s'", d.Type)
	}
	args, err := amqp.AppendTable(nil, d.Arguments)
	if err != nil {
		return nil, amqp.Errorf(amqp.SyntaxError, "arguments of exchange '%s': %v", d.Name, err)
	}
	return &state.DeclareExchange{
		Vhost: vhost, Name: d.Name, Type: d.Type, Durable: d.Durable, AutoDelete: d.AutoDelete, Internal: d.Internal,
		Arguments: args, Compared: compared(d.Arguments, "alternate-exchange"),
	}, nil
}

// ExchangeDelete implements amqp.ChannelBackend; deleting what does not exist is no error (RabbitMQ since 3.2).
func (c *channel) ExchangeDelete(ctx context.Context, d amqp.ExchangeDelete) error {
	if err := c.sess.access.exchange("configure", d.Name); err != nil {
		return err
	}
	_, err := c.sess.life.propose(ctx, &state.DeleteExchange{Vhost: c.sess.info.VHost, Name: d.Name, IfUnused: d.IfUnused})
	if errors.Is(err, state.ErrNotFound) {
		return nil
	}
	return refusal(err)
}

// ExchangeBind implements amqp.ChannelBackend.
func (c *channel) ExchangeBind(ctx context.Context, b amqp.Binding) error {
	return c.bind(ctx, b, state.KindExchange)
}

// ExchangeUnbind implements amqp.ChannelBackend.
func (c *channel) ExchangeUnbind(ctx context.Context, b amqp.Binding) error {
	return c.unbind(ctx, b, state.KindExchange)
}

// QueueBind implements amqp.ChannelBackend.
func (c *channel) QueueBind(ctx context.Context, b amqp.Binding) error {
	return c.bind(ctx, b, state.KindQueue)
}

// QueueUnbind implements amqp.ChannelBackend.
func (c *channel) QueueUnbind(ctx context.Context, b amqp.Binding) error {
	return c.unbind(ctx, b, state.KindQueue)
}

func (c *channel) bind(ctx context.Context, b amqp.Binding, kind state.Kind) error {
	binding, err := c.checkedBinding(b, kind)
	if err != nil {
		return err
	}
	if fault := bindingFault(c.sess.life.routes.exchangeType(c.sess.info.VHost, b.Source), b); fault != "" {
		return amqp.Errorf(amqp.PreconditionFailed, "%s", fault)
	}
	_, err = c.sess.life.propose(ctx, &state.Bind{Binding: binding, Owner: c.sess.owner()})
	return refusal(err)
}

func (c *channel) unbind(ctx context.Context, b amqp.Binding, kind state.Kind) error {
	binding, err := c.checkedBinding(b, kind)
	if err != nil {
		return err
	}
	_, err = c.sess.life.propose(ctx, &state.Unbind{Binding: binding, Owner: c.sess.owner()})
	if errors.Is(err, state.ErrNotFound) {
		return nil // as RabbitMQ since 3.2
	}
	return refusal(err)
}

func (c *channel) checkedBinding(b amqp.Binding, kind state.Kind) (state.Binding, error) {
	a := c.sess.access
	if err := a.check("write", kind, b.Destination); err != nil {
		return state.Binding{}, err
	}
	if err := a.exchange("read", b.Source); err != nil {
		return state.Binding{}, err
	}
	if err := a.topic("read", b.Source, b.RoutingKey); err != nil {
		return state.Binding{}, err
	}
	return c.sess.binding(b, kind)
}

// QueueDeclare implements amqp.ChannelBackend.
func (c *channel) QueueDeclare(ctx context.Context, d amqp.QueueDeclare) (amqp.QueueInfo, error) {
	if isReplyName(d.Name) {
		return c.replyQueue(ctx, d.Name)
	}
	if !d.Passive {
		if err := c.createQueue(ctx, d); err != nil {
			return amqp.QueueInfo{}, err
		}
	}
	q, err := c.sess.queue(d.Name)
	if err != nil {
		return amqp.QueueInfo{}, err
	}
	if q.Status == state.QueueDown {
		return amqp.QueueInfo{}, down(q)
	}
	r, err := c.call(ctx, q, func(core *origin.Attachment) (uint64, error) { return core.Depth(c.key) })
	if err != nil {
		return amqp.QueueInfo{}, err
	}
	return amqp.QueueInfo{Name: d.Name, Messages: uint32(r.Messages), Consumers: uint32(r.Consumers)}, nil
}

// createQueue proposes the queue; one that is the same already is fine.
func (c *channel) createQueue(ctx context.Context, d amqp.QueueDeclare) error {
	s := c.sess
	if err := s.access.configure(d.Name); err != nil {
		return err
	}
	if q, ok := s.life.routes.queue(s.info.VHost, d.Name); ok {
		if err := s.differing(q, d); err != nil {
			return err
		}
	} else if err := s.mayDeadLetter(d); err != nil {
		return err
	}
	cmd, err := s.life.queueCommand(s.info.VHost, d)
	if err != nil {
		return err
	}
	cmd.Owner = s.owner()
	r, err := s.life.propose(ctx, cmd)
	if err != nil {
		return refusal(err)
	}
	if r.Created {
		s.life.unkept(d, s.info.VHost)
	}
	if r.Created && d.Exclusive {
		if q, ok := s.life.routes.queue(s.info.VHost, d.Name); ok && q.ID == r.Queue {
			s.mu.Lock()
			s.exclusive = append(s.exclusive, q)
			s.mu.Unlock()
		}
	}
	return nil
}

// differing is what differs of a queue that is there: RabbitMQ tells that before it looks whether the arguments mean something.
func (s *session) differing(q *state.Queue, d amqp.QueueDeclare) error {
	r := state.Redeclare(q, &state.DeclareQueue{
		Vhost: s.info.VHost, Name: d.Name, Durable: d.Durable, AutoDelete: d.AutoDelete, Exclusive: d.Exclusive, Owner: s.owner(),
		Compared: compared(d.Arguments, comparedQueueArguments...),
	})
	if r.Err != nil && r.Err.Key != "x-queue-type" {
		return refusal(r.Err)
	}
	have, err := arguments(q.Arguments)
	if err != nil {
		return fmt.Errorf("compare queue '%s' in vhost '%s' with its declaration: %w", q.Name, q.Vhost, err)
	}
	for _, key := range []string{"x-queue-version", "x-queue-type", "x-queue-master-locator"} {
		if err := sameArgument(q, key, have, d.Arguments); err != nil {
			return err
		}
	}
	return nil
}

// sameArgument compares what a queue was declared with, and is declared with now.
func sameArgument(q *state.Queue, key string, have, want amqp.Table) error {
	h, hasIt := have[key]
	w, wantsIt := want[key]
	hKind, hText := rendered(h)
	wKind, wText := rendered(w)
	e := &state.Error{Code: state.CodeInequivalent, Kind: state.KindQueue, Vhost: q.Vhost, Name: q.Name, Key: key}
	typed := func(kind, text string) string { return fmt.Sprintf("the value '%s' of type '%s'", text, kind) }
	_, hInt := integer(h)
	_, wInt := integer(w)
	switch {
	case !hasIt && !wantsIt, len(compared(have, key))+len(compared(want, key)) == 0:
		return nil
	case !hasIt:
		e.Have, e.Want = "none", typed(wKind, wText)
	case !wantsIt:
		e.Have, e.Want = typed(hKind, hText), "none"
	case hText == wText && (hKind == wKind || hInt && wInt):
		return nil
	default:
		e.Have, e.Want = "'"+hText+"'", "'"+wText+"'"
	}
	return refusal(e)
}

// queueCommand checks a declaration and makes its command; the owner is not set.
func (l *life) queueCommand(vhost string, d amqp.QueueDeclare) (*state.DeclareQueue, error) {
	locator, err := queueArguments(d, vhost, l.node.cfg.QuorumAsMirrored)
	if err != nil {
		return nil, err
	}
	args, err := amqp.AppendTable(nil, d.Arguments)
	if err != nil {
		return nil, amqp.Errorf(amqp.SyntaxError, "arguments of queue '%s': %v", d.Name, err)
	}
	return &state.DeclareQueue{
		Vhost: vhost, Name: d.Name, Durable: d.Durable, AutoDelete: d.AutoDelete, Exclusive: d.Exclusive,
		Arguments: args, Compared: compared(d.Arguments, comparedQueueArguments...),
		Node: l.self.Name, Locator: locator, DefaultLocator: l.node.cfg.QueueMasterLocator, Seed: rand.Uint64(),
	}, nil
}

// QueueDelete implements amqp.ChannelBackend. The master checks the conditions and takes nothing more while the metadata
// decide; a queue that is down can be deleted too, unless its being empty is a condition, which nobody can know.
func (c *channel) QueueDelete(ctx context.Context, d amqp.QueueDelete) (uint32, error) {
	if err := c.sess.access.configure(d.Name); err != nil {
		return 0, err
	}
	q, err := c.sess.queue(d.Name)
	if err != nil {
		var e *amqp.Error
		if errors.As(err, &e) && e.Code == amqp.NotFound {
			return 0, nil // RabbitMQ since 3.2
		}
		return 0, err
	}
	n, err := c.sess.life.deleteQueue(ctx, q, c, d.IfUnused, d.IfEmpty)
	return uint32(n), err
}
