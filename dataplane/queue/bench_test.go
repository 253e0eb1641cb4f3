package queue_test

import (
	"fmt"
	"testing"

	"warren/dataplane/backingqueue"
	"warren/dataplane/message"
	"warren/dataplane/origin"
	"warren/dataplane/queue"
	"warren/dataplane/queue/protocol"
)

// thin is a Backing that costs next to nothing: a window of messages in a ring, everything persisted on demand.
type thin struct {
	ev      queue.Events
	ring    [1 << 15]backingqueue.Entry
	removed [1 << 15]bool
	first   uint64
	next    uint64
	op      queue.Op
	id      backingqueue.OriginID
	number  uint64
}

func (b *thin) Publish(id backingqueue.OriginID, e backingqueue.Entry) (queue.Taken, uint64, error) {
	e.Seq, e.Ref = b.next, 1
	b.ring[e.Seq%uint64(len(b.ring))] = e
	b.removed[e.Seq%uint64(len(b.ring))] = false
	b.next++
	b.id, b.number = id, e.Number
	return queue.TakenNew, e.Seq, nil
}

func (b *thin) Remove(rs []backingqueue.Range, _ queue.Reason) (queue.Op, error) {
	for _, r := range rs {
		for seq := r.First; seq <= r.Last; seq++ {
			b.removed[seq%uint64(len(b.ring))] = true
		}
	}
	for b.first < b.next && b.removed[b.first%uint64(len(b.ring))] {
		b.first++
	}
	b.op++
	return b.op, nil
}

func (b *thin) Next(from uint64) (uint64, bool) {
	for from = max(from, b.first); from < b.next; from++ {
		if !b.removed[from%uint64(len(b.ring))] {
			return from, true
		}
	}
	return 0, false
}

func (b *thin) Get(seq uint64) (backingqueue.Entry, bool, error) {
	return b.ring[seq%uint64(len(b.ring))], true, nil
}

func (b *thin) Refuse(backingqueue.OriginID, uint64) (queue.Taken, error) {
	return queue.TakenRefused, nil
}
func (b *thin) AttachOrigin(backingqueue.OriginID, uint64) error  { return nil }
func (b *thin) CloseOrigin(backingqueue.OriginID) error           { return nil }
func (b *thin) Delivered([]backingqueue.Range) error              { return nil }
func (b *thin) Find(backingqueue.OriginID, uint64) (uint64, bool) { return 0, false }
func (b *thin) EpochOf(uint64) uint64                             { return 1 }
func (b *thin) Stats() backingqueue.Stats                         { return backingqueue.Stats{} }
func (b *thin) OriginOf(uint64) (backingqueue.OriginID, bool)     { return b.id, true }
func (b *thin) Origins() []backingqueue.Origin                    { return nil }
func (b *thin) stable()                                           { b.ev.Confirmable(b.id, b.number); b.ev.OpStable(b.op) }

// bench is one attachment, one process, and what carries messages between them.
type bench struct {
	b    *thin
	att  *origin.Attachment
	proc *queue.Process
	wire bool
	acks []uint64
	done int
}

func newBench(tb testing.TB, wire bool) *bench {
	x := &bench{b: &thin{next: 1, first: 1}, proc: queue.New(queue.Options{}), wire: wire}
	x.att = origin.New(origin.Config{Self: nid("a")})
	x.b.ev = x.proc
	if err := x.proc.SetNodes([]protocol.NodeID{nid("a")}); err != nil {
		tb.Fatal(err)
	}
	if err := x.proc.Promote(x.b, 1, true); err != nil {
		tb.Fatal(err)
	}
	x.att.SetMaster(nid("a"), 1)
	if _, err := x.att.Consume(ch(2), origin.Consume{Tag: "t"}); err != nil {
		tb.Fatal(err)
	}
	for range 4 {
		x.turn(tb)
	}
	return x
}

func (x *bench) carry(tb testing.TB, m protocol.Message) protocol.Message {
	if !x.wire {
		return m
	}
	m, err := protocol.Decode(protocol.Append(make([]byte, 0, protocol.WireSize(m)), m))
	if err != nil {
		tb.Fatal(err)
	}
	return m
}

// turn lets each side act once.
func (x *bench) turn(tb testing.TB) {
	for _, o := range x.att.Outputs() {
		switch o.Kind {
		case origin.Send:
			if err := x.proc.Handle(nid("a"), x.carry(tb, o.Message)); err != nil {
				tb.Fatal(err)
			}
		case origin.Deliveries:
			var bytes int64
			x.acks = x.acks[:0]
			for i := range o.Deliveries {
				bytes += o.Deliveries[i].Size
				x.acks = append(x.acks, o.Deliveries[i].ID)
			}
			x.att.Taken(o.Deliveries[0].Consumer, int64(len(o.Deliveries)), bytes)
			x.att.Ack(ch(2), x.acks)
		case origin.Confirmed:
			x.done += int(o.Last - o.First + 1)
		}
	}
	x.b.stable()
	outs, _, err := x.proc.Flush(true, held)
	if err != nil {
		tb.Fatal(err)
	}
	for _, o := range outs {
		if o.Kind == queue.ToNode {
			x.att.Handle(nid("a"), x.carry(tb, o.Message))
		}
	}
}

// BenchmarkMessage is one message's way: publish, deliver, acknowledge, confirm; batch is how many are published before
// the outputs are carried on. A nanosecond here is a nanosecond of the two cores alone: no socket, ring or disk.
func BenchmarkMessage(b *testing.B) {
	for _, wire := range []bool{false, true} {
		for _, batch := range []int{1, 64} {
			b.Run(fmt.Sprintf("wire=%v/batch=%d", wire, batch), func(b *testing.B) {
				x := newBench(b, wire)
				m := message.Message{RoutingKey: "key", Properties: make([]byte, 20), Body: make([]byte, 1024), Persistent: true}
				b.ReportAllocs()
				for n := 0; n < b.N; n += batch {
					for range batch {
						if _, err := x.att.Publish(ch(1), m); err != nil {
							b.Fatal(err)
						}
					}
					x.turn(b)
				}
				for range 4 {
					x.turn(b)
				}
				if x.done < b.N || x.b.first != x.b.next {
					b.Fatalf("%d of %d confirmed, %d left", x.done, b.N, x.b.next-x.b.first)
				}
			})
		}
	}
}
