package mirror

import (
	"slices"
	"testing"

	"warren/dataplane/backingqueue"
	"warren/dataplane/gm"
	"warren/dataplane/queue"
)

// pair is a master on a and a mirror on b between which the test carries what they send.
type pair struct {
	t     *testing.T
	a, b  *rig
	self  gm.Member // b's
	heard int       // of a's ring messages
}

func (p *pair) record(policy SyncPolicy) Assignment {
	return Assignment{
		Mirrored: true, Status: Running, View: gm.View{Version: 9, Members: []gm.Member{mA, p.self}},
		Synchronised: []bool{true, false}, Master: mA, Epoch: 1, Sync: policy,
	}
}

// newPair has a hold n messages before b joins; store is what b held in an earlier life, nil: nothing.
func newPair(t *testing.T, n uint64, policy SyncPolicy, store *backingqueue.Memory) *pair {
	t.Helper()
	p := &pair{t: t, a: newRig(t, mA, nil), self: member3("b", 2, 9)}
	p.a.assign(1, 1, mA, 1, mA)
	p.a.attach(1)
	for i := uint64(1); i <= n; i++ {
		p.a.publish(i, queue.TakenNew)
	}
	p.heard = len(p.a.sent)
	p.b = newRig(t, p.self, store)
	p.a.must(p.a.rep.Assign(p.record(policy)))
	p.b.must(p.b.rep.Assign(p.record(policy)))
	p.b.must(p.b.rep.Output(gm.Output{Kind: gm.Joined, Baselines: []gm.Baseline{{Sender: mA}, {Sender: p.self}}}))
	p.ring()
	return p
}

// ring lets b hear what a has broadcast.
func (p *pair) ring() {
	p.t.Helper()
	for ; p.heard < len(p.a.sent); p.heard++ {
		p.b.hear(mA, p.a.sent[p.heard].payload)
	}
}

// steps lets g do what it can do at once, and takes what it sent.
func steps(g *rig) []sentSync {
	g.t.Helper()
	for more := true; more; {
		var err error
		more, err = g.rep.SyncStep()
		g.must(err)
	}
	out := g.synced
	g.synced = nil
	return out
}

// offers carries b's offers to a, batches carries a's batches to b and the answers back; false: there was none.
func (p *pair) offers() {
	p.t.Helper()
	for _, m := range steps(p.b) {
		p.a.must(p.a.rep.SyncMessage(p.self.Node, p.self.Incarnation, m.payload))
	}
}

func (p *pair) take(batches []sentSync) {
	p.t.Helper()
	for _, m := range batches {
		p.b.must(p.b.rep.SyncMessage(mA.Node, mA.Incarnation, m.payload))
	}
	for _, m := range p.b.synced {
		p.a.must(p.a.rep.SyncMessage(p.self.Node, p.self.Incarnation, m.payload))
	}
	p.b.synced = nil
}

func (p *pair) remove(seqs ...uint64) {
	p.t.Helper()
	for _, s := range seqs {
		_, err := p.a.rep.Backing().Remove([]backingqueue.Range{{First: s, Last: s}}, queue.ReasonAcked)
		p.a.must(err)
	}
}

func (g *rig) seqs() (out []uint64) {
	for seq, ok := g.rep.q.Next(0); ok; seq, ok = g.rep.q.Next(seq + 1) {
		out = append(out, seq)
	}
	return out
}

func (g *rig) holds(what string, want ...uint64) {
	g.t.Helper()
	if got := g.seqs(); !slices.Equal(got, want) {
		g.t.Fatalf("%s: holds %v, want %v", what, got, want)
	}
}

// earlier is the store of a copy that held the messages 1 to n of the same epoch.
func earlier(t *testing.T, n uint64) *backingqueue.Memory {
	t.Helper()
	g := newRig(t, mB, nil)
	g.mirror(n)
	g.sync()
	g.must(g.rep.Close())
	return g.store
}

