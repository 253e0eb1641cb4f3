package origin

import (
	"errors"

	"warren/dataplane/backingqueue"
	"warren/dataplane/message"
	"warren/dataplane/queue/protocol"
)

// Channel names a channel of this node. Neither pair is ever used twice in one incarnation of the node: a channel number
// that a client opens again is another Channel.
type Channel struct{ Connection, Channel uint64 }

// ErrBlocked: the attachment keeps as much as its limits allow; nothing was taken. The channel publishes the same message
// again after an Output Unblocked.
var ErrBlocked = errors.New("too many publishes wait for the queue's master")

// ErrClosed: the queue was deleted, or the channel was closed.
var ErrClosed = errors.New("attachment or channel is closed")

// Kind names an Output.
type Kind uint8

// Kinds of Output.
const (
	// Send: hand Message to the queue process on To. Messages to one node keep their order.
	Send Kind = iota + 1
	// Deliveries for the Channel, in order.
	Deliveries
	// Confirmed: publishes First to Last of the Channel to this queue are confirmed. Each number is answered exactly once,
	// by Confirmed or Nacked.
	Confirmed
	// Nacked: publishes First to Last of the Channel to this queue were not taken, or nobody can tell any more.
	Nacked
	// Unblocked: a publish that was refused with ErrBlocked may be tried again.
	Unblocked
	// Replied answers a call.
	Replied
	// Lettered: the dead letter Letter is stable in the queue, was refused by it, or (Code) the queue is down or deleted.
	Lettered
	// Cancelled: consumer Tag of the Channel ended because of Code; its deliveries stay valid.
	Cancelled
)

// Output is one effect. The owner carries outputs out in the order in which they stand.
type Output struct {
	Kind        Kind
	To          protocol.NodeID       // Send
	Message     protocol.Message      // Send
	Channel     Channel               // all but Send
	Deliveries  []Delivery            // Deliveries
	First, Last uint64                // Confirmed, Nacked
	Reply       *Reply                // Replied
	Tag         string                // Cancelled
	Code        protocol.Code         // Cancelled, Lettered
	Letter      backingqueue.OriginID // Lettered
}

// Delivery is one message for a channel. ID names it in Ack, Reject and Requeue; it grows with each delivery of the
// attachment. Consumer and Size are for Taken.
type Delivery struct {
	ID          uint64
	Consumer    uint64 // 0: basic.get
	Tag         string
	NoAck       bool // nothing to acknowledge
	Redelivered bool
	Size        int64
	Message     message.Message
}

// Reply answers the call with the same ID.
type Reply struct {
	Call      uint64
	Op        protocol.Op
	Tag       string        // OpConsume, OpCancel
	Code      protocol.Code // 0: it succeeded
	Messages  uint64        // see protocol.Reply
	Consumers uint64
	Get       *Delivery // OpGet; nil if the queue is empty
}

// Limits bound what an attachment keeps for publishers. The bound is passed by one message at most.
type Limits struct {
	Publishes int
	Bytes     int64
}

// What is used where a limit is zero.
const (
	DefaultPublishes = 16384
	DefaultBytes     = 16 << 20
)

// Consume are the arguments of a basic.consume.
type Consume struct {
	Tag       string
	Prefetch  uint32
	NoAck     bool
	Exclusive bool
	Priority  int32
	Args      []byte
	// CancelOnFailover: Cancelled with ErrFailover when another node becomes master (x-cancel-on-ha-failover), where the
	// client can be told so (capability consumer_cancel_notify).
	CancelOnFailover bool
}
