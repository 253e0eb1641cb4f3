package queue_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"warren/dataplane/backingqueue"
	"warren/dataplane/message"
	"warren/dataplane/origin"
	"warren/dataplane/queue"
	"warren/dataplane/queue/protocol"
)

// rig drives one queue process and the attachments of nodes a, b, c by hand: run carries messages until nothing moves.
type rig struct {
	t       *testing.T
	opt     queue.Options
	proc    *queue.Process
	b       *fake
	epoch   uint64
	master  string
	atts    map[string]*origin.Attachment
	cut     map[string]bool // no link to the master: messages wait
	wires   map[string][]protocol.Message
	seen    []string // what channels and the owner were told
	ids     map[string]uint64
	call    *origin.Reply
	letters []queue.Letter
	now     int64
}

func nid(name string) protocol.NodeID { return protocol.NodeID{Name: name, Incarnation: 1} }

func ch(n uint64) origin.Channel { return origin.Channel{Connection: 1, Channel: n} }

// held is a lease that lasts.
func held() bool { return true }

func newRig(t *testing.T, opt queue.Options) *rig {
	r := &rig{
		t: t, opt: opt, proc: queue.New(opt), epoch: 1, master: "a", atts: map[string]*origin.Attachment{},
		cut: map[string]bool{}, wires: map[string][]protocol.Message{}, ids: map[string]uint64{}, b: newFake(1, 100),
	}
	for _, n := range []string{"a", "b", "c"} {
		r.atts[n] = origin.New(origin.Config{Self: nid(n), Limits: origin.Limits{Publishes: 8, Bytes: 1 << 20}})
		for _, m := range []string{"a", "b", "c"} {
			r.atts[n].LinkUp(nid(m))
		}
	}
	r.begin(true)
	return r
}

func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// begin starts r.epoch on r.master.
func (r *rig) begin(fresh bool) {
	r.t.Helper()
	r.b.ev = r.proc
	r.must(r.proc.SetNodes(r.ups()))
	r.must(r.proc.Promote(r.b, r.epoch, fresh))
	for _, n := range r.names() {
		r.wires[n] = nil
		r.atts[n].SetMaster(nid(r.master), r.epoch)
	}
	r.run()
}

// failover makes to the master of the next epoch, with the first n operations of the old one; the old master's node dies
// if die.
func (r *rig) failover(to string, n int, die bool) {
	r.t.Helper()
	if die {
		delete(r.atts, r.master)
	}
	r.epoch++
	r.b = r.b.promote(r.epoch, n)
	r.master = to
	r.begin(false)
}

func (r *rig) names() []string {
	var ns []string
	for n := range r.atts {
		ns = append(ns, n)
	}
	slices.Sort(ns)
	return ns
}

func (r *rig) ups() []protocol.NodeID {
	var ids []protocol.NodeID
	for _, n := range r.names() {
		ids = append(ids, nid(n))
	}
	return ids
}

func (r *rig) die(n string) {
	r.t.Helper()
	delete(r.atts, n)
	r.must(r.proc.SetNodes(r.ups()))
	r.run()
}

// run carries messages until nothing moves.
func (r *rig) run() {
	r.t.Helper()
	for moved := true; moved; {
		moved = false
		for _, n := range r.names() {
			for _, o := range r.atts[n].Outputs() {
				if o.Kind != origin.Send {
					r.note(n, o)
				} else if o.To == nid(r.master) {
					r.wires[n] = append(r.wires[n], o.Message)
				}
			}
			for len(r.wires[n]) > 0 && !r.cut[n] {
				m := r.wires[n][0]
				r.wires[n] = r.wires[n][1:]
				r.must(r.proc.Handle(nid(n), m))
				moved = true
			}
		}
		r.proc.SetTime(r.now)
		outs, more, err := r.proc.Flush(true, held)
		r.must(err)
		for _, o := range outs {
			switch o.Kind {
			case queue.FirstConsumer:
				r.seen = append(r.seen, "first consumer")
			case queue.LastConsumerGone:
				r.seen = append(r.seen, "unused")
			case queue.Unused:
				r.seen = append(r.seen, "expires")
			case queue.DeadLetter:
				r.letters = append(r.letters, o.Letter)
				r.seen = append(r.seen, fmt.Sprintf("letter %s %d", o.Letter.Message.Body, o.Letter.Reason))
			case queue.LettersBuried:
				r.seen = append(r.seen, fmt.Sprintf("buried %d", len(o.Positions)))
			case queue.ToNode:
				if a := r.atts[o.Node.Name]; a != nil && !r.cut[o.Node.Name] {
					a.Handle(nid(r.master), o.Message)
				}
			}
			moved = true
		}
		moved = moved || more
	}
}

// stable makes everything persisted, and runs.
func (r *rig) stable() {
	r.t.Helper()
	r.b.advance(1 << 20)
	r.run()
}

