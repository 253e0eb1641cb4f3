package broker

import (
	"fmt"
	"strconv"
	"strings"

	"warren/dataplane/amqp"
	"warren/dataplane/exchange"
)

// What arguments of exchanges and bindings are refused, in RabbitMQ's words.

// exchangeFault checks the arguments of a declaration.
func exchangeFault(vhost string, d amqp.ExchangeDeclare) error {
	if v, ok := d.Arguments["alternate-exchange"]; ok {
		if _, isName := v.(string); !isName {
			kind, _ := rendered(v)
			return amqp.Errorf(amqp.PreconditionFailed, "invalid type '%s' for arg 'alternate-exchange' in exchange '%s' in vhost '%s'",
				kind, d.Name, vhost)
		}
	}
	if d.Type != exchange.ConsistentHash {
		return nil
	}
	_, byHeader := d.Arguments["hash-header"]
	property, byProperty := d.Arguments["hash-property"]
	if byHeader && byProperty {
		return amqp.Errorf(amqp.PreconditionFailed, "hash-header and hash-property are mutually exclusive")
	}
	if byProperty {
		switch property {
		case "correlation_id", "message_id", "timestamp":
		default:
			return amqp.Errorf(amqp.PreconditionFailed, "Unsupported property: %v", property)
		}
	}
	return nil
}

// bindingFault is what is wrong with a binding of an exchange of that type; "" is nothing.
func bindingFault(typ string, b amqp.Binding) string {
	switch typ {
	case exchange.ConsistentHash:
		n, err := strconv.Atoi(b.RoutingKey)
		switch {
		case err != nil:
			return "The binding key must be an integer: " + erlangBinary(b.RoutingKey)
		case n <= 0:
			return "The binding key must be greater than 0"
		case n > exchange.MaxWeight:
			return fmt.Sprintf("The binding key must not be greater than %d", exchange.MaxWeight)
		}
	case "headers":
		v, ok := b.Arguments["x-match"]
		if !ok {
			return ""
		}
		match, isText := v.(string)
		if !isText {
			kind, text := rendered(v)
			return fmt.Sprintf("Invalid x-match field type %s (value %s); expected longstr", kind, text)
		}
		switch match {
		case "all", "any", "all-with-x", "any-with-x":
		default:
			return fmt.Sprintf("Invalid x-match field value %s; expected all, any, all-with-x, or any-with-x", erlangBinary(match))
		}
	}
	return ""
}

// erlangBinary is text as Erlang's format ~p prints it.
func erlangBinary(s string) string {
	if s == "" {
		return "<<>>"
	}
	var numbers []string
	printable := true
	for _, b := range []byte(s) {
		numbers = append(numbers, strconv.Itoa(int(b)))
		printable = printable && b >= ' ' && b < 0x7f
	}
	if !printable {
		return "<<" + strings.Join(numbers, ",") + ">>"
	}
	return "<<" + strconv.Quote(s) + ">>"
}
