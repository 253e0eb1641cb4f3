package amqp

import (
	"context"
	"crypto/tls"
	"net"

	"warren/dataplane/message"
)

// Backend is the broker that a [Server] serves. Its methods may be called from any goroutine.
//
// An error that a method of Backend, Session or ChannelBackend returns is answered to the client: an [*Error] (found by
// errors.As) with its code and text, anything else as 541 INTERNAL_ERROR and logged. Whether it closes the channel or the
// connection follows from the code (AMQP 0-9-1 section 1.2, see [Error.Hard]).
//
// The context of a request ends when its client is gone or the server is torn down; the caller of a request does not set
// another limit, so the backend bounds its own waiting.
type Backend interface {
	// Authenticate checks who connects. A refusal is an [*Error] with [AccessRefused], whose text the client does not
	// get to see: it is told what RabbitMQ tells (403, see the log).
	Authenticate(ctx context.Context, c Credentials) (User, error)
	// Open begins the use of a vhost by an authenticated connection: [NotAllowed] if the vhost does not exist or the
	// user may not use it. Exactly one Close follows on the session if err is nil.
	Open(ctx context.Context, c ConnectionInfo) (Session, error)
}

// Credentials are what a client offered in connection.start-ok.
type Credentials struct {
	Mechanism string // PLAIN, AMQPLAIN or EXTERNAL
	Username  string
	Password  string // not with EXTERNAL: the client's certificate proves who it is
	Remote    net.Addr
}

// User is an authenticated user.
type User struct {
	Name         string
	Impersonator bool // may publish with another user's user-id (RabbitMQ's tag of that name)
}

// ConnectionInfo describes a connection. It does not change once the vhost is open. TLS is nil without it.
type ConnectionInfo struct {
	ID               uint64 // unique in the life of the server, from 1
	Remote, Local    net.Addr
	User             User
	VHost            string
	Mechanism        string
	ClientProperties Table
	FrameMax         uint32 // octets, negotiated
	ChannelMax       uint16 // negotiated
	HeartbeatSeconds uint16 // negotiated, 0: off
	TLS              *tls.ConnectionState
}

// Session is one connection's use of one vhost: it owns the connection's exclusive queues.
type Session interface {
	// OpenChannel begins a channel. It is called on the channel's goroutine. The backend may use the sink from now until
	// the channel's Close has returned (later uses are ignored). Exactly one Close follows if err is nil.
	OpenChannel(ctx context.Context, c ChannelInfo, sink Sink) (ChannelBackend, error)
	// UpdateSecret is connection.update-secret (a RabbitMQ extension).
	UpdateSecret(ctx context.Context, secret, reason string) error
	// Close is called once, after all channels were closed; the client's connection.close is answered when it returns,
	// so exclusive queues should be gone by then.
	Close(ctx context.Context)
}

// ChannelInfo names a channel.
type ChannelInfo struct {
	Connection uint64 // ConnectionInfo.ID
	Number     uint16 // the client's, used again after a close
	ID         uint64 // unique within the connection, from 1, never used again
}

// ChannelBackend carries out what one channel asks for. All methods are called on the channel's one goroutine, in the
// order in which the client sent them, except Drained. The names "" (last declared queue) and server-generated ones are
// resolved before the call; reserved prefixes and the default exchange are guarded before the call.
type ChannelBackend interface {
	// Publish routes and hands over one message. It must return fast and never wait for a queue. If p.Seq is not 0, exactly
	// one Sink.Confirm for it follows, at any time, even before Publish returns (also if no queue takes it; if mandatory,
	// Sink.Return precedes it), unless Publish returned an error, which closes the channel ([NotFound] for the exchange).
	//
	// Back-pressure: a wait that is not nil holds the channel back: nothing else is taken from this channel until wait is
	// closed, and soon the client's connection is not read any more. The message itself has been taken.
	Publish(p Publish) (wait <-chan struct{}, err error)
	// Check returns the error that Publish would return now. It is asked when a publish joins a transaction.
	Check(p Publish) error
	// Settle tells the fate of deliveries, in the order of their delivery tags; tokens is only valid during the call. It
	// must not wait for a queue. Each token is settled at most once. What was not settled when the channel closes is the
	// backend's to requeue (it knows what it delivered and what was settled).
	Settle(o Outcome, tokens []Token)
	// Flush ends a run of Publish and Settle calls: what they began and the backend gathered is to leave now. It is called before
	// the channel waits for anything, and before any other method.
	Flush()

	ExchangeDeclare(ctx context.Context, d ExchangeDeclare) error
	ExchangeDelete(ctx context.Context, d ExchangeDelete) error
	// ExchangeBind and ExchangeUnbind: Binding.Destination is an exchange.
	ExchangeBind(ctx context.Context, b Binding) error
	ExchangeUnbind(ctx context.Context, b Binding) error
	QueueDeclare(ctx context.Context, d QueueDeclare) (QueueInfo, error)
	// QueueDelete returns the number of messages that were in the queue; deleting what does not exist is no error.
	QueueDelete(ctx context.Context, d QueueDelete) (uint32, error)
	// QueuePurge returns the number of messages dropped.
	QueuePurge(ctx context.Context, queue string) (uint32, error)
	// QueueBind and QueueUnbind: Binding.Destination is a queue.
	QueueBind(ctx context.Context, b Binding) error
	QueueUnbind(ctx context.Context, b Binding) error

	// Consume attaches a consumer. Deliveries may begin before it returns; they reach the client after consume-ok.
	Consume(ctx context.Context, c Consume) error
	// Cancel detaches it: no Deliver for the tag begins after Cancel has returned. Its unsettled deliveries stay valid.
	Cancel(ctx context.Context, tag string) error
	// Get takes one message; ok is false if the queue is empty.
	Get(ctx context.Context, queue string, noAck bool) (g Got, ok bool, err error)
	// Qos bounds all consumers of the channel together (global=true, in RabbitMQ's meaning). A global=false arrives here as
	// 0, which is no limit, and as Consume.Prefetch of later consumers.
	Qos(ctx context.Context, globalPrefetch uint16) error

	// Drained says that deliveries to the consumer were written to the client's socket or are in its connection's small
	// send buffer, and so gives window back (see Consume). Called on the connection's writer, perhaps during and after any
	// other method, even Cancel and Close; it must not block. It may call the Sink.
	Drained(tag string, messages int, bytes int64)
	// Close ends the channel: consumers are detached, unsettled deliveries requeued; publishes that were taken go on. The
	// client's channel.close is answered when it returns. ctx limits the wait.
	Close(ctx context.Context)
}