func (r *rig) note(n string, o origin.Output) {
	at := fmt.Sprintf("%s%d ", n, o.Channel.Channel)
	switch o.Kind {
	case origin.Confirmed:
		r.seen = append(r.seen, fmt.Sprintf("%sconfirmed %d-%d", at, o.First, o.Last))
	case origin.Nacked:
		r.seen = append(r.seen, fmt.Sprintf("%snacked %d-%d", at, o.First, o.Last))
	case origin.Unblocked:
		r.seen = append(r.seen, at+"unblocked")
	case origin.Lettered:
		r.seen = append(r.seen, fmt.Sprintf("%slettered: %v", at, o.Code))
	case origin.Cancelled:
		r.seen = append(r.seen, fmt.Sprintf("%scancelled %s: %v", at, o.Tag, o.Code))
	case origin.Replied:
		r.call = o.Reply
		if o.Reply.Get != nil {
			r.delivery(n, at, *o.Reply.Get)
		}
		if o.Reply.Code != 0 {
			r.seen = append(r.seen, fmt.Sprintf("%sfailed: %v", at, o.Reply.Code))
		}
	case origin.Deliveries:
		for _, d := range o.Deliveries {
			r.delivery(n, at, d)
		}
	}
}

func (r *rig) delivery(n, at string, d origin.Delivery) {
	again := ""
	if d.Redelivered {
		again = " again"
	}
	r.seen = append(r.seen, fmt.Sprintf("%s%s%s%s", at, d.Tag, d.Message.Body, again))
	r.ids[n+string(d.Message.Body)] = d.ID
}

// want compares what was seen since the last call, in any order of nodes but in the order of each line's first word.
func (r *rig) want(lines ...string) {
	r.t.Helper()
	r.run()
	sortStable := func(ls []string) string {
		ls = slices.Clone(ls)
		slices.SortStableFunc(ls, func(a, b string) int {
			return strings.Compare(strings.Fields(a)[0], strings.Fields(b)[0])
		})
		return strings.Join(ls, "\n")
	}
	if got, want := sortStable(r.seen), sortStable(lines); got != want {
		r.t.Fatalf("seen:\n%s\nwant:\n%s", got, want)
	}
	r.seen = nil
}

// at moves the clock.
func (r *rig) at(now int64) {
	r.t.Helper()
	r.now = now
	r.proc.SetTime(now)
	r.run()
}

func (r *rig) set(s queue.Settings) {
	r.t.Helper()
	r.proc.Configure(s)
	r.run()
}

// send publishes a message through channel c of node n.
func (r *rig) send(n string, c uint64, m message.Message) {
	r.t.Helper()
	_, err := r.atts[n].Publish(ch(c), m)
	r.must(err)
	r.run()
}

// pub publishes bodies through channel c of node n.
func (r *rig) pub(n string, c uint64, bodies ...string) {
	r.t.Helper()
	for _, b := range bodies {
		if _, err := r.atts[n].Publish(ch(c), message.Message{Body: []byte(b)}); err != nil {
			r.t.Fatal(err)
		}
	}
	r.run()
}

func (r *rig) consume(n string, c uint64, args origin.Consume) {
	r.t.Helper()
	if _, err := r.atts[n].Consume(ch(c), args); err != nil {
		r.t.Fatal(err)
	}
	r.run()
}

func (r *rig) get(n string, c uint64) {
	r.t.Helper()
	_, err := r.atts[n].Get(ch(c), false)
	r.must(err)
	r.run()
}

func (r *rig) ack(n string, c uint64, bodies ...string) {
	r.atts[n].Ack(ch(c), r.idsOf(n, bodies))
	r.run()
}

func (r *rig) requeue(n string, c uint64, bodies ...string) {
	r.atts[n].Requeue(ch(c), r.idsOf(n, bodies))
	r.run()
}

func (r *rig) idsOf(n string, bodies []string) (ids []uint64) {
	for _, b := range bodies {
		ids = append(ids, r.ids[n+b])
	}
	return ids
}

// held are the bodies that the queue holds.
func (r *rig) held() string {
	var bs []string
	for _, seq := range r.b.seqs {
		bs = append(bs, string(r.b.entries[seq].Message.Body))
	}
	return strings.Join(bs, " ")
}

func (r *rig) wantHeld(want string) {
	r.t.Helper()
	if got := r.held(); got != want {
		r.t.Fatalf("the queue holds %q, want %q", got, want)
	}
}

func (r *rig) wantKeptAcks(n string, want int) {
	r.t.Helper()
	if _, _, acks := r.atts[n].Kept(); acks != want {
		r.t.Fatalf("%s keeps %d acknowledgements, want %d", n, acks, want)
	}
}

// logged is how many operations of a kind the Backing was asked for.
func (r *rig) logged(kind byte) (n int) {
	for _, op := range r.b.log {
		if op.kind == kind {
			n++
		}
	}
	return n
}

var _ queue.Events = (*queue.Process)(nil)
var _ queue.OriginTable = (*fake)(nil)

func ranges(first, last uint64) []backingqueue.Range {
	return []backingqueue.Range{{First: first, Last: last}}
}

func positions(ls ...queue.Letter) (ps []protocol.Position) {
	for _, l := range ls {
		ps = append(ps, l.Position)
	}
	return ps
}