// A batch that was read before a removal and arrives after it does not bring the message back; at SyncEnd, which counts only
// when it is durable, the mirror has exactly the master's messages.
func TestBatchAfterRemove(t *testing.T) {
	p := newPair(t, 4, SyncPolicy{Automatic: true}, nil)
	p.offers()
	batches := steps(p.a)
	if len(batches) == 0 {
		t.Fatal("nothing is sent")
	}
	p.remove(2)
	p.ring()
	p.take(batches)
	p.b.holds("a batch under way", 1, 3, 4)
	p.b.sync()
	steps(p.a)
	p.ring()
	p.b.flush()
	if p.b.persisted[mA] >= p.b.from[mA] {
		t.Fatal("SyncEnd counts as persisted before the disk has it")
	}
	p.b.sync()
	if p.b.persisted[mA] != p.b.from[mA] || !p.b.rep.Synchronised() {
		t.Fatalf("persisted %d of %d, synchronised %v", p.b.persisted[mA], p.b.from[mA], p.b.rep.Synchronised())
	}
	p.a.progress(p.a.number, p.a.number-1)
	if len(p.a.proposed) != 0 {
		t.Fatal("vouched before SyncEnd is persisted")
	}
	p.a.progress(p.a.number, p.a.number)
	if !slices.Equal(p.a.proposed, []Command{MirrorSynchronised{p.self, 9}}) {
		t.Fatalf("proposed %+v", p.a.proposed)
	}
}

// SyncEnd asks nothing of the master's disk, and does not count there before what was to be durable already: a mirror is not
// vouched for against messages that the master could lose, nor held up by those that need not be durable.
func TestSyncEndAndTheMastersDisk(t *testing.T) {
	p := newPair(t, 3, SyncPolicy{Automatic: true}, nil)
	c := p.a.countSyncs()
	p.a.publish(4, queue.TakenNew)
	publish := p.a.number
	p.a.flush()
	c.wants(t, "a publish", "now ")
	transient := msgOf("m5")
	transient.Persistent = false
	_, _, err := p.a.rep.Backing().Publish(chX, backingqueue.Entry{Number: 5, Message: transient})
	p.a.must(err)
	p.ring()
	p.offers()
	p.take(steps(p.a))
	p.b.sync()
	for _, m := range steps(p.b) {
		p.a.must(p.a.rep.SyncMessage(p.self.Node, p.self.Incarnation, m.payload))
	}
	steps(p.a)
	p.ring()
	p.b.sync()
	p.a.flush()
	if end := p.a.number; end == publish+1 || !p.b.rep.Synchronised() || p.b.persisted[mA] != p.b.from[mA] {
		t.Fatalf("no SyncEnd, or it is not persisted on the mirror: %d, %d of %d", end, p.b.persisted[mA], p.b.from[mA])
	}
	c.wants(t, "SyncEnd", "")
	if n := p.a.persisted[mA]; n >= publish {
		t.Errorf("%d counts as persisted on the master, whose disk has not what was published as %d", n, publish)
	}
	p.a.sync()
	if n := p.a.persisted[mA]; n != p.a.number {
		t.Errorf("persisted %d of %d once the publish is durable", n, p.a.number)
	}
}

// A returner is sent only what it lacks, and drops what was removed in its absence, in manual mode too.
func TestDelta(t *testing.T) {
	p := newPair(t, 6, SyncPolicy{}, earlier(t, 4))
	p.b.holds("before it is compared", 1, 2, 3, 4)
	p.remove(2) // it has not heard of the synchronisation yet
	p.ring()
	p.b.holds("the stream goes on", 1, 3, 4)
	p.offers()
	p.take(steps(p.a))
	p.b.holds("compared", 1, 3, 4, 5, 6)
	if pr := p.a.rep.run.progress; pr.Sent != 2 {
		t.Fatalf("progress %+v", pr)
	}
}

// What a master dropped by a batch may be held by the next one, which never heard of the removal: it is offered anew.
func TestNextMasterComparesAnew(t *testing.T) {
	p := newPair(t, 4, SyncPolicy{}, earlier(t, 4))
	p.offers()
	p.remove(2)
	p.take(steps(p.a)) // 2 is dropped, the Remove itself is lost with a
	p.b.holds("after the batch", 1, 3, 4)
	a := p.record(SyncPolicy{})
	a.View = gm.View{Version: 10, Members: []gm.Member{mC, p.self}}
	a.Master, a.Epoch = mC, 2
	p.b.must(p.b.rep.Assign(a))
	p.b.closed(mA)
	p.b.hear(mC, encodeNewMaster(2, 5, 0, shortfall{}))
	p.b.hear(mC, encodeSyncStart(1, []gm.Member{p.self}))
	sent := steps(p.b)
	if len(sent) != 1 || sent[0].to != mC {
		t.Fatalf("offers %+v", sent)
	}
	p.b.must(decodeSync(sent[0].payload, func(m *syncMessage) (bool, error) {
		if m.from != 0 || !slices.Equal(m.held.ToArray(), []uint64{1, 3, 4}) {
			t.Fatalf("offers %v from %d on", m.held.ToArray(), m.from)
		}
		return false, nil
	}, nil))
}

