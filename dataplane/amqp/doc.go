// Package amqp speaks AMQP 0-9-1 with clients as RabbitMQ does: the codec, connections and channels. What is behind them
// is an interface, [Backend], which package broker implements; this package knows no queue, no exchange and no storage.
//
// # Where to start
//
// [Server] accepts connections. [Backend], [Session], [ChannelBackend] and [Sink] (backend.go) are the whole boundary:
//
//	client ── connection ── channel ──calls──▶ ChannelBackend    publish, consume, declare, settle, …
//	                                ◀──calls── Sink              deliver, confirm, return, cancel, fail
//
// # Goroutines and limits
//
// A connection has a reader, which cuts frames and assembles contents (reader.go), and a writer, which takes turns over the
// channels that have something to say (writer.go). Each channel has one goroutine that carries out its methods in order
// (channel.go) from a bounded inbox. When an inbox is full, because the backend holds the channel back or the client does
// not read its replies, the reader stops reading, and TCP carries the back-pressure to the client.
//
// What the backend tells a channel through its [Sink] goes into the channel's outbox (outbox.go) and never blocks the
// backend: deliveries are bounded by a window per consumer, confirms are bits that are coalesced when the writer gets to
// them, and replies are bounded because a channel handles no further method while its outbox is too full.
//
// # Codec
//
// spec.txt is the table of classes, methods and fields; internal/gen makes spec_gen.go of it (go generate). Content
// properties stay the bytes that the publisher sent; [ScanProperties] finds the few that matter on the way, and
// [DecodeProperties] decodes them all. Field tables are [Table].
package amqp
