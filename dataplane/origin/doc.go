// Package origin is the channels' half of a queue: on each node, one Attachment per queue that local channels publish to
// or consume from, whether the queue's master is here or elsewhere (mirroring.md, "Origins", "Failover, as a client sees
// it").
//
// It keeps what must outlive a master: publishes until the master reports them confirmable, acknowledgements until their
// removal is stable, consumers, deliveries that were not acknowledged, and calls that were not answered. When the master
// changes, or the link to it was broken, it tells all that to the master of the day (package protocol) and goes on, so that
// a client on a node that lives notices nothing but a pause.
//
// An Attachment is a deterministic core: no goroutine, lock, clock or socket. Its owner serialises the calls, takes the
// Outputs after each (or after several: that is what makes batches) and carries them out in order. Where to start
// reading: Attachment (attachment.go), then session.go for what happens when a master changes.
package origin
