package amqp

import (
	"fmt"

	"warren/dataplane/message"
)

// Salvage says where a message that is published again comes from.
type Salvage struct {
	Node, VHost, Queue, Set, Reason string
	Position                        uint64
	Time                            Timestamp // when it was set aside
}

// Salvaged is a message as it is published again to an exchange with a routing key: the header x-salvaged says where it comes from
// (set and position together are one message's, for consumers that must not take it twice), it does not expire by itself any more,
// and no other routing key of its publisher counts.
func Salvaged(m *message.Message, s Salvage, exchange, key string) (message.Message, error) {
	var p Properties
	if len(m.Properties) > 0 {
		var err error
		if p, err = DecodeProperties(m.Properties); err != nil {
			return message.Message{}, fmt.Errorf("make a message to be published again: %w", err)
		}
	}
	if p.Headers == nil || p.Present&PropHeaders == 0 {
		p.Headers = Table{}
	}
	from := Table{
		"node": s.Node, "vhost": s.VHost, "queue": s.Queue, "set": s.Set, "reason": s.Reason, "position": int64(s.Position), "time": s.Time,
		"exchange": m.Exchange, "routing-key": m.RoutingKey,
	}
	if p.Present&PropExpiration != 0 {
		from["original-expiration"] = p.Expiration
	}
	p.Headers["x-salvaged"] = from
	delete(p.Headers, "CC")
	delete(p.Headers, "BCC")
	p.Present = p.Present&^PropExpiration | PropHeaders
	b, err := AppendProperties(nil, p)
	if err != nil {
		return message.Message{}, fmt.Errorf("make a message to be published again: %w", err)
	}
	out := *m
	out.Exchange, out.RoutingKey, out.Expiry, out.Properties = exchange, key, 0, b
	return out, nil
}
