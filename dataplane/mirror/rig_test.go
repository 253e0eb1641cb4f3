package mirror

import (
	"fmt"
	"iter"
	"slices"
	"testing"

	"warren/dataplane/backingqueue"
	"warren/dataplane/gm"
	"warren/dataplane/message"
	"warren/dataplane/queue"
)

// rig is one Replica between a ring, an Env and a store that the test plays.
type rig struct {
	t     *testing.T
	rep   *Replica
	store *backingqueue.Memory

	ring      bool
	full      bool
	sent      []sentMessage
	number    uint64
	persisted map[gm.Member]uint64
	leases    bool
	down      map[string]bool
	proposed  []Command
	reports   []Event
	terms     []Term
	resigned  []Resignation
	events    []string
	from      map[gm.Member]uint64 // last number delivered of a sender
	aside     []uint64
	cut       bool
	lazy      []uint64
	synced    []sentSync
	awaited   []awaited
}

type awaited struct {
	sender gm.Member
	number uint64
}

type sentSync struct {
	to      gm.Member
	payload []byte
}

type sentMessage struct {
	class   gm.Class
	payload []byte
	ops     []op
}

func member3(node string, inc, join uint64) gm.Member {
	return gm.Member{Node: node, Incarnation: inc, JoinIndex: join}
}

var (
	mA  = member3("a", 1, 1)
	mB  = member3("b", 1, 2)
	mC  = member3("c", 1, 3)
	chX = backingqueue.OriginID{Node: "x", Incarnation: 1, Connection: 1, Channel: 1}
)

// newRig opens the copy of node self over store; nil makes an empty one.
func newRig(t *testing.T, self gm.Member, store *backingqueue.Memory) *rig {
	t.Helper()
	if store == nil {
		store = backingqueue.NewMemory()
	}
	g := &rig{t: t, store: store, persisted: map[gm.Member]uint64{}, leases: true, down: map[string]bool{}, from: map[gm.Member]uint64{}}
	g.open(self, false)
	return g
}

func (g *rig) open(self gm.Member, damaged bool) {
	g.t.Helper()
	q, rec, err := g.store.Open(simQueue, backingqueue.Options{Durable: true})
	g.must(err)
	rec.Damaged = rec.Damaged || damaged
	g.rep, err = New(Config{
		Queue: simQueue, Name: "q", VHost: "/", Node: self.Node, Incarnation: self.Incarnation, Durable: true, Store: q, Recovery: rec, Env: g,
	})
	g.must(err)
}

func (g *rig) must(err error) {
	g.t.Helper()
	if err != nil {
		g.t.Fatal(err)
	}
}

func (g *rig) JoinRing(gm.Member) (Ring, error) {
	g.ring, g.number = true, 0
	return g, nil
}
func (g *rig) Install(gm.View) error                    { return nil }
func (g *rig) Lazy(n uint64)                            { g.lazy = append(g.lazy, n) }
func (g *rig) Awaited(m gm.Member, n uint64)            { g.awaited = append(g.awaited, awaited{m, n}) }
func (g *rig) Leave()                                   { g.ring = false }
func (g *rig) Persisted(m gm.Member, n uint64)          { g.persisted[m] = n }
func (g *rig) Propose(c Command)                        { g.proposed = append(g.proposed, c) }
func (g *rig) LeasesHeld() bool                         { return g.leases }
func (g *rig) IncarnationUp(node string, _ uint64) bool { return !g.down[node] }
func (g *rig) Report(e Event)                           { g.reports = append(g.reports, e) }
func (g *rig) Resigned(w Resignation)                   { g.resigned = append(g.resigned, w) }

func (g *rig) Broadcast(c gm.Class, p []byte) (uint64, error) {
	if g.full {
		return 0, fmt.Errorf("rig: %w", gm.ErrWindowFull)
	}
	m := sentMessage{class: c, payload: p}
	g.must(decodeOps(p, &op{}, func(o *op) error {
		m.ops = append(m.ops, *o)
		return nil
	}))
	g.sent = append(g.sent, m)
	g.number++
	return g.number, nil
}

func (g *rig) SetAside(string) (backingqueue.Queue, error) {
	g.must(g.rep.q.Close())
	_, err := g.store.SetAside(simQueue)
	g.must(err)
	q, _, err := g.store.Open(simQueue, backingqueue.Options{Durable: true})
	return q, err
}

func (g *rig) SetAsidePart(_ string, entries iter.Seq2[backingqueue.Entry, error]) error {
	for e, err := range entries {
		g.must(err)
		g.aside = append(g.aside, e.Seq)
	}
	return nil
}

func (g *rig) SendSync(to gm.Member, head, rest []byte) bool {
	if g.cut {
		return false
	}
	g.synced = append(g.synced, sentSync{to, slices.Concat(head, rest)})
	return true
}

