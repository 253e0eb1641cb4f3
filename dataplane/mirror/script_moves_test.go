package mirror

import (
	"errors"
	"slices"
	"testing"

	"warren/dataplane/backingqueue"
	"warren/dataplane/gm"
	"warren/dataplane/queue"
)

// A master promoted without being synchronised nacks a repeat at or below its table's number unless it holds the message; so
// does a mirror that it synchronised and that is promoted after it.
func TestLossyPromotion(t *testing.T) {
	g := newRig(t, mB, nil)
	g.assign(2, 1, mA, 1, mA, mB)
	g.must(g.rep.Output(gm.Output{Kind: gm.Joined}))
	g.hear(mA, encodeOrigins(true, []originLine{{origin: backingqueue.Origin{Ref: 1, ID: chX, Number: 2}}}))
	g.hear(mA, encodePosition(&op{epoch: 1, seq: 3, oldest: 1, count: 2, ref: 2, members: []gm.Member{mB}, epochs: []epochStart{{1, 1}}}))
	g.hear(mA, pubOp(3, 3, "m3"))
	a := Assignment{Mirrored: true, Status: Running, View: gm.View{Version: 5, Members: []gm.Member{mB, mC}}, Synchronised: []bool{true, false}, Master: mB, Epoch: 2, LastLossEpoch: 2}
	g.must(g.rep.Assign(a))
	g.closed(mA)
	g.must(g.rep.GrantsClear(5))
	g.role(Master)
	if tm := g.terms[0]; !tm.Lossy || tm.Lost != 2 {
		t.Fatalf("term %+v", tm)
	}
	if n, more := g.rep.Losses(); n != 2 || more {
		t.Fatalf("losses %d, %v", n, more)
	}
	if f := g.rep.meta.floor; f != (floor{2, 3, true}) {
		t.Fatalf("floor %+v", f)
	}
	g.attach(1)
	g.publish(1, queue.TakenLost)
	g.publish(2, queue.TakenLost)
	if seq := g.publish(3, queue.TakenRepeat); seq != 3 {
		t.Fatalf("at %d", seq)
	}
	g.publish(4, queue.TakenNew)

	h := newRig(t, mC, nil)
	a.Synchronised[1] = false
	h.must(h.rep.Assign(a))
	h.must(h.rep.Output(gm.Output{Kind: gm.Joined, Baselines: []gm.Baseline{{Sender: mA}, {Sender: mB}, {Sender: mC}}}))
	h.closed(mA)
	for _, m := range g.sent {
		h.hear(mB, m.payload)
	}
	h.assign(6, 3, mC, 1, mC)
	h.closed(mB)
	h.role(Master)
	h.attach(1)
	h.publish(1, queue.TakenLost)
	h.publish(4, queue.TakenRepeat)
	h.attach(5)
	if len(h.rep.meta.losses) != 0 {
		t.Fatal("a loss is remembered that no repeat can ask for")
	}
	if n, more := h.rep.Losses(); n != 2 || more {
		t.Fatalf("its mirror counts %d, %v", n, more)
	}
}

// What a copy lacks is known after its store was opened again; where part of the disk is lost, or the stream's beginning was never
// heard, nobody knows what a promotion costs, and it says so.
func TestLossIsKnownOrNot(t *testing.T) {
	for name, c := range map[string]struct {
		position, damaged bool
		lost              int
		messages          uint64
	}{
		"opened again":         {position: true, lost: 3, messages: 3},
		"damaged":              {position: true, damaged: true, lost: -1, messages: 3},
		"nothing heard at all": {lost: -1},
	} {
		g := newRig(t, mB, nil)
		g.assign(2, 1, mA, 1, mA, mB)
		g.must(g.rep.Output(gm.Output{Kind: gm.Joined}))
		if c.position {
			g.hear(mA, encodeOrigins(true, nil))
			g.hear(mA, encodePosition(&op{epoch: 1, seq: 4, oldest: 1, count: 3, ref: 2, members: []gm.Member{mB}, epochs: []epochStart{{1, 1}}}))
		}
		g.must(g.rep.Close())
		g.open(mB, c.damaged)
		g.must(g.rep.Assign(Assignment{
			Mirrored: true, Status: Running, View: gm.View{Version: 5, Members: []gm.Member{mB}}, Synchronised: []bool{true}, Master: mB, Epoch: 2, LastLossEpoch: 2,
		}))
		g.must(g.rep.GrantsClear(5))
		g.role(Master)
		if tm := g.terms[0]; !tm.Lossy || tm.Lost != c.lost {
			t.Errorf("%s: term %+v", name, tm)
		}
		if n, more := g.rep.Losses(); n != c.messages || more != (c.lost < 0) {
			t.Errorf("%s: losses %d, %v", name, n, more)
		}
	}
}

