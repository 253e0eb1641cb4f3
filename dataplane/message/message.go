package message

// Message is one AMQP message. It is immutable once built: its slices may alias a network or file buffer and are shared.
type Message struct {
	Exchange   string
	RoutingKey string
	// Properties is the AMQP 0-9-1 content header's property part: the 16-bit property flags and the property list, just
	// as the publisher sent them.
	Properties []byte
	Body       []byte
	Persistent bool  // delivery-mode 2
	Priority   uint8 // from the properties
	Expiry     int64 // absolute, Unix milliseconds; 0: never (mirroring.md: expiry travels as an absolute time)
}
