package broker

import (
	"warren/dataplane/amqp"
	"warren/dataplane/queue"
	"warren/metadata/policy"
	"warren/metadata/state"
)

// deadLetters is where the dead letters of a queue go. Without a key of its own a letter keeps the keys that it had.
type deadLetters struct {
	on       bool
	exchange string
	hasKey   bool
	key      string
}

// fixedOptions are what only the arguments of a queue say, which never change.
func fixedOptions(q *state.Queue, args amqp.Table) queue.Options {
	o := queue.Options{AutoDelete: q.AutoDelete, HadConsumers: q.HadConsumers, ConsumerWindow: consumerWindow}
	if n, ok := integer(args["x-max-priority"]); ok && n >= 0 && n <= maxPriority {
		o.Priorities = int(n) + 1
	}
	o.SingleActive, _ = args["x-single-active-consumer"].(bool)
	return o
}

// settingsOf merges arguments and policies: of two limits the smaller one, else the argument (RabbitMQ's
// rabbit_queue_type_util:args_policy_lookup).
func settingsOf(q *state.Queue, args amqp.Table) (queue.Settings, deadLetters) {
	s := queue.Settings{
		TTL:       smaller(q.Effective, args, "message-ttl"),
		Expires:   smaller(q.Effective, args, "expires"),
		MaxLength: smaller(q.Effective, args, "max-length"),
		MaxBytes:  smaller(q.Effective, args, "max-length-bytes"),
	}
	switch overflow, _ := word(q.Effective, args, "overflow"); overflow {
	case "reject-publish":
		s.Overflow = queue.RejectPublish
	case "reject-publish-dlx":
		s.Overflow = queue.RejectPublishDLX
	}
	var d deadLetters
	d.exchange, d.on = word(q.Effective, args, "dead-letter-exchange")
	d.key, d.hasKey = word(q.Effective, args, "dead-letter-routing-key")
	s.DeadLetter = d.on
	return s, d
}

func smaller(p policy.Definition, args amqp.Table, key string) queue.Limit {
	n, ok := p.Int(key)
	if a, given := integer(args["x-"+key]); given && (!ok || a < n) {
		n, ok = a, true
	}
	return queue.Limit{Set: ok && n >= 0, Value: n}
}

func word(p policy.Definition, args amqp.Table, key string) (string, bool) {
	if v, ok := args["x-"+key].(string); ok {
		return v, true
	}
	return p.String(key)
}

// singleActive: only one consumer of the queue at a time is given messages.
func singleActive(q *state.Queue) bool {
	for _, a := range q.Compared {
		if a.Key == "x-single-active-consumer" {
			return a.Text == "true"
		}
	}
	return false
}
