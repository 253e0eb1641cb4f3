package exchange

// Exchange types.
const (
	Direct  = "direct"
	Fanout  = "fanout"
	Topic   = "topic"
	Headers = "headers"
)

// Binding ties a destination, a queue or an exchange, to a source exchange. It is identified by all its fields.
type Binding struct {
	Source      string
	Destination string
	ToExchange  bool // Destination is an exchange, not a queue
	Key         string
	Args        map[string]any
}
