package queue_test

import (
	"testing"

	"warren/dataplane/queue"
)

// While too few members are synchronised, publishes are refused before they are stored, and what is stored is confirmed later.
func TestTooFewInSync(t *testing.T) {
	r := newRig(t, queue.Options{})
	r.pub("b", 1, "m1", "m2")
	r.proc.SetInSync(false)
	r.stable()
	r.want()
	r.pub("b", 1, "m3")
	r.pub("c", 1, "m4")
	r.want("b1 nacked 3-3", "c1 nacked 1-1")
	r.wantHeld("m1 m2")
	r.proc.SetInSync(true)
	r.want("b1 confirmed 1-2")
	r.pub("b", 1, "m5")
	r.stable()
	r.want("b1 confirmed 4-4")
	r.wantHeld("m1 m2 m5")
}

// A repeat of what the old master stored is no new publish: it is confirmed once there are enough.
func TestTooFewInSyncAfterFailover(t *testing.T) {
	r := newRig(t, queue.Options{})
	r.pub("b", 1, "m1")
	r.proc.SetInSync(false)
	r.failover("b", len(r.b.log), true)
	r.stable()
	r.pub("b", 1, "m2")
	r.want("b1 nacked 2-2")
	r.proc.SetInSync(true)
	r.want("b1 confirmed 1-1")
}
