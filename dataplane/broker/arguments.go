package broker

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"warren/dataplane/amqp"
	"warren/dataplane/origin"
	"warren/metadata/state"
)

// comparedQueueArguments must be the same when a queue is declared again (RabbitMQ's list).
var comparedQueueArguments = []string{
	"x-dead-letter-exchange", "x-dead-letter-routing-key", "x-delivery-limit", "x-expires", "x-max-length", "x-max-length-bytes",
	"x-max-priority", "x-message-ttl", "x-overflow", "x-queue-mode", "x-queue-type", "x-quorum-initial-group-size", "x-single-active-consumer",
}

// Limits of arguments in RabbitMQ.
const (
	maxPriority = 255
	maxTimer    = 315360000000 // milliseconds: ten years
)

// argumentChecks stand in the order in which RabbitMQ looks at arguments.
var argumentChecks = []struct {
	key   string
	check func(v any, args amqp.Table) (fault string)
}{
	{"x-expires", func(v any, _ amqp.Table) string { return number(v, 1, maxTimer) }},
	{"x-message-ttl", func(v any, _ amqp.Table) string { return number(v, 0, maxTimer) }},
	{"x-dead-letter-routing-key", func(v any, args amqp.Table) string {
		_, there := args["x-dead-letter-exchange"]
		if fault := text(v, ""); fault != "" || there {
			return fault
		}
		return "routing_key_but_no_dlx_defined"
	}},
	{"x-max-length", func(v any, _ amqp.Table) string { return number(v, 0, math.MaxInt64) }},
	{"x-max-length-bytes", func(v any, _ amqp.Table) string { return number(v, 0, math.MaxInt64) }},
	{"x-max-priority", func(v any, _ amqp.Table) string {
		if n, ok := integer(v); ok && n > maxPriority {
			return fmt.Sprintf("{max_value_exceeded,%d}", n)
		}
		return number(v, 0, maxPriority)
	}},
	{"x-overflow", func(v any, _ amqp.Table) string {
		return text(v, "invalid_overflow", "drop-head", "reject-publish", "reject-publish-dlx")
	}},
	{"x-queue-mode", func(v any, _ amqp.Table) string {
		return text(v, fmt.Sprintf(`"unsupported queue mode '%v'"`, v), "default", "lazy")
	}},
	{"x-queue-version", func(v any, _ amqp.Table) string {
		if n, ok := integer(v); ok && n != 1 && n != 2 {
			return fmt.Sprintf(`"unsupported queue version '%d'"`, n)
		}
		return number(v, 1, 2)
	}},
	{"x-single-active-consumer", func(v any, _ amqp.Table) string {
		if _, ok := v.(bool); ok {
			return ""
		}
		return unacceptable(v)
	}},
	{"x-delivery-limit", func(v any, _ amqp.Table) string { return number(v, 0, math.MaxInt64) }},
	{"x-quorum-initial-group-size", func(v any, _ amqp.Table) string { return number(v, 1, math.MaxInt64) }},
	{"x-queue-type", func(v any, _ amqp.Table) string {
		return text(v, fmt.Sprintf(`"unsupported queue type '%v'"`, v), "classic", "quorum", "stream")
	}},
}

// number, text and unacceptable give RabbitMQ's words for what is wrong with a value; "" is nothing.
func number(v any, low, high int64) string {
	n, ok := integer(v)
	switch {
	case !ok:
		kind, _ := rendered(v)
		return fmt.Sprintf(`"expected integer, got %s"`, kind)
	case n < 0:
		return fmt.Sprintf("{value_negative,%d}", n)
	case n < low:
		return fmt.Sprintf("{value_zero,%d}", n)
	case n > high:
		return fmt.Sprintf("{value_too_large,%d}", n)
	}
	return ""
}

func text(v any, fault string, words ...string) string {
	s, ok := v.(string)
	switch {
	case !ok:
		return unacceptable(v)
	case len(words) == 0 || slices.Contains(words, s):
		return ""
	}
	return fault
}

