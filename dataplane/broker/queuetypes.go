package broker

import (
	"slices"

	"warren/dataplane/amqp"
)

// What the types of queues mean here. A queue of type quorum is refused, or with warren.quorum_queues_as_mirrored it is a mirrored
// queue that is declared as RabbitMQ's quorum queues are; streams are refused.

const (
	typeClassic = "classic"
	typeQuorum  = "quorum"
)

// foreignArguments are arguments that RabbitMQ knows, but not for queues of that type.
var foreignArguments = map[string][]string{
	typeClassic: {
		"x-delivery-limit", "x-max-in-memory-bytes", "x-max-in-memory-length", "x-quorum-initial-group-size", "x-quorum-target-group-size",
		"x-dead-letter-strategy", "x-initial-cluster-size", "x-max-age", "x-stream-filter-size-bytes", "x-stream-max-segment-size-bytes",
	},
	typeQuorum: {
		"x-max-priority", "x-queue-mode", "x-queue-version",
		"x-initial-cluster-size", "x-max-age", "x-stream-filter-size-bytes", "x-stream-max-segment-size-bytes",
	},
}

// queueType is the type that a declaration names; its value is checked elsewhere.
func queueType(d amqp.QueueDeclare) string {
	if kind, ok := d.Arguments["x-queue-type"].(string); ok {
		return kind
	}
	return typeClassic
}

// checkType refuses types that are not there, arguments that are not the type's, and quorum queues that go away by themselves.
func checkType(d amqp.QueueDeclare, vhost string, asMirrored bool) error {
	kind := queueType(d)
	if kind == typeQuorum && !asMirrored {
		return amqp.Errorf(amqp.PreconditionFailed, "invalid arg 'x-queue-type' for queue '%s' in vhost '%s': Warren has classic queues only, "+
			"not 'quorum'; mirror them with a policy, or set warren.quorum_queues_as_mirrored", d.Name, vhost)
	}
	if kind != typeClassic && kind != typeQuorum {
		return amqp.Errorf(amqp.PreconditionFailed, "invalid arg 'x-queue-type' for queue '%s' in vhost '%s': Warren has classic queues only, "+
			"not '%s'", d.Name, vhost, kind)
	}
	if kind == typeQuorum && d.ServerNamed {
		return amqp.Errorf(amqp.PreconditionFailed, "Cannot declare a server-named queue for type rabbit_quorum_queue")
	}
	for _, p := range []struct {
		name string
		has  bool
	}{{"auto-delete", d.AutoDelete}, {"exclusive-owner", d.Exclusive}, {"non-durable", !d.Durable}} {
		if kind == typeQuorum && p.has {
			return amqp.Errorf(amqp.PreconditionFailed, "invalid property '%s' for queue '%s' in vhost '%s'", p.name, d.Name, vhost)
		}
	}
	return nil
}

// checkOwnArguments refuses the first argument that another type of queue has.
func checkOwnArguments(d amqp.QueueDeclare, vhost string) error {
	kind := queueType(d)
	foreign := slices.Sorted(slices.Values(foreignArguments[kind]))
	for _, key := range foreign {
		if _, given := d.Arguments[key]; given {
			return amqp.Errorf(amqp.PreconditionFailed, "invalid arg '%s' for queue '%s' in vhost '%s' of queue type rabbit_%s_queue",
				key, d.Name, vhost, kind)
		}
	}
	return nil
}

// checkStreamOffset refuses a consumer of a stream: there is none.
func checkStreamOffset(r amqp.Consume, vhost string) error {
	if _, given := r.Arguments["x-stream-offset"]; given {
		return amqp.Errorf(amqp.PreconditionFailed, "invalid arg 'x-stream-offset' for queue '%s' in vhost '%s' of queue type rabbit_classic_queue",
			r.Queue, vhost)
	}
	return nil
}

// unkept are arguments of quorum queues that are taken, and mean nothing here.
func (l *life) unkept(d amqp.QueueDeclare, vhost string) {
	if queueType(d) != typeQuorum {
		return
	}
	for _, key := range []string{"x-delivery-limit", "x-dead-letter-strategy"} {
		if v, given := d.Arguments[key]; given {
			l.log.Warn("an argument of a quorum queue has no effect: the queue is a mirrored one", "queue", d.Name, "vhost", vhost,
				"argument", key, "value", v)
		}
	}
}
