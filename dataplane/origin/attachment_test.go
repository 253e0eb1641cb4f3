package origin

import (
	"errors"
	"fmt"
	"testing"

	"warren/dataplane/backingqueue"
	"warren/dataplane/message"
	"warren/dataplane/queue/protocol"
)

// What an attachment does together with a queue process, over failovers above all, is tested in dataplane/queue. Here:
// what can be seen from this side alone.

var (
	self   = protocol.NodeID{Name: "rabbit@a", Incarnation: 1}
	master = protocol.NodeID{Name: "rabbit@m", Incarnation: 7}
)

func attached(t *testing.T, limits Limits) *Attachment {
	t.Helper()
	a := New(Config{Self: self, Limits: limits})
	a.LinkUp(master)
	a.SetMaster(master, 3)
	outs := a.Outputs()
	if len(outs) != 1 || outs[0].Message.Kind() != protocol.KindHello {
		t.Fatalf("outputs: %+v", outs)
	}
	a.Handle(master, &protocol.Welcome{
		Header: *outs[0].Message.Head(), Publish: protocol.Credit{Count: 1000, Bytes: 1 << 30}, Consumer: protocol.Credit{Count: 10, Bytes: 1 << 20},
	})
	if _, ok := a.Session(); !ok {
		t.Fatal("not attached")
	}
	a.Outputs()
	return a
}

func kinds(outs []Output) (s string) {
	for _, o := range outs {
		switch o.Kind {
		case Send:
			s += fmt.Sprintf("send %d, ", o.Message.Kind())
		default:
			s += fmt.Sprintf("%d to %d, ", o.Kind, o.Channel.Channel)
		}
	}
	return s
}

// TestBatches: what gathers between two calls of Outputs travels together, and is split where it grows too large.
func TestBatches(t *testing.T) {
	a := attached(t, Limits{})
	key := Channel{1, 1}
	body := make([]byte, protocol.BatchBytes/4)
	for range 9 {
		if _, err := a.Publish(key, message.Message{Body: body}); err != nil {
			t.Fatal(err)
		}
	}
	outs := a.Outputs()
	if got, want := kinds(outs), "send 2, send 3, send 3, send 3, "; got != want {
		t.Fatalf("outputs %s, want %s", got, want)
	}
	next := uint64(1)
	for _, o := range outs[1:] {
		for _, it := range o.Message.(*protocol.Publish).Items {
			if it.Number != next {
				t.Errorf("number %d, want %d", it.Number, next)
			}
			next++
		}
	}
	head := a.head()
	a.Handle(master, &protocol.Confirm{Header: head, Results: []protocol.Result{{Ref: 1, First: 3, Last: 4, Nack: true}, {Ref: 1, Last: 6}}})
	var got string
	for _, o := range a.Outputs() {
		got += fmt.Sprintf("%d:%d-%d ", o.Kind, o.First, o.Last)
	}
	if want := fmt.Sprintf("%d:3-4 %d:1-2 %d:5-6 ", Nacked, Confirmed, Confirmed); got != want {
		t.Errorf("answers %s, want %s", got, want)
	}
	if n, _, _ := a.Kept(); n != 3 {
		t.Errorf("keeps %d, want 3", n)
	}
}

// TestAckRanges: acknowledgements of one batch become ranges, and are forgotten only when the master calls them stable.
func TestAckRanges(t *testing.T) {
	a := attached(t, Limits{})
	key := Channel{1, 1}
	if _, err := a.Consume(key, Consume{Tag: "t"}); err != nil {
		t.Fatal(err)
	}
	call := a.Outputs()[0].Message.(*protocol.Call)
	a.Handle(master, &protocol.Reply{Header: a.head(), ID: call.ID})
	d := &protocol.Deliver{Header: a.head()}
	for seq := range uint64(6) {
		d.Items = append(d.Items, protocol.DeliverItem{
			Consumer: call.Consumer.ID, Position: protocol.Position{Epoch: 2, Seq: seq + 1},
		})
	}
	a.Handle(master, d)
	outs := a.Outputs()
	if got, want := kinds(outs), fmt.Sprintf("%d to 1, %d to 1, ", Replied, Deliveries); got != want {
		t.Fatalf("outputs %s, want %s", got, want)
	}
	ds := outs[1].Deliveries
	a.Ack(key, []uint64{ds[0].ID, ds[1].ID, ds[2].ID, ds[4].ID, 99, ds[1].ID})
	ack := a.Outputs()[0].Message.(*protocol.Ack)
	if want := []backingqueue.Range{{First: 1, Last: 3}, {First: 5, Last: 5}}; fmt.Sprint(ack.Seqs) != fmt.Sprint(want) || ack.Number != 1 {
		t.Errorf("ack %+v, want %v", ack, want)
	}
	for stable, want := range []int{4, 0} {
		a.Handle(master, &protocol.Confirm{Header: a.head(), AckStable: uint64(stable)})
		if _, _, n := a.Kept(); n != want {
			t.Errorf("%d kept when %d is stable, want %d", n, stable, want)
		}
	}
}

// TestLimits: beyond the limit nothing is taken, and each channel that was refused is told once.
func TestLimits(t *testing.T) {
	a := attached(t, Limits{Publishes: 4, Bytes: 1 << 20})
	for i := range 4 {
		if _, err := a.Publish(Channel{1, uint64(i % 2)}, message.Message{}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 4 {
		if _, err := a.Publish(Channel{1, uint64(i % 2)}, message.Message{}); !errors.Is(err, ErrBlocked) {
			t.Fatalf("beyond the limit: %v", err)
		}
	}
	a.Outputs()
	a.Handle(master, &protocol.Confirm{Header: a.head(), Results: []protocol.Result{{Ref: 1, Last: 2}}})
	want := fmt.Sprintf("%d to 0, %d to 0, %d to 1, ", Confirmed, Unblocked, Unblocked)
	if got := kinds(a.Outputs()); got != want {
		t.Errorf("outputs %s, want %s", got, want)
	}
	if n, err := a.Publish(Channel{1, 1}, message.Message{}); n != 3 || err != nil {
		t.Errorf("after it: number %d, %v", n, err)
	}
	if _, err := a.Publish(Channel{1, 1}, message.Message{Body: make([]byte, 2<<20)}); err != nil {
		t.Errorf("one message may pass the limit: %v", err)
	}
	if !a.Blocked() {
		t.Error("not blocked")
	}
}

// TestOldNewsOfNoMaster: after a failure of all nodes a new master may greet a node before that has applied that there was
// none; the queue must not stay down there, nor the master wait for the node.
func TestOldNewsOfNoMaster(t *testing.T) {
	for _, late := range []uint64{0, 2} { // epochs
		a := New(Config{Self: self})
		a.LinkUp(master)
		a.Handle(master, &protocol.Ready{Header: protocol.Header{Epoch: 3}, Wait: true})
		hello := a.Outputs()
		a.Down(late)
		a.SetMaster(master, 3)
		a.Handle(master, &protocol.Welcome{Header: *hello[0].Message.Head(), Publish: protocol.Credit{Count: 10, Bytes: 1 << 20}})
		if _, attached := a.Session(); !attached || len(a.Outputs()) == 0 {
			t.Errorf("not attached after the news that epoch %d has no master", late)
		}
		a.Down(3)
		if _, attached := a.Session(); attached {
			t.Error("attached to a master that is gone")
		}
	}
}
