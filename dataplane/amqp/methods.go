package amqp

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"strings"
)

// method handles everything but basic.publish, ack, nack and reject.
func (ch *channel) method(ctx context.Context, m method) error {
	switch m := m.(type) {
	case *exchangeDeclare, *exchangeDelete, *exchangeBind, *exchangeUnbind:
		return ch.exchangeMethod(ctx, m)
	case *queueDeclare, *queueDelete, *queuePurge, *queueBind, *queueUnbind:
		return ch.queueMethod(ctx, m)
	case *basicQos, *basicConsume, *basicCancel, *basicGet, *basicRecover, *basicRecoverAsync:
		return ch.basicMethod(ctx, m)
	case *basicCancelOk, *channelFlowOk:
		return nil // the client's answer to what we asked without waiting
	case *channelFlow:
		if !m.Active {
			return Errorf(NotImplemented, "active=false")
		}
		ch.out.reply(&channelFlowOk{Active: true}, false)
		return nil
	case *confirmSelect:
		return ch.confirmSelect(m)
	case *txSelect:
		return ch.txSelect()
	case *txCommit:
		return ch.txCommit(ctx)
	case *txRollback:
		return ch.txRollback()
	case *accessRequest:
		ch.out.reply(&accessRequestOk{Ticket: 1}, false)
		return nil
	}
	return Errorf(CommandInvalid, "unimplemented method")
}

func (ch *channel) confirmSelect(m *confirmSelect) error {
	if ch.tx != nil {
		return Errorf(PreconditionFailed, "cannot switch from tx to confirm mode")
	}
	ch.confirming = true
	ch.shown.confirm.Store(true)
	if !m.Nowait {
		ch.out.reply(&confirmSelectOk{}, false)
	}
	return nil
}

// answer sends ok unless the request failed or asked for no answer.
func (ch *channel) answer(err error, noWait bool, ok method) error {
	if err == nil && !noWait {
		ch.out.reply(ok, false)
	}
	return err
}

func (ch *channel) exchangeMethod(ctx context.Context, m method) error {
	switch m := m.(type) {
	case *exchangeDeclare:
		d := ExchangeDeclare{Name: clean(m.Exchange), Type: m.Type, Passive: m.Passive, Durable: m.Durable,
			AutoDelete: m.AutoDelete, Internal: m.Internal, Arguments: m.Arguments}
		if err := notDefault(d.Name); err != nil {
			return err
		}
		if !d.Passive && strings.HasPrefix(d.Name, "amq.") {
			d.Passive = true // what the prefix is reserved for may be declared again, nothing else
			err := ch.backend.ExchangeDeclare(ctx, d)
			var e *Error
			if errors.As(err, &e) && e.Code == NotFound {
				return Errorf(AccessRefused, "exchange name '%s' contains reserved prefix 'amq.*'", d.Name)
			}
			if err != nil {
				return err
			}
			d.Passive = false
		}
		return ch.answer(ch.backend.ExchangeDeclare(ctx, d), m.NoWait, &exchangeDeclareOk{})
	case *exchangeDelete:
		name := clean(m.Exchange)
		if err := notDefault(name); err != nil {
			return err
		}
		if strings.HasPrefix(name, "amq.") {
			return Errorf(AccessRefused, "deletion of system exchange '%s' in vhost '%s' not allowed", name, ch.conn.info.VHost)
		}
		err := ch.backend.ExchangeDelete(ctx, ExchangeDelete{Name: name, IfUnused: m.IfUnused})
		return ch.answer(err, m.NoWait, &exchangeDeleteOk{})
	case *exchangeBind:
		b := Binding{clean(m.Destination), clean(m.Source), m.RoutingKey, m.Arguments}
		if err := notDefault(b.Destination, b.Source); err != nil {
			return err
		}
		return ch.answer(ch.backend.ExchangeBind(ctx, b), m.NoWait, &exchangeBindOk{})
	case *exchangeUnbind:
		b := Binding{clean(m.Destination), clean(m.Source), m.RoutingKey, m.Arguments}
		if err := notDefault(b.Destination, b.Source); err != nil {
			return err
		}
		return ch.answer(ch.backend.ExchangeUnbind(ctx, b), m.NoWait, &exchangeUnbindOk{})
	}
	return Errorf(CommandInvalid, "unimplemented method")
}