// Sink is what a backend tells one channel. Its methods may be called from any goroutine, never block (they take one
// short lock) and never call the backend back. What one goroutine says in order reaches the client in that order,
// except that confirms may be sent later than what was said after them.
type Sink interface {
	// Deliver hands over deliveries to consumers of this channel; ds is only valid during the call. The backend keeps to
	// each consumer's window. A delivery to a tag that is not a consumer is ignored (its unsettled message is requeued by
	// Close at the latest).
	Deliver(ds []Delivery)
	// Confirm tells that the publishes were taken over for good (basic.ack) or were not (basic.nack), in any order. What
	// was confirmed before, or never published, is ignored.
	Confirm(seqs []uint64, ok bool)
	// Return gives a mandatory message back (basic.return); code and text such as 312, NO_ROUTE.
	Return(code uint16, text string, m message.Message)
	// ConsumerCancelled tells that the consumer is detached by the server (queue deleted, failover): basic.cancel to
	// clients that announced consumer_cancel_notify. No Deliver for the tag may follow.
	ConsumerCancelled(tag string)
	// Fail closes the channel, or the connection if the error is hard, with the error; Close is called as usual.
	Fail(err error)
}

// Token is the backend's name for a delivery. This package hands it back in Settle and does not look inside.
type Token struct {
	Ref any // such as a pointer to the backend's handle of the queue
	Pos uint64
}

// Delivery is a message on its way to a consumer.
type Delivery struct {
	ConsumerTag string
	Token       Token // not handed back if the consumer is no-ack
	Redelivered bool
	Message     message.Message
}

// Got is the answer to basic.get.
type Got struct {
	Token       Token // not handed back if no-ack
	Redelivered bool
	Message     message.Message
	Messages    uint32 // that remain ready in the queue
}

// Outcome is what a client decided about deliveries.
type Outcome uint8

const (
	// Acked: basic.ack.
	Acked Outcome = iota + 1
	// Rejected without requeue: dropped or dead-lettered.
	Rejected
	// Requeued: basic.reject or nack with requeue, basic.recover.
	Requeued
)

// Publish is one message from a client.
type Publish struct {
	Seq       uint64 // in confirm mode: 1, 2, 3, … of this channel; 0: no confirm wanted
	Mandatory bool
	// Message is complete: properties validated and scanned (Expiry is arrival plus expiration). Its Exchange and
	// RoutingKey say where it goes. Body and Properties are its own memory and may be kept.
	Message message.Message
}

// ExchangeDeclare is exchange.declare. Passive: only tell whether it exists ([NotFound]).
type ExchangeDeclare struct {
	Name, Type                             string
	Passive, Durable, AutoDelete, Internal bool
	Arguments                              Table
}

// ExchangeDelete is exchange.delete; [PreconditionFailed] if IfUnused and it has bindings.
type ExchangeDelete struct {
	Name     string
	IfUnused bool
}

// Binding is a binding to add or remove.
type Binding struct {
	Destination, Source, RoutingKey string
	Arguments                       Table
}

// QueueDeclare is queue.declare. Exclusive queues belong to the session.
type QueueDeclare struct {
	Name                                    string
	ServerNamed                             bool // Name was generated here (amq.gen-…)
	Passive, Durable, Exclusive, AutoDelete bool
	Arguments                               Table
}

// QueueInfo answers queue.declare.
type QueueInfo struct {
	Name      string
	Messages  uint32 // ready
	Consumers uint32
}

// QueueDelete is queue.delete.
type QueueDelete struct {
	Name              string
	IfUnused, IfEmpty bool
}

// Consume is basic.consume.
//
// Window: the backend may have at most WindowMessages deliveries to the consumer under way, that is, given to Sink.Deliver
// and not yet given back by Drained, and begins none while WindowBytes of bodies or more are. It holds for no-ack
// consumers as well, and comes on top of Prefetch, which counts what is not settled.
type Consume struct {
	Queue, Tag                string
	NoLocal, NoAck, Exclusive bool
	Prefetch                  uint16 // 0: no limit
	Arguments                 Table
	WindowMessages            int
	WindowBytes               int64
}
