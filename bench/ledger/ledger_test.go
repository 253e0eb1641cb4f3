package ledger

import (
	"errors"
	"testing"
	"time"
)

func ignore(uint64) {}

func TestSettle(t *testing.T) {
	b := New(3)
	if first := b.Send(10); first != 1 {
		t.Fatalf("first number %d", first)
	}
	if err := b.Settle(11, false, true, ignore); !errors.Is(err, ErrNeverPublished) {
		t.Errorf("a confirm of a message that was never published: %v", err)
	}
	if err := b.Settle(3, false, true, ignore); err != nil {
		t.Error(err)
	}
	if err := b.Settle(3, false, true, ignore); !errors.Is(err, ErrTwice) {
		t.Errorf("a second confirm: %v", err)
	}
	var got []uint64
	if err := b.Settle(5, true, true, func(s uint64) { got = append(got, s) }); err != nil {
		t.Error(err)
	}
	if len(got) != 4 || got[2] != 4 { // 1 2 4 5
		t.Errorf("a multiple confirm settled %v", got)
	}
	if err := b.Settle(6, false, false, ignore); err != nil {
		t.Error(err)
	}
	if n := b.GiveUp(); n != 4 {
		t.Errorf("%d given up", n)
	}
	want := Counts{Sent: 10, Confirmed: 5, Nacked: 1, Unknown: 4}
	if c := b.Counts(); c != want || b.Outstanding() != 0 {
		t.Errorf("counts %+v, want %+v", c, want)
	}
}

func TestAuditNamesWhatIsLost(t *testing.T) {
	b := New(1)
	b.Send(200)
	if err := b.Settle(150, true, true, ignore); err != nil {
		t.Fatal(err)
	}
	for s := uint64(1); s <= 160; s++ {
		if s == 97 || s == 140 {
			continue
		}
		if first, err := b.Deliver(s, false); !first || err != nil {
			t.Fatal(first, err)
		}
	}
	if first, err := b.Deliver(5, true); first || err != nil {
		t.Error("a second delivery counts as a first one", err)
	}
	confirmed, lost, example := b.Audit()
	if confirmed != 150 || lost != 2 || example != 97 {
		t.Errorf("confirmed %d, lost %d, for example %d", confirmed, lost, example)
	}
	if c := b.Counts(); c.Delivered != 158 || c.Doubled != 1 || c.Redelivered != 1 {
		t.Errorf("counts %+v", c)
	}
	if _, err := b.Deliver(201, false); !errors.Is(err, ErrNeverPublished) {
		t.Errorf("a delivery of what was never published: %v", err)
	}
}

func TestHead(t *testing.T) {
	h := Head{Book: 7, Seq: 1 << 40, At: time.Unix(12, 345)}
	got, err := ParseHead(append(h.Append(nil), 1, 2, 3))
	if err != nil || got.Book != h.Book || got.Seq != h.Seq || !got.At.Equal(h.At) {
		t.Errorf("%+v %v", got, err)
	}
	if _, err := ParseHead(make([]byte, 100)); err == nil {
		t.Error("a body of somebody else passes")
	}
}
