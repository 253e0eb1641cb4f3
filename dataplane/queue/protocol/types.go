package protocol

import (
	"warren/dataplane/backingqueue"
	"warren/dataplane/message"
)

// Limits of one message; the sender splits, the decoder refuses what exceeds them.
const (
	// MaxItems is how many elements one list of a message holds at most (and how many positions the ranges of an Ack cover).
	MaxItems = 4096
	// BatchBytes closes a batch of messages: it takes no further one once its bodies reach this.
	BatchBytes = 256 << 10
)

// NodeID is one incarnation of a node. A restarted node is another one.
type NodeID struct {
	Name        string
	Incarnation uint64
}

// Position is where a message stands in its queue: the term of the master that took it, and its sequence number. Two
// terms may have used the same sequence number.
type Position struct{ Epoch, Seq uint64 }

// Kind names a message on the wire; the numbers are never reused.
type Kind uint8

// Kinds of messages.
const (
	KindHello Kind = iota + 1
	KindAttach
	KindPublish
	KindAck
	KindCredit
	KindCall
	KindCloseOrigin
	KindReady
	KindWelcome
	KindDeliver
	KindConfirm
	KindReply
	KindCancelled
)

// Message is one of the pointer types of this package. A message that was handed over belongs to its receiver.
type Message interface {
	Kind() Kind
	// Head is the header all messages share.
	Head() *Header
}

// Header says to which master's term and which session a message belongs.
type Header struct{ Epoch, Session uint64 }

// Head implements Message.
func (h *Header) Head() *Header { return h }

// Credit is a number of messages and of their bytes (Size).
type Credit struct{ Count, Bytes int64 }

// Overhead is what a message counts for in credit and limits besides its body.
const Overhead = 128

// Size is what m counts for in credit and limits, in bytes.
func Size(m *message.Message) int64 {
	return int64(len(m.Body)+len(m.Properties)+len(m.Exchange)+len(m.RoutingKey)) + Overhead
}

// Hello opens a session (node to master). It may be lost while nobody is master yet: Ready brings another.
type Hello struct{ Header }

// Attach tells the master what the node has (node to master). Origins may come at any time in a session, before the
// first Publish that names them; the rest only until Last.
type Attach struct {
	Header
	Origins     []AttachOrigin
	Consumers   []Consumer
	Outstanding []Outstanding
	Last        bool // the node has attached
}

// AttachOrigin names an origin and the short Ref that stands for it in this session.
type AttachOrigin struct {
	Ref    uint64
	ID     backingqueue.OriginID
	Lowest uint64 // lowest number still kept, or the next one
}

// Consumer is a basic.consume. ID is given by the node and unique there.
type Consumer struct {
	ID        uint64
	Call      uint64 // answered with a Reply if not 0; 0 in Attach: it was consuming before
	Tag       string // for lists of consumers only
	Prefetch  uint32 // 0: no limit
	NoAck     bool
	Exclusive bool
	Priority  int32
	Args      []byte // AMQP field table as the client sent it; for lists of consumers only
}

// Outstanding is a delivery that a channel has not acknowledged. Consumer is 0 for a basic.get or a cancelled consumer.
type Outstanding struct {
	Consumer uint64
	Named
}

// Named identifies a message for a master that may not know its position: by the position, and by who published it.
// Origin is zero where the deliverer did not know it any more (then every member has the message).
type Named struct {
	Position
	Origin backingqueue.OriginID
	Number uint64
}

// Publish brings publishes in the order of their channels (node to master).
type Publish struct {
	Header
	Items []PublishItem
}

// PublishItem is one publish. Void: the number was answered with a nack before, and is there only so that no number is
// missing.
type PublishItem struct {
	Ref     uint64
	Number  uint64
	Void    bool
	Message message.Message
}

// Outcome is what a channel did with deliveries.
type Outcome uint8

// Outcomes of a delivery.
const (
	Acked Outcome = iota + 1
	Rejected
	Requeued
)

// Ack ends deliveries (node to master). Seqs are those delivered in this master's term, Named are those from before.
// Number grows by one per Ack of a session that has to be kept until it is stable; it is 0 for Requeued.
type Ack struct {
	Header
	Number  uint64
	Outcome Outcome
	Seqs    []backingqueue.Range
	Named   []Named
}

