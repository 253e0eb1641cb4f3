package broker

import (
	"errors"
	"testing"

	"warren/dataplane/amqp"
	"warren/dataplane/queue/protocol"
	"warren/metadata/state"
)

// What RabbitMQ 3.10.8 answers to a second declaration, recorded with python3-pika; "" is acceptance.
func TestDifferingDeclaration(t *testing.T) {
	s := &session{life: &life{self: protocol.NodeID{Name: "n", Incarnation: 1}}, conn: 2, info: amqp.ConnectionInfo{VHost: "/"}}
	for _, c := range []struct {
		have, want amqp.Table
		durable    bool
		refusal    string
	}{
		{amqp.Table{"x-queue-type": "classic"}, nil, false, ""},
		{amqp.Table{"x-queue-type": "classic"}, amqp.Table{"x-queue-type": "quorum"}, false, "arg 'x-queue-type': received 'quorum' but current is 'classic'"},
		{nil, amqp.Table{"x-queue-type": "quorum"}, false, "arg 'x-queue-type': received the value 'quorum' of type 'longstr' but current is none"},
		{nil, amqp.Table{"x-queue-type": "quorum"}, true, "arg 'durable': received 'true' but current is 'false'"},
		{amqp.Table{"x-queue-version": int32(1)}, amqp.Table{"x-queue-version": int64(1)}, false, ""},
		{amqp.Table{"x-queue-version": int32(1)}, amqp.Table{"x-queue-version": int32(2)}, false, "arg 'x-queue-version': received '2' but current is '1'"},
		{amqp.Table{"x-queue-master-locator": "random"}, nil, false,
			"arg 'x-queue-master-locator': received none but current is the value 'random' of type 'longstr'"},
		{amqp.Table{"x-own": int32(1)}, amqp.Table{"x-own": int32(2)}, false, ""},
	} {
		args, err := amqp.AppendTable(nil, c.have)
		if err != nil {
			t.Fatal(err)
		}
		q := &state.Queue{Name: "q", Vhost: "/", Arguments: args, Compared: compared(c.have, comparedQueueArguments...)}
		err = s.differing(q, amqp.QueueDeclare{Name: "q", Durable: c.durable, Arguments: c.want})
		var e *amqp.Error
		if errors.As(err, &e) {
			if got, want := e.Text, c.refusal; e.Code != amqp.PreconditionFailed || got != "inequivalent "+insertWhere(want) {
				t.Errorf("%v, then %v: %q", c.have, c.want, got)
			}
		} else if err != nil || c.refusal != "" {
			t.Errorf("%v, then %v: %v, want %q", c.have, c.want, err, c.refusal)
		}
	}
}

// insertWhere names the queue where RabbitMQ does.
func insertWhere(text string) string {
	for i := range text {
		if text[i] == ':' {
			return text[:i] + " for queue 'q' in vhost '/'" + text[i:]
		}
	}
	return text
}