// A planned move: MasterEnds, stable, TransferMaster; the new master acts only once it has delivered MasterEnds.
func TestTransfer(t *testing.T) {
	g := newRig(t, mA, nil)
	g.assign(2, 1, mA, 2, mA, mB)
	g.attach(1)
	g.publish(1, queue.TakenNew)
	if err := g.rep.HandOver(mC); !errors.Is(err, ErrNoTarget) {
		t.Fatalf("hand over to a stranger: %v", err)
	}
	g.must(g.rep.HandOver(mB))
	g.role(Ending)
	if _, _, err := g.rep.Backing().Publish(chX, backingqueue.Entry{Number: 2}); !errors.Is(err, ErrNotActing) {
		t.Fatalf("publish while ending: %v", err)
	}
	g.progress(g.number-1, 0)
	if len(g.proposed) != 0 {
		t.Fatal("TransferMaster before MasterEnds is stable")
	}
	g.progress(g.number, g.number)
	if !slices.Equal(g.proposed, []Command{TransferMaster{1, mB}}) {
		t.Fatalf("proposed %+v", g.proposed)
	}
	g.wants("from the proposal on nothing is confirmed")

	h := newRig(t, mB, nil)
	h.mirror(0)
	h.assign(2, 2, mB, 2, mA, mB)
	h.role(Promoting)
	h.hear(mA, encodeMasterEnds(1))
	h.role(Master)
	if !slices.Equal(h.awaited, []awaited{{mA, h.from[mA]}}) {
		t.Fatalf("the old master must not wait for this disk: awaited %+v", h.awaited)
	}

	g.assign(2, 2, mB, 2, mA, mB) // the transfer has committed
	g.role(Slave)
	if !slices.Equal(g.resigned, []Resignation{Suspended, Deposed}) {
		t.Fatalf("resigned %v", g.resigned)
	}
	g.hear(mB, encodeNewMaster(2, 2, 0, shortfall{}))
	g.hear(mB, pubOp(2, 2, "m2"))
	if st := g.rep.Store().Stats(); st.Messages != 2 {
		t.Fatalf("the old master does not follow: %+v", st)
	}
}

// A transfer whose proposal times out: KeepMaster commits first, and the old master resumes with a NewMaster of its own.
func TestKeepMaster(t *testing.T) {
	g := newRig(t, mA, nil)
	g.assign(2, 1, mA, 2, mA, mB)
	g.attach(1)
	g.publish(1, queue.TakenNew)
	g.must(g.rep.HandOver(mB))
	g.progress(g.number, 0)
	g.rep.HandOverTimeout()
	if !slices.Equal(g.proposed, []Command{TransferMaster{1, mB}, KeepMaster{2, mA}}) {
		t.Fatalf("proposed %+v", g.proposed)
	}
	g.role(Ending)
	a := Assignment{Mirrored: true, Status: Running, View: gm.View{Version: 2, Members: []gm.Member{mA, mB}}, Synchronised: []bool{true, true}, Master: mA, Epoch: 2}
	g.must(g.rep.Assign(a))
	g.role(Master)
	if o := g.lastOf(opNewMaster); o.epoch != 2 || o.seq != 2 {
		t.Fatalf("NewMaster %+v", o)
	}
	g.attach(1)
	g.publish(1, queue.TakenRepeat)
	g.progress(g.number, g.number)
	g.wants("after resuming", "confirm 1")
}

