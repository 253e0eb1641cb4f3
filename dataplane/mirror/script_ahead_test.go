package mirror

import (
	"testing"

	"warren/dataplane/backingqueue"
	"warren/dataplane/gm"
	"warren/dataplane/message"
	"warren/dataplane/queue"
)

// largePair is a pair whose master holds n messages of size bytes.
func largePair(t *testing.T, n uint64, size int) *pair {
	t.Helper()
	p := &pair{t: t, a: newRig(t, mA, nil), self: member3("b", 2, 9)}
	p.a.assign(1, 1, mA, 1, mA)
	p.a.attach(1)
	for i := uint64(1); i <= n; i++ {
		e := backingqueue.Entry{Number: i, Message: message.Message{Body: make([]byte, size), Persistent: true}}
		if taken, _, err := p.a.rep.Backing().Publish(chX, e); err != nil || taken != queue.TakenNew {
			t.Fatalf("publish: %v, %v", taken, err)
		}
	}
	p.heard = len(p.a.sent)
	p.b = newRig(t, p.self, nil)
	policy := SyncPolicy{Automatic: true}
	p.a.must(p.a.rep.Assign(p.record(policy)))
	p.b.must(p.b.rep.Assign(p.record(policy)))
	p.b.must(p.b.rep.Output(gm.Output{Kind: gm.Joined, Baselines: []gm.Baseline{{Sender: mA}, {Sender: p.self}}}))
	p.ring()
	p.b.sync()
	return p
}

func sizeOf(batches []sentSync) (n int) {
	for _, b := range batches {
		n += len(b.payload)
	}
	return n
}

// What a mirror has not answered, and what it has and its disk has not, are limited: the one is what other queues wait for on
// the link, the other what they wait for at the disk. The mirror asks its disk for a sync before the master waits for it.
func TestSyncAheadIsLimited(t *testing.T) {
	const size = 100 << 10
	p := largePair(t, 80, size)
	p.offers()
	first := steps(p.a)
	if n := sizeOf(first); n < aheadBytes || n > aheadBytes+batchBytes+2*size {
		t.Fatalf("%d bytes are sent before an answer", n)
	}
	sent := 0
	for batches := first; len(batches) > 0; batches = steps(p.a) {
		sent += sizeOf(batches)
		p.take(batches)
	}
	if sent < unstoredBytes || sent > unstoredBytes+aheadBytes+batchBytes+2*size {
		t.Fatalf("%d bytes are sent to a mirror whose disk stands still", sent)
	}
	for range 20 {
		if !p.b.store.FlushSynced() {
			break
		}
	}
	p.b.rep.DurableMoved()
	p.take(nil) // what b has to say
	if len(steps(p.a)) == 0 {
		t.Fatal("the mirror's disk has what it was asked to sync, and nothing more is sent")
	}
}

// A mirror of the version before does not say what its disk has: its answer counts for both.
func TestAckOfTheVersionBefore(t *testing.T) {
	m := syncMessage{kind: syncAck, epoch: 3, id: 4, number: 5, stored: 2}
	b := m.encode()
	old := append([]byte{b[0] - 1}, b[1:len(b)-1]...)
	for _, c := range []struct {
		b      []byte
		stored uint64
	}{{b, 2}, {old, 5}} {
		err := decodeSync(c.b, func(got *syncMessage) (bool, error) {
			if got.number != 5 || got.stored != c.stored {
				t.Errorf("number %d, stored %d, want 5 and %d", got.number, got.stored, c.stored)
			}
			return false, nil
		}, nil)
		if err != nil {
			t.Error(err)
		}
	}
}

// What two mirrors lack is encoded once, and each gets what it lacks.
func TestPieces(t *testing.T) {
	buffer := []byte("abcdef")
	var all, some pieces
	all.add(0, 2)
	all.add(2, 6)
	some.add(0, 2)
	some.add(4, 6)
	if got := all.of(buffer); string(got) != "abcdef" || &got[0] != &buffer[0] {
		t.Errorf("%q, or it was copied", got)
	}
	if got := some.of(buffer); string(got) != "abef" {
		t.Errorf("%q", got)
	}
	if got := (pieces)(nil).of(buffer); got != nil {
		t.Errorf("%q", got)
	}
}

// The memory of a batch is used again once all mirrors that were sent it have answered, and not before.
func TestBatchMemoryIsUsedAgain(t *testing.T) {
	n := &syncRun{}
	a, b := &target{}, &target{}
	s := &shared{b: n.buffer(), users: 1}
	a.sending(10, s)
	b.sending(10, s)
	n.release(s) // sent
	n.took(a, 1, 0)
	if len(n.spare) != 0 {
		t.Fatal("used again before the second mirror has it")
	}
	n.took(b, 1, 0)
	if len(n.spare) != 1 || a.ahead != 0 || a.unstored != 10 {
		t.Fatalf("%d buffers are spare; %d bytes ahead, %d unstored", len(n.spare), a.ahead, a.unstored)
	}
	if got := n.buffer(); len(got) != 0 || cap(got) != cap(s.b) || len(n.spare) != 0 {
		t.Errorf("a buffer of %d bytes, %d left", cap(got), len(n.spare))
	}
	n.took(b, 1, 1)
	if b.unstored != 0 || len(b.sizes) != 0 {
		t.Errorf("%d bytes unstored, %v", b.unstored, b.sizes)
	}
}

// However little a mirror was sent, it comes to say that its disk has it: all queues of a node share what may be unstored, and
// each waits for what the others have there.
func TestLittleIsStoredToo(t *testing.T) {
	p := largePair(t, 80, 100<<10)
	p.offers()
	_, err := p.a.rep.SyncStep() // and no further: others have filled what is shared
	p.a.must(err)
	batches := p.a.synced
	p.a.synced = nil
	if n := sizeOf(batches); n == 0 || n >= storeBytes {
		t.Fatalf("%d bytes are sent", n)
	}
	p.take(batches)
	p.b.store.FlushSynced()
	p.b.rep.DurableMoved()
	p.take(nil) // what b has to say
	p.a.rep.SyncAhead(func(_ gm.Member, ahead, unstored int) {
		if ahead != 0 || unstored != 0 {
			t.Errorf("%d bytes are not taken, %d not stored", ahead, unstored)
		}
	})
}