// CreditGrant returns credit to consumers: the channel has taken that much off the node's hands (node to master).
type CreditGrant struct {
	Header
	Items []ConsumerCredit
}

// ConsumerCredit is the credit that goes back to one consumer.
type ConsumerCredit struct {
	Consumer uint64
	Credit
}

// Op is what a Call asks for.
type Op uint8

// Operations of a Call.
const (
	OpConsume Op = iota + 1
	OpCancel
	OpGet
	OpPurge
	OpDepth
	// OpPrepareDelete checks the conditions and, where they hold, freezes the queue until the metadata has deleted it, or
	// OpAbortDelete comes, or the asking node goes.
	OpPrepareDelete
	OpAbortDelete
)

// Call asks the master for something; a Reply with the same ID follows unless ID is 0 (node to master).
type Call struct {
	Header
	ID       uint64
	Op       Op
	Consumer Consumer // OpConsume; OpCancel: ID only
	NoAck    bool     // OpGet
	IfUnused bool     // OpPrepareDelete
	IfEmpty  bool     // OpPrepareDelete
}

// CloseOrigin says that the channel is gone and all its publishes are stable (node to master).
type CloseOrigin struct {
	Header
	Ref uint64
}

// Ready says that a master has begun its term (master to node, Session is 0). Wait: it makes nothing ready until this
// node has attached or is down, so a node that has nothing must attach all the same.
type Ready struct {
	Header
	Wait bool
}

// Welcome answers Hello: the session is open and the node may send that much of publishes (master to node).
type Welcome struct {
	Header
	Publish  Credit
	Consumer Credit // what each consumer may have under way: see CreditGrant
}

// Deliver brings messages to consumers (master to node).
type Deliver struct {
	Header
	Origins []backingqueue.OriginID // of this batch
	Items   []DeliverItem
}

// DeliverItem is one delivery. Origin is an index into Deliver.Origins plus one, or 0 if unknown.
type DeliverItem struct {
	Consumer    uint64
	Position    Position
	Origin      uint32
	Number      uint64
	Redelivered bool
	Message     message.Message
}

// Confirm answers publishes and acknowledgements, and gives credit back (master to node).
type Confirm struct {
	Header
	Results   []Result
	AckStable uint64 // all Acks up to this Number are stable; 0: nothing new
	Credit    Credit // returned for publishes
}

// Result answers publishes of one origin: those from First to Last are nacked, or (Nack false) all up to Last that were
// not answered yet are confirmed.
type Result struct {
	Ref         uint64
	First, Last uint64
	Nack        bool
}

// Reply answers a Call (master to node).
type Reply struct {
	Header
	ID        uint64
	Code      Code
	Messages  uint64   // ready messages after a depth, get (still there), purge (removed), prepare delete
	Consumers uint64   // OpConsume, OpDepth
	Get       *Deliver // OpGet: one item, or nil if the queue is empty
}

// Cancelled says that the master ended or refused a consumer (master to node).
type Cancelled struct {
	Header
	Consumer uint64
	Code     Code
}

// Kind implements Message.
func (*Hello) Kind() Kind { return KindHello }

// Kind implements Message.
func (*Attach) Kind() Kind { return KindAttach }

// Kind implements Message.
func (*Publish) Kind() Kind { return KindPublish }

// Kind implements Message.
func (*Ack) Kind() Kind { return KindAck }

// Kind implements Message.
func (*CreditGrant) Kind() Kind { return KindCredit }

// Kind implements Message.
func (*Call) Kind() Kind { return KindCall }

// Kind implements Message.
func (*CloseOrigin) Kind() Kind { return KindCloseOrigin }

// Kind implements Message.
func (*Ready) Kind() Kind { return KindReady }

// Kind implements Message.
func (*Welcome) Kind() Kind { return KindWelcome }

// Kind implements Message.
func (*Deliver) Kind() Kind { return KindDeliver }

// Kind implements Message.
func (*Confirm) Kind() Kind { return KindConfirm }

// Kind implements Message.
func (*Reply) Kind() Kind { return KindReply }

// Kind implements Message.
func (*Cancelled) Kind() Kind { return KindCancelled }