// The policy makes a living queue mirrored, and back: nothing pending is lost, and the local disk decides while there is no ring.
func TestUnmirroredAndBack(t *testing.T) {
	g := newRig(t, mA, nil)
	a := Assignment{Status: Running, View: gm.View{Version: 1, Members: []gm.Member{mA}}, Synchronised: []bool{true}, Master: mA, Epoch: 1}
	g.must(g.rep.Assign(a))
	g.role(Master)
	g.attach(1)
	g.publish(1, queue.TakenNew)
	g.flush()
	g.wants("not durable")
	if len(g.store.SyncPending()) != 1 {
		t.Fatal("no sync was asked for")
	}
	g.leases = false // nobody can take the place of an unmirrored queue
	g.sync()
	g.wants("durable", "confirm 1")
	g.leases = true
	g.publish(2, queue.TakenNew)
	a.Mirrored = true
	g.must(g.rep.Assign(a))
	if !g.ring {
		t.Fatal("no ring")
	}
	op, err := g.rep.Backing().Remove([]backingqueue.Range{{First: 1, Last: 1}}, queue.ReasonAcked)
	g.must(err)
	g.publish(3, queue.TakenNew)
	g.sync()
	g.wants("the ring has not spoken", "confirm 2")
	g.publish(4, queue.TakenNew)
	a.Mirrored = false
	g.must(g.rep.Assign(a))
	if g.ring || op != 1 {
		t.Fatal("still in the ring")
	}
	g.flush()
	g.wants("the disk decides again", "confirm 3", "stable 1")
	g.sync()
	g.wants("durable again", "confirm 4")
}

// What the ring does not take waits in order; publishes are answered TakenFull until it is gone.
func TestOutbox(t *testing.T) {
	g := newRig(t, mA, nil)
	g.assign(2, 1, mA, 2, mA, mB)
	g.attach(1)
	g.publish(1, queue.TakenNew)
	g.sync()
	g.full = true
	g.publish(2, queue.TakenFull)
	op, err := g.rep.Backing().Remove([]backingqueue.Range{{First: 1, Last: 1}}, queue.ReasonAcked)
	g.must(err)
	sent := g.number
	g.progress(sent, sent)
	g.wants("the removal is not sent", "confirm 1")
	g.full = false
	g.publish(2, queue.TakenFull) // it must not overtake
	g.must(g.rep.Output(gm.Output{Kind: gm.WindowOpen}))
	g.wants("sent", "open")
	g.progress(g.number-1, g.number-1)
	g.wants("the removal is not stable")
	g.progress(g.number, g.number)
	g.wants("stable", "stable 1")
	if op != 1 || g.lastOf(opRemove).count != 1 {
		t.Fatal("removal")
	}
	g.publish(2, queue.TakenNew)
}

// A copy that lost what it vouched for says so, and does not act when it is named master.
func TestDamagedDoesNotAct(t *testing.T) {
	g := newRig(t, mB, nil)
	g.mirror(3)
	g.sync()
	g.must(g.rep.Close())
	g.must(g.store.Damage(simQueue, 2))
	b2 := member3("b", 2, 9)
	h := newRig(t, b2, g.store)
	h.assign(9, 2, b2, 1, b2)
	h.role(Promoting)
	if len(h.proposed) != 1 || h.proposed[0].(MirrorUnsynchronised).Member != b2 {
		t.Fatalf("proposed %+v", h.proposed)
	}
	a := Assignment{Mirrored: true, Status: Running, View: gm.View{Version: 10, Members: []gm.Member{b2}}, Synchronised: []bool{true}, Master: b2, Epoch: 3, LastLossEpoch: 3}
	h.must(h.rep.Assign(a))
	h.must(h.rep.GrantsClear(10))
	h.role(Master)
	if !h.terms[0].Lossy {
		t.Fatal("the loss is not counted")
	}
}

// A mirror whose stream jumped stops vouching and asks for a new position.
func TestBaselineRaised(t *testing.T) {
	g := newRig(t, mB, nil)
	g.mirror(2)
	g.must(g.rep.Output(gm.Output{Kind: gm.BaselineRaised, Sender: mA, From: 5, Number: 9}))
	g.lastOf(opNeedPosition)
	if len(g.proposed) != 1 || g.rep.Synchronised() {
		t.Fatalf("proposed %+v", g.proposed)
	}
	position := encodePosition(&op{epoch: 1, seq: 8, members: []gm.Member{mB}, epochs: []epochStart{{1, 1}}})
	g.hear(mA, encodeOrigins(true, nil))
	g.must(g.rep.Output(gm.Output{Kind: gm.BaselineRaised, Sender: mA, From: 10, Number: 11}))
	sent := len(g.sent)
	g.hear(mA, position)
	if len(g.sent) != sent+1 || g.rep.Synchronised() {
		t.Fatal("took a position whose table of origins may have been jumped over")
	}
	g.hear(mA, encodeOrigins(true, nil))
	g.hear(mA, position)
	if st := g.rep.Store().Stats(); st.Messages != 0 || !g.rep.Synchronised() {
		t.Fatalf("after the new position: %+v", st)
	}
}

