package broker

import (
	"testing"

	"warren/dataplane/amqp"
	"warren/dataplane/exchange"
)

// TestBindingFaults: the texts are RabbitMQ 3.10.8's.
func TestBindingFaults(t *testing.T) {
	for _, c := range []struct {
		typ, key string
		args     amqp.Table
		want     string
	}{
		{exchange.ConsistentHash, "1", nil, ""},
		{exchange.ConsistentHash, "a", nil, `The binding key must be an integer: <<"a">>`},
		{exchange.ConsistentHash, "", nil, "The binding key must be an integer: <<>>"},
		{exchange.ConsistentHash, "1\x01", nil, "The binding key must be an integer: <<49,1>>"},
		{exchange.ConsistentHash, "0", nil, "The binding key must be greater than 0"},
		{exchange.ConsistentHash, "-1", nil, "The binding key must be greater than 0"},
		{exchange.ConsistentHash, "1001", nil, "The binding key must not be greater than 1000"},
		{"headers", "", amqp.Table{"x-match": "any-with-x"}, ""},
		{"headers", "", amqp.Table{"a": "b"}, ""},
		{"headers", "", amqp.Table{"x-match": "some"}, `Invalid x-match field value <<"some">>; expected all, any, all-with-x, or any-with-x`},
		{"headers", "", amqp.Table{"x-match": int8(1)}, "Invalid x-match field type byte (value 1); expected longstr"},
		{"direct", "a", amqp.Table{"x-match": "some"}, ""},
	} {
		if got := bindingFault(c.typ, amqp.Binding{RoutingKey: c.key, Arguments: c.args}); got != c.want {
			t.Errorf("%s %q %v: %q, want %q", c.typ, c.key, c.args, got, c.want)
		}
	}
}

func TestExchangeFaults(t *testing.T) {
	for _, c := range []struct {
		typ  string
		args amqp.Table
		want string
	}{
		{"direct", amqp.Table{"alternate-exchange": "x"}, ""},
		{"direct", amqp.Table{"alternate-exchange": int8(5)},
			"PRECONDITION_FAILED - invalid type 'byte' for arg 'alternate-exchange' in exchange 'e' in vhost '/'"},
		{exchange.ConsistentHash, amqp.Table{"hash-property": "message_id"}, ""},
		{exchange.ConsistentHash, amqp.Table{"hash-property": "other"}, "PRECONDITION_FAILED - Unsupported property: other"},
		{exchange.ConsistentHash, amqp.Table{"hash-property": "message_id", "hash-header": "h"},
			"PRECONDITION_FAILED - hash-header and hash-property are mutually exclusive"},
	} {
		got := ""
		if err := exchangeFault("/", amqp.ExchangeDeclare{Name: "e", Type: c.typ, Arguments: c.args}); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s %v: %q, want %q", c.typ, c.args, got, c.want)
		}
	}
}
