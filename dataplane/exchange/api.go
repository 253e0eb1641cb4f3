package exchange

import "fmt"

// Exchange types.
const (
	Direct  = "direct"
	Fanout  = "fanout"
	Topic   = "topic"
	Headers = "headers"
	// ConsistentHash is RabbitMQ's plugin's; the binding key is a weight (see Weight).
	ConsistentHash = "x-consistent-hash"
)

// ValidType tells whether Declare knows the exchange type.
func ValidType(typ string) bool {
	switch typ {
	case Direct, Fanout, Topic, Headers, ConsistentHash:
		return true
	}
	return false
}

// Exchange is what routing needs to know of an exchange. The argument "alternate-exchange", a string, names where a message
// goes that this exchange routes nowhere.
type Exchange struct {
	Name string
	Type string
	Args map[string]any
}

// Binding ties a destination, a queue or an exchange, to a source exchange. It is identified by all its fields.
type Binding struct {
	Source      string
	Destination string
	ToExchange  bool // Destination is an exchange, not a queue
	Key         string
	Args        map[string]any
}

func (b Binding) target() target { return target{b.Destination, b.ToExchange} }

// Message is what routing looks at.
type Message struct {
	Exchange string
	// Key is the routing key; More are further keys of the same message (CC and BCC).
	Key  string
	More []string
	// Headers gives the message's headers; it is called at most once per Route, and only if an exchange asks for them. nil
	// is no headers.
	Headers func() map[string]any
	// Property gives message_id, correlation_id or timestamp as text, "" if it is not there.
	Property func(name string) string
}

// UnknownExchangeError is what Declare, Bind and Route return for an exchange that the table does not hold.
type UnknownExchangeError struct{ Name string }

func (e *UnknownExchangeError) Error() string { return fmt.Sprintf("no exchange %q", e.Name) }

// UnknownTypeError is what Declare returns for a type that is not ValidType.
type UnknownTypeError struct{ Type string }

func (e *UnknownTypeError) Error() string { return fmt.Sprintf("unknown exchange type %q", e.Type) }