func unacceptable(v any) string {
	kind, _ := rendered(v)
	return fmt.Sprintf("{unacceptable_type,%s}", kind)
}

// queueArguments checks the arguments of a declaration and returns the master locator that they name. asMirrored: quorum queues
// may be declared.
func queueArguments(d amqp.QueueDeclare, vhost string, asMirrored bool) (locator string, err error) {
	if v, ok := d.Arguments["x-dead-letter-exchange"]; ok {
		if _, isName := v.(string); !isName {
			kind, _ := rendered(v)
			return "", amqp.Errorf(amqp.PreconditionFailed,
				"invalid type '%s' for arg 'x-dead-letter-exchange' in queue '%s' in vhost '%s'", kind, d.Name, vhost)
		}
	}
	if err := checkOwnArguments(d, vhost); err != nil {
		return "", err
	}
	for _, c := range argumentChecks {
		v, ok := d.Arguments[c.key]
		if !ok {
			continue
		}
		if fault := c.check(v, d.Arguments); fault != "" {
			return "", amqp.Errorf(amqp.PreconditionFailed, "invalid arg '%s' for queue '%s' in vhost '%s': %s", c.key, d.Name, vhost, fault)
		}
	}
	if err := checkType(d, vhost, asMirrored); err != nil {
		return "", err
	}
	for _, key := range []string{"x-queue-master-locator", "x-queue-leader-locator"} {
		if v, ok := d.Arguments[key].(string); ok {
			locator = strings.Replace(v, "balanced", "min-masters", 1)
		}
	}
	if !slices.Contains([]string{"client-local", "min-masters", "random"}, locator) {
		locator = "" // one that is not known counts for nothing, as with RabbitMQ
	}
	return locator, nil
}

// consumerArguments translates a basic.consume.
func consumerArguments(r amqp.Consume, vhost string, client amqp.Table) (origin.Consume, error) {
	if err := checkStreamOffset(r, vhost); err != nil {
		return origin.Consume{}, err
	}
	args, err := amqp.AppendTable(nil, r.Arguments)
	if err != nil {
		return origin.Consume{}, amqp.Errorf(amqp.SyntaxError, "arguments of consumer '%s': %v", r.Tag, err)
	}
	c := origin.Consume{Tag: r.Tag, Prefetch: uint32(r.Prefetch), NoAck: r.NoAck, Exclusive: r.Exclusive, Args: args}
	if v, ok := r.Arguments["x-priority"]; ok {
		n, isInt := integer(v)
		if !isInt {
			kind, _ := rendered(v)
			return origin.Consume{}, badConsumer(r.Queue, vhost, "x-priority", fmt.Sprintf(`"expected integer, got %s"`, kind))
		}
		c.Priority = int32(min(max(n, math.MinInt32), math.MaxInt32))
	}
	if v, ok := r.Arguments["x-cancel-on-ha-failover"]; ok {
		on, isBool := v.(bool)
		if !isBool {
			return origin.Consume{}, badConsumer(r.Queue, vhost, "x-cancel-on-ha-failover", unacceptable(v))
		}
		c.CancelOnFailover = on && announces(client, "consumer_cancel_notify")
	}
	return c, nil
}

func badConsumer(queue, vhost, key, fault string) error {
	return amqp.Errorf(amqp.PreconditionFailed, "invalid arg '%s' for queue '%s' in vhost '%s': %s", key, queue, vhost, fault)
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

// compared renders the arguments that a second declaration is compared by. A queue of type classic is the same as one that
// names no type.
func compared(t amqp.Table, keys ...string) []state.Argument {
	var out []state.Argument
	for _, key := range keys {
		v, ok := t[key]
		if !ok || key == "x-queue-type" && v == "classic" {
			continue
		}
		kind, text := rendered(v)
		out = append(out, state.Argument{Key: key, Type: kind, Text: text})
	}
	return out
}

// rendered is a value's type by RabbitMQ's name, and the value as its refusals print it.
func rendered(v any) (kind, text string) {
	if v == nil {
		return "void", "undefined"
	}
	return amqp.TypeName(v), fmt.Sprint(v)
}
