package protocol

import "fmt"

// Code is why a Call failed or a consumer ended; 0 is success. It is an error, so that callers compare with errors.Is.
type Code uint8

// Codes. The AMQP reply code each maps to is in brackets.
const (
	// ErrExclusiveConsumer: the queue has an exclusive consumer, or has consumers and exclusive use was asked for [403].
	ErrExclusiveConsumer Code = iota + 1
	// ErrInUse: if-unused, but the queue has consumers [406].
	ErrInUse
	// ErrNotEmpty: if-empty, but the queue has messages [406].
	ErrNotEmpty
	// ErrDown: no master, and none to come soon [404].
	ErrDown
	// ErrDeleted: the queue is gone [404].
	ErrDeleted
	// ErrFailover: the consumer asked to be cancelled when the master changes (x-cancel-on-ha-failover).
	ErrFailover
	// ErrUnknownCall: the master does not know the operation (an older version) [540].
	ErrUnknownCall
)

// Error implements error.
func (c Code) Error() string {
	switch c {
	case 0:
		return "no error"
	case ErrExclusiveConsumer:
		return "queue in exclusive use"
	case ErrInUse:
		return "queue in use"
	case ErrNotEmpty:
		return "queue not empty"
	case ErrDown:
		return "queue has no master"
	case ErrDeleted:
		return "queue was deleted"
	case ErrFailover:
		return "master of the queue changed"
	case ErrUnknownCall:
		return "operation not known to the master"
	}
	return fmt.Sprintf("queue error %d", uint8(c))
}

// Err is c as an error, nil for success.
func (c Code) Err() error {
	if c == 0 {
		return nil
	}
	return c
}
