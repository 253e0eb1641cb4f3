package queue

// Limit is a number that may be set or not; the zero value is "no limit".
type Limit struct {
	Set   bool
	Value int64
}

// Overflow says what a full queue does (RabbitMQ's x-overflow).
type Overflow uint8

// The kinds of Overflow.
const (
	// DropHead drops the oldest ready messages, with reason maxlen where there is a dead letter exchange.
	DropHead Overflow = iota
	// RejectPublish nacks what would exceed the limit.
	RejectPublish
	// RejectPublishDLX does so and dead-letters the publish.
	RejectPublishDLX
)

// Settings are what arguments and policies say of a queue and may change while it runs.
type Settings struct {
	// TTL is how long a message lives in the queue, in milliseconds; it holds for messages that are published from now on.
	TTL Limit
	// Expires is after how many milliseconds without use the queue is deleted.
	Expires Limit
	// MaxLength and MaxBytes limit the ready messages: their number, and the size of their bodies.
	MaxLength, MaxBytes Limit
	Overflow            Overflow
	// DeadLetter: what is rejected, expired or dropped goes through the owner as a Letter first.
	DeadLetter bool
}

// Configure changes the settings; what follows from it happens at the next Flush.
func (p *Process) Configure(s Settings) {
	if s.Expires != p.set.Expires {
		p.lastUse = p.now
	}
	p.set = s
}

// SetTime tells the time, in Unix milliseconds. The owner says it before Handle and Flush.
func (p *Process) SetTime(now int64) { p.now = now }