func (g *rig) Acting(t Term) queue.Events {
	g.terms = append(g.terms, t)
	return g
}

func (g *rig) Confirmable(_ backingqueue.OriginID, n uint64) {
	g.events = append(g.events, fmt.Sprintf("confirm %d", n))
}
func (g *rig) OpStable(o queue.Op) { g.events = append(g.events, fmt.Sprintf("stable %d", o)) }
func (g *rig) WindowOpen()         { g.events = append(g.events, "open") }

// assign gives the record: a view of ms, of which the first synced are synchronised.
func (g *rig) assign(version, epoch uint64, master gm.Member, synced int, ms ...gm.Member) Assignment {
	g.t.Helper()
	a := Assignment{Mirrored: true, Status: Running, View: gm.View{Version: version, Members: ms}, Master: master, Epoch: epoch}
	for i := range ms {
		a.Synchronised = append(a.Synchronised, i < synced)
	}
	g.must(g.rep.Assign(a))
	g.must(g.rep.GrantsClear(version))
	return a
}

// hear delivers a ring message of m.
func (g *rig) hear(m gm.Member, payload []byte) {
	g.t.Helper()
	g.from[m]++
	g.must(g.rep.Output(gm.Output{Kind: gm.Deliver, Sender: m, Number: g.from[m], Payload: payload}))
}

func (g *rig) closed(m gm.Member) {
	g.t.Helper()
	g.must(g.rep.Output(gm.Output{Kind: gm.SenderClosed, Sender: m, Number: g.from[m]}))
}

func (g *rig) progress(received, persisted uint64) {
	g.t.Helper()
	g.must(g.rep.Output(gm.Output{Kind: gm.Progress, Received: received, Persisted: persisted}))
	g.must(g.rep.Flush())
}

func (g *rig) flush() {
	g.t.Helper()
	g.must(g.rep.Flush())
}

// sync makes everything durable.
func (g *rig) sync() {
	g.t.Helper()
	g.store.Flush()
	g.rep.DurableMoved()
	g.must(g.rep.Flush())
}

// wants compares the events so far and forgets them.
func (g *rig) wants(what string, events ...string) {
	g.t.Helper()
	if !slices.Equal(g.events, events) {
		g.t.Fatalf("%s: events %q, want %q", what, g.events, events)
	}
	g.events = nil
}

func (g *rig) role(want Role) {
	g.t.Helper()
	if got := g.rep.Role(); got != want {
		g.t.Fatalf("role %v, want %v", got, want)
	}
}

func msgOf(text string) message.Message {
	return message.Message{Body: []byte(text), Persistent: true}
}

func pubOp(seq, number uint64, text string) []byte {
	return encodePublish(&backingqueue.Entry{Seq: seq, Ref: 1, Number: number, Message: msgOf(text)})
}

// publish sends number of chX and wants the answer.
func (g *rig) publish(number uint64, want queue.Taken) uint64 {
	g.t.Helper()
	taken, seq, err := g.rep.Backing().Publish(chX, backingqueue.Entry{Number: number, Message: msgOf(fmt.Sprint("m", number))})
	g.must(err)
	if taken != want {
		g.t.Fatalf("publish %d: taken %d, want %d", number, taken, want)
	}
	return seq
}

func (g *rig) attach(lowest uint64) {
	g.t.Helper()
	g.must(g.rep.Backing().AttachOrigin(chX, lowest))
}

// lastOf is the newest operation of that code on the ring.
func (g *rig) lastOf(code opCode) *op {
	g.t.Helper()
	for i := len(g.sent) - 1; i >= 0; i-- {
		for j := range g.sent[i].ops {
			if g.sent[i].ops[j].code == code {
				return &g.sent[i].ops[j]
			}
		}
	}
	g.t.Fatalf("no operation %d on the ring", code)
	return nil
}

// mirror makes g a synchronised mirror of mA in epoch 1 that holds n messages of chX at positions 1 to n.
func (g *rig) mirror(n uint64) {
	g.t.Helper()
	g.assign(2, 1, mA, 1, mA, mB)
	g.must(g.rep.Output(gm.Output{Kind: gm.Joined, Baselines: []gm.Baseline{{Sender: mA}, {Sender: mB}}}))
	g.hear(mA, encodeOrigins(true, nil))
	g.hear(mA, encodePosition(&op{epoch: 1, seq: 1, members: []gm.Member{mB}, epochs: []epochStart{{1, 1}}}))
	g.assign(2, 1, mA, 2, mA, mB)
	g.hear(mA, encodeOriginOpened(1, 0, chX))
	for i := uint64(1); i <= n; i++ {
		g.hear(mA, pubOp(i, i, fmt.Sprint("m", i)))
	}
}