// A returner that is promoted before it was compared sets aside what may have been removed in its absence, and keeps what it
// heard itself; one that was compared keeps all.
func TestReturnerPromoted(t *testing.T) {
	for _, compared := range []bool{false, true} {
		p := newPair(t, 4, SyncPolicy{}, earlier(t, 3))
		p.remove(1)
		p.heard = len(p.a.sent) // lost: b must not learn of it from the stream
		if compared {
			p.offers()
			p.take(steps(p.a))
		}
		p.b.hear(mA, pubOp(5, 5, "m5"))
		a := p.record(SyncPolicy{})
		younger := member3("c", 1, 10) // it may hold what b lacks, so it begins anew too
		p.b.rep.joiners[younger] = joiner{baseline: 5}
		a.View, a.Master, a.Epoch, a.LastLossEpoch = gm.View{Version: 10, Members: []gm.Member{p.self, younger}}, p.self, 2, 2
		p.b.must(p.b.rep.Assign(a))
		p.b.closed(mA)
		p.b.must(p.b.rep.GrantsClear(10))
		p.b.role(Master)
		if o := p.b.lastOf(opPosition); !slices.Equal(o.members, []gm.Member{younger}) || o.floor.epoch != 2 {
			t.Fatalf("position %+v", o)
		}
		if compared {
			p.b.holds("compared", 2, 3, 4, 5)
			continue
		}
		p.b.holds("not compared", 5)
		if !slices.Equal(p.b.aside, []uint64{1, 2, 3}) {
			t.Fatalf("set aside %v", p.b.aside)
		}
	}
}

// Manual mode leaves a mirror that has nothing to offer alone until somebody asks; cancelling keeps what was copied, and it is
// not sent again.
func TestManualAndCancel(t *testing.T) {
	p := newPair(t, 6, SyncPolicy{Batch: 2, Blocking: true}, nil)
	p.offers()
	if sent := steps(p.a); len(sent) != 0 || p.a.rep.Blocked() {
		t.Fatalf("copies without being asked: %d messages", len(sent))
	}
	if n, err := p.a.rep.SyncQueue(); n != 1 || err != nil || p.a.rep.Requested() != 1 {
		t.Fatalf("%d mirrors, %v", n, err)
	}
	p.ring()
	p.offers()
	if !p.a.rep.Blocked() {
		t.Fatal("a blocking synchronisation lets the queue go on")
	}
	batches := steps(p.a)
	p.take(batches[:1])
	if was, err := p.a.rep.CancelSync(); !was || err != nil || p.a.rep.Blocked() || p.a.rep.Requested() != 0 {
		t.Fatalf("cancel: %v, %v", was, err)
	}
	p.ring()
	p.take(batches[1:]) // too late
	p.b.holds("cancelled", 1, 2)
	if was, _ := p.a.rep.CancelSync(); was || len(steps(p.a)) != 0 {
		t.Fatal("goes on after it was cancelled")
	}
	if _, err := p.a.rep.SyncQueue(); err != nil {
		t.Fatal(err)
	}
	p.ring()
	p.offers()
	for batches := steps(p.a); len(batches) > 0; batches = steps(p.a) {
		p.take(batches)
		if p.a.rep.run != nil && p.a.rep.run.progress.Sent > 4 {
			t.Fatalf("sends again what was copied: %+v", p.a.rep.run.progress)
		}
	}
	p.ring()
	p.b.holds("copied", 1, 2, 3, 4, 5, 6)
	if !p.b.rep.Synchronised() {
		t.Fatal("not synchronised")
	}
}

