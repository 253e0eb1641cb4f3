// Package queue is the queue process: what a queue's master does with its messages besides keeping them.
//
// The process takes publishes, acknowledgements and calls from the nodes (package protocol; the channels' half is
// dataplane/origin), stores through a Backing (the master of a mirrored queue, or the plain backing queue), and delivers to
// consumers. It knows no connection and no channel, only nodes, and each node's consumers and origins.
//
// A Process is a deterministic core: no goroutine, lock, clock or socket. Its owner goroutine hands it messages (Handle),
// what the metadata say (SetNodes, Promote, Suspend, Resign) and the Backing's events, and takes the outputs with Flush,
// which alone delivers: so nothing is delivered, confirmed or released unless the owner has just seen that the master holds
// its leases (metadata.md, "Never two masters"), and sees it again after what was delivered has been read.
//
// What is outstanding, who consumes, and what is ready is never stored: after each promotion the nodes tell it
// (attach.go), and only when every node that is up has attached does anything become ready (mirroring.md, "Failover, as a client sees
// it").
//
// What arguments and policies say comes as Options (what never changes) and Settings (what may): time to live (expiry.go),
// limits (limits.go), priorities (priority.go), single active consumer (consumers.go), dead letters (letters.go). Time is an
// input (SetTime), and Wake says when the process wants to be asked again.
package queue