// Origins of a node that went down are closed, by the master that sees it and by one that is promoted after.
func TestNodeDownClosesOrigins(t *testing.T) {
	g := newRig(t, mB, nil)
	g.mirror(1)
	g.hear(mA, encodeOriginOpened(2, 4, backingqueue.OriginID{Connection: 9, Channel: 3})) // the source of a dead letter
	g.down["x"], g.down[""] = true, true
	g.assign(5, 2, mB, 1, mB)
	g.closed(mA)
	g.lastOf(opOriginClosed)
	if n := len(g.rep.Store().Origins()); n != 1 {
		t.Fatalf("%d origins are left", n)
	}
	g.attach(1) // another life of the same name
	g.must(g.rep.NodeDown("x", 1))
	if n := len(g.rep.Store().Origins()); n != 1 {
		t.Fatalf("%d origins are left", n)
	}
	if os := g.rep.Backing().(queue.OriginTable).Origins(); len(os) != 1 || os[0].Ref != 2 || os[0].Number != 4 {
		t.Fatalf("table %+v", os)
	}
	g.publishUnknown()
	g.must(g.rep.Output(gm.Output{Kind: gm.Expelled}))
	g.role(Expelled)
	if !slices.Equal(g.resigned, []Resignation{Stopped}) || g.ring {
		t.Fatalf("resigned %v, in the ring %v", g.resigned, g.ring)
	}
}

func (g *rig) publishUnknown() {
	g.t.Helper()
	if _, _, err := g.rep.Backing().Publish(chX, backingqueue.Entry{Number: 1}); !errors.Is(err, ErrUnknownOrigin) {
		g.t.Fatalf("publish of an unknown origin: %v", err)
	}
}

// If all the elders of a view died, the queue is what the joiner has. What it held before it joined is not part of the queue
// once it has delivered anything of the new stream; if it has not, or saw no loss in between, it goes on from it.
func TestEldersDied(t *testing.T) {
	for name, c := range map[string]struct {
		joined    bool
		priorLoss uint64
		held      int
	}{"joined": {true, 0, 0}, "never joined": {false, 0, 3}, "a loss in its absence": {false, 2, 0}} {
		g := newRig(t, mB, nil)
		g.mirror(3)
		g.sync()
		g.must(g.rep.Close())

		b2 := member3("b", 2, 9)
		h := newRig(t, b2, g.store)
		a := Assignment{Mirrored: true, Status: Running, View: gm.View{Version: 9, Members: []gm.Member{mC, b2}}, Synchronised: []bool{true}, Master: mC, Epoch: 3, LastLossEpoch: c.priorLoss}
		h.must(h.rep.Assign(a))
		if c.joined {
			h.must(h.rep.Output(gm.Output{Kind: gm.Joined, Baselines: []gm.Baseline{{Sender: mC}, {Sender: b2}}}))
		}
		a.View, a.Master, a.Epoch, a.LastLossEpoch = gm.View{Version: 10, Members: []gm.Member{b2}}, b2, 4, 4
		h.must(h.rep.Assign(a))
		if !c.joined {
			h.must(h.rep.Output(gm.Output{Kind: gm.Joined, Baselines: []gm.Baseline{{Sender: mC}, {Sender: b2}}}))
		}
		h.closed(mC)
		h.must(h.rep.GrantsClear(10))
		h.role(Master)
		if n := h.rep.Store().Stats().Messages; n != c.held {
			t.Fatalf("%s: goes on with %d messages, want %d", name, n, c.held)
		}
		if aside := h.reports[0].Kind == SetAside; aside != (c.held == 0) {
			t.Fatalf("%s: reports %+v", name, h.reports)
		}
		if o := h.lastOf(opNewMaster); o.seq != 4 || o.flags != flagLossy {
			t.Fatalf("%s: NewMaster %+v", name, o)
		}
	}
}