// What was cancelled stays so in automatic mode too, until the policy changes or somebody asks.
func TestCancelledStaysSo(t *testing.T) {
	p := newPair(t, 6, SyncPolicy{Automatic: true, Batch: 2}, nil)
	p.offers()
	p.take(steps(p.a)[:1])
	if was, err := p.a.rep.CancelSync(); !was || err != nil {
		t.Fatalf("cancel: %v, %v", was, err)
	}
	p.a.must(p.a.rep.SyncTick())
	p.a.flush()
	if p.a.rep.run != nil {
		t.Fatal("begins again by itself")
	}
	p.a.must(p.a.rep.Assign(p.record(SyncPolicy{Automatic: true, Batch: 3})))
	if p.a.rep.run == nil {
		t.Fatal("a change of the policy does not begin it again")
	}
}

// A mirror that does not answer is left out and tried again; the link's end is enough of a reason.
func TestSilentMirror(t *testing.T) {
	p := newPair(t, 2, SyncPolicy{Automatic: true}, nil)
	p.a.must(p.a.rep.LinkDown(p.self.Node, p.self.Incarnation))
	steps(p.a)
	if p.a.rep.run != nil {
		t.Fatal("waits for a mirror that cannot be reached")
	}
	for range pausedFor {
		p.a.must(p.a.rep.SyncTick())
	}
	if p.a.rep.run == nil {
		t.Fatal("is not tried again")
	}
	for range stalledAfter + 1 {
		p.a.must(p.a.rep.SyncTick())
	}
	steps(p.a)
	if p.a.rep.run != nil {
		t.Fatal("waits for ever")
	}
}

// A node that flaps while it opens a long queue: each time it comes as another member, what it and the master sent before comes late
// and counts for nothing, what had arrived is kept, and in the end it has exactly the master's messages.
func TestFlappingMirror(t *testing.T) {
	const n = 40
	p := newPair(t, n, SyncPolicy{Automatic: true, Batch: 5}, nil)
	late := func(m gm.Member, from *rig, payloads []sentSync) {
		t.Helper()
		for _, s := range payloads {
			from.must(from.rep.SyncMessage(m.Node, m.Incarnation, s.payload))
		}
	}
	for flap := range uint64(3) {
		offers := steps(p.b)
		late(p.self, p.a, offers)
		batches := steps(p.a)
		if len(batches) < 2 {
			t.Fatalf("flap %d: %d batches", flap, len(batches))
		}
		p.take(batches[:1]) // the others come when it is another member
		p.remove(3*flap + 1)
		acks := p.b.synced
		old, away := p.self, p.record(SyncPolicy{Automatic: true, Batch: 5})
		away.View = gm.View{Version: 20 + 2*flap, Members: []gm.Member{mA}}
		away.Synchronised = []bool{true}
		p.a.must(p.a.rep.Assign(away))
		p.a.must(p.a.rep.LinkDown(old.Node, old.Incarnation))
		p.b.sync()
		p.b.must(p.b.rep.Close())
		p.self = member3("b", old.Incarnation+1, old.JoinIndex+10)
		b := newRig(t, p.self, p.b.store)
		p.b, p.heard = b, len(p.a.sent)
		back := p.record(SyncPolicy{Automatic: true, Batch: 5})
		back.View.Version = 21 + 2*flap
		p.a.must(p.a.rep.Assign(back))
		p.b.must(p.b.rep.Assign(back))
		p.b.must(p.b.rep.Output(gm.Output{Kind: gm.Joined, Baselines: []gm.Baseline{{Sender: mA}, {Sender: p.self}}}))
		p.ring()
		late(old, p.a, offers)
		late(old, p.a, acks)
		late(mA, p.b, batches[1:])
	}
	for range 20 {
		p.offers()
		p.take(steps(p.a))
		p.b.sync()
		p.take(nil)
		p.ring()
	}
	p.b.sync()
	if !p.b.rep.Synchronised() {
		t.Fatal("it is not synchronised")
	}
	p.b.holds("in the end", p.a.seqs()...)
	if held := p.a.rep.q.Stats().Messages; held != n-3 {
		t.Fatalf("the master holds %d", held)
	}
}

// A batch size of 1 means the default, as with RabbitMQ; others count.
func TestBatchOfOne(t *testing.T) {
	for batch, want := range map[int]int{0: 1, 1: 1, 4: 3} {
		p := newPair(t, 12, SyncPolicy{Automatic: true, Batch: batch}, nil)
		p.offers()
		if got := len(steps(p.a)); got != want {
			t.Errorf("12 messages go in %d batches with a batch size of %d, want %d", got, batch, want)
		}
	}
}
