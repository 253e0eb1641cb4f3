// Package wire is the measurements' AMQP 0-9-1 client: just enough of the protocol to publish with confirms and to consume,
// and so lean that on a small machine the brokers are measured and not the client.
//
// Start at [Dial]: it opens a connection with one channel. A connection either publishes ([Conn.Publish], fed by a prebuilt
// [Template]) or consumes ([Conn.Consume], [Conn.Ack]); [Conn.Next] reads the next [Event] in both cases. Nothing is
// allocated per message: what Next gives aliases the read buffer until the next call. Topology (declaring, deleting) is left
// to a full client.
//
// One goroutine may write and another one may read a Conn at the same time; Close may be called by any.
package wire
