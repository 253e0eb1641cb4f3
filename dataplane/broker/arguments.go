package broker

import (
	"fmt"
	"slices"
	"strings"

	"warren/dataplane/amqp"
	"warren/dataplane/origin"
	"warren/metadata/state"
)

// comparedQueueArguments must be the same when a queue is declared again (RabbitMQ's list).
var comparedQueueArguments = []string{
	"x-dead-letter-exchange", "x-dead-letter-routing-key", "x-expires", "x-max-length", "x-max-length-bytes", "x-max-priority",
	"x-message-ttl", "x-overflow", "x-queue-mode", "x-queue-type", "x-single-active-consumer",
}

// unsupportedQueueArguments change what happens to messages, so that ignoring one would be worse than refusing it.
var unsupportedQueueArguments = []string{
	"x-dead-letter-exchange", "x-dead-letter-routing-key", "x-expires", "x-max-length", "x-max-length-bytes", "x-max-priority",
	"x-message-ttl", "x-overflow", "x-single-active-consumer",
}

// queueArguments checks the arguments of a declaration and returns the master locator that they name.
func queueArguments(d amqp.QueueDeclare, vhost string) (locator string, err error) {
	for _, key := range unsupportedQueueArguments {
		if v, ok := d.Arguments[key]; ok {
			return "", amqp.Errorf(amqp.PreconditionFailed,
				"invalid arg '%s' for queue '%s' in vhost '%s': %v: this version of Warren does not know the argument", key, d.Name, vhost, v)
		}
	}
	switch kind, ok := d.Arguments["x-queue-type"].(string); {
	case ok && kind != "classic":
		return "", amqp.Errorf(amqp.PreconditionFailed,
			"invalid property 'x-queue-type' for queue '%s' in vhost '%s': Warren has classic queues only, not '%s'", d.Name, vhost, kind)
	}
	for _, key := range []string{"x-queue-master-locator", "x-queue-leader-locator"} {
		if v, ok := d.Arguments[key].(string); ok {
			locator = strings.Replace(v, "balanced", "min-masters", 1)
		}
	}
	if locator != "" && !slices.Contains([]string{"client-local", "min-masters", "random"}, locator) {
		return "", amqp.Errorf(amqp.PreconditionFailed,
			"invalid arg 'x-queue-master-locator' for queue '%s' in vhost '%s': '%s' is not a known locator", d.Name, vhost, locator)
	}
	return locator, nil
}

// consumerArguments translates a basic.consume.
func consumerArguments(r amqp.Consume, client amqp.Table) (origin.Consume, error) {
	args, err := amqp.AppendTable(nil, r.Arguments)
	if err != nil {
		return origin.Consume{}, amqp.Errorf(amqp.SyntaxError, "arguments of consumer '%s': %v", r.Tag, err)
	}
	c := origin.Consume{Tag: r.Tag, Prefetch: uint32(r.Prefetch), NoAck: r.NoAck, Exclusive: r.Exclusive, Args: args}
	if v, ok := r.Arguments["x-priority"]; ok {
		n, isInt := integer(v)
		if !isInt {
			return origin.Consume{}, amqp.Errorf(amqp.PreconditionFailed, "invalid arg 'x-priority': %v is not an integer", v)
		}
		c.Priority = int32(n)
	}
	if v, ok := r.Arguments["x-cancel-on-ha-failover"]; ok {
		on, isBool := v.(bool)
		if !isBool {
			return origin.Consume{}, amqp.Errorf(amqp.PreconditionFailed, "invalid arg 'x-cancel-on-ha-failover': %v is not a boolean", v)
		}
		c.CancelOnFailover = on && announces(client, "consumer_cancel_notify")
	}
	return c, nil
}

// announces says whether a client's properties announce a capability. One that could not be told of a cancellation is
// attached again instead (field report B52).
func announces(client amqp.Table, capability string) bool {
	capabilities, _ := client["capabilities"].(amqp.Table)
	on, _ := capabilities[capability].(bool)
	return on
}

func integer(v any) (int64, bool) {
	switch n := v.(type) {
	case int8:
		return int64(n), true
	case uint8:
		return int64(n), true
	case int16:
		return int64(n), true
	case uint16:
		return int64(n), true
	case int32:
		return int64(n), true
	case uint32:
		return int64(n), true
	case int64:
		return n, true
	}
	return 0, false
}

// compared renders the arguments that a second declaration is compared by, as RabbitMQ prints them in its refusals.
func compared(t amqp.Table, keys ...string) []state.Argument {
	var out []state.Argument
	for _, key := range keys {
		v, ok := t[key]
		if !ok {
			continue
		}
		kind, text := rendered(v)
		out = append(out, state.Argument{Key: key, Type: kind, Text: text})
	}
	return out
}

func rendered(v any) (kind, text string) {
	switch v := v.(type) {
	case string:
		return "longstr", fmt.Sprintf("'%s'", v)
	case bool:
		return "bool", fmt.Sprintf("'%t'", v)
	case int32:
		return "signedint", fmt.Sprintf("'%d'", v)
	case int64:
		return "long", fmt.Sprintf("'%d'", v)
	}
	if n, ok := integer(v); ok {
		return "signedint", fmt.Sprintf("'%d'", n)
	}
	return fmt.Sprintf("%T", v), fmt.Sprintf("'%v'", v)
}