func notDefault(names ...string) error {
	for _, name := range names {
		if name == "" {
			return Errorf(AccessRefused, "operation not permitted on the default exchange")
		}
	}
	return nil
}

// clean drops line ends from a name, as RabbitMQ does (strip_cr_lf).
func clean(name string) string {
	if !strings.ContainsAny(name, "\r\n") {
		return name
	}
	return strings.NewReplacer("\r", "", "\n", "").Replace(name)
}

// queueName resolves "", which means the queue that the channel declared last.
func (ch *channel) queueName(name string) (string, error) {
	if name != "" {
		return clean(name), nil
	}
	if ch.lastQueue == "" {
		return "", Errorf(NotFound, "no previously declared queue")
	}
	return ch.lastQueue, nil
}

func (ch *channel) queueMethod(ctx context.Context, m method) error {
	switch m := m.(type) {
	case *queueDeclare:
		return ch.queueDeclare(ctx, m)
	case *queueDelete:
		name, err := ch.queueName(m.Queue)
		if err != nil {
			return err
		}
		n, err := ch.backend.QueueDelete(ctx, QueueDelete{Name: name, IfUnused: m.IfUnused, IfEmpty: m.IfEmpty})
		return ch.answer(err, m.NoWait, &queueDeleteOk{MessageCount: n})
	case *queuePurge:
		name, err := ch.queueName(m.Queue)
		if err != nil {
			return err
		}
		n, err := ch.backend.QueuePurge(ctx, name)
		return ch.answer(err, m.NoWait, &queuePurgeOk{MessageCount: n})
	case *queueBind:
		b, err := ch.queueBinding(m.Queue, m.Exchange, m.RoutingKey, m.Arguments)
		if err != nil {
			return err
		}
		return ch.answer(ch.backend.QueueBind(ctx, b), m.NoWait, &queueBindOk{})
	case *queueUnbind:
		b, err := ch.queueBinding(m.Queue, m.Exchange, m.RoutingKey, m.Arguments)
		if err != nil {
			return err
		}
		return ch.answer(ch.backend.QueueUnbind(ctx, b), false, &queueUnbindOk{})
	}
	return Errorf(CommandInvalid, "unimplemented method")
}

// queueBinding: queue and routing key both empty mean the last declared queue for both (AMQP 0-9-1, queue.bind).
func (ch *channel) queueBinding(queue, exchange, key string, args Table) (Binding, error) {
	name, err := ch.queueName(queue)
	if err != nil {
		return Binding{}, err
	}
	if queue == "" && key == "" {
		key = name
	}
	b := Binding{name, clean(exchange), key, args}
	return b, notDefault(b.Source)
}

func (ch *channel) queueDeclare(ctx context.Context, m *queueDeclare) error {
	d := QueueDeclare{Name: clean(m.Queue), Passive: m.Passive, Durable: m.Durable, Exclusive: m.Exclusive,
		AutoDelete: m.AutoDelete, Arguments: m.Arguments}
	switch {
	case d.Name == "" && d.Passive: // names no queue, also not the one declared last
	case d.Name == "":
		d.Name, d.ServerNamed = "amq.gen-"+randomName(), true
	case !d.Passive && strings.HasPrefix(d.Name, "amq.") && !strings.HasPrefix(d.Name, "amq.rabbitmq.reply-to"):
		return Errorf(AccessRefused, "queue name '%s' contains reserved prefix 'amq.*'", d.Name)
	}
	info, err := ch.backend.QueueDeclare(ctx, d)
	if err != nil {
		return err
	}
	ch.lastQueue = info.Name
	return ch.answer(nil, m.NoWait, &queueDeclareOk{Queue: info.Name, MessageCount: info.Messages, ConsumerCount: info.Consumers})
}

// randomName is 16 random octets in the URL-safe base64 form, as RabbitMQ makes names.
func randomName() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(b[:])
}
