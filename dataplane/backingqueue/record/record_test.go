package record

import (
	"bytes"
	"errors"
	"flag"
	"math/rand/v2"
	"os"
	"reflect"
	"testing"

	"warren/dataplane/backingqueue"
	"warren/dataplane/message"
)

var update = flag.Bool("update", false, "write the golden file of the current version")

func samples() []Record {
	origin := backingqueue.Origin{
		Ref: 4, Number: 77, ID: backingqueue.OriginID{Node: "rabbit@a", Incarnation: 1, Connection: 2, Channel: 3},
	}
	return []Record{
		{Type: TypeState, Queue: 9, Number: 1, State: State{
			NextSeq: 5, NextSegment: 3, Segments: []Segment{{File: 1<<31 | 2, Size: 4096}},
			Origins: []backingqueue.Origin{origin}, Meta: []byte("meta"), Damaged: "lost",
		}},
		{Type: TypeAppend, Queue: 9, Number: 2, Entry: backingqueue.Entry{
			Seq: 1 << 40, Ref: 4, Number: 78, Delivered: true, Message: message.Message{
				Exchange: "amq.topic", RoutingKey: "a.b", Properties: []byte{0x80, 0}, Body: []byte("body"),
				Persistent: true, Priority: 7, Expiry: -5,
			},
		}},
		{Type: TypeInsert, Queue: 9, Number: 3, Entry: backingqueue.Entry{Seq: 2, Message: message.Message{Properties: []byte{}}}},
		{Type: TypeRemove, Queue: 9, Number: 4, Ranges: []backingqueue.Range{{First: 1, Last: 1}, {First: 5, Last: ^uint64(0)}}},
		{Type: TypeDelivered, Queue: 9, Number: 5, Ranges: []backingqueue.Range{{First: 3, Last: 8}}},
		{Type: TypeTruncate, Queue: 9, Number: 6, At: 12},
		{Type: TypeSkip, Queue: 9, Number: 7, At: 13},
		{Type: TypePassed, Queue: 9, Number: 8, At: 14, Origin: backingqueue.Origin{Ref: 4, Number: 79}},
		{Type: TypeOrigin, Queue: 9, Number: 9, Origin: origin},
		{Type: TypeCloseOrigin, Queue: 9, Number: 10, At: 4},
		{Type: TypeMeta, Queue: 9, Number: 11, Meta: []byte("other")},
		{Type: TypeDelete, Queue: 9, Number: 12},
	}
}

// encode is what the store writes for a record.
func encode(r Record) []byte {
	b := Head(nil, r.Type, r.Queue, r.Number)
	switch r.Type {
	case TypeState:
		return AppendState(b, r.State)
	case TypeAppend, TypeInsert:
		return append(AppendEntry(b, &r.Entry), r.Entry.Message.Body...)
	case TypeRemove, TypeDelivered:
		return AppendRanges(b, r.Ranges)
	case TypeTruncate, TypeSkip, TypeCloseOrigin:
		return appendUvarint(b, r.At)
	case TypePassed:
		return appendUvarint(appendUvarint(appendUvarint(b, r.At), r.Origin.Ref), r.Origin.Number)
	case TypeOrigin:
		return AppendOrigin(b, r.Origin)
	case TypeMeta:
		return appendString(b, r.Meta)
	}
	return b
}

func appendUvarint(b []byte, v uint64) []byte {
	for v >= 0x80 {
		b = append(b, byte(v)|0x80)
		v >>= 7
	}
	return append(b, byte(v))
}

// file is a journal file of the samples, a mark before every third.
func file(id uint64) (content []byte, offs []int64) {
	b := AppendHeader(nil, id)
	for i, r := range samples() {
		if i%3 == 0 {
			b = AppendMark(b, id, int64(len(b)))
		}
		offs = append(offs, int64(len(b)))
		p := encode(r)
		b = append(AppendFrame(b, uint32(len(p)), Checksum(p, nil)), p...)
	}
	return b, offs
}

func TestRoundTrip(t *testing.T) {
	for _, want := range samples() {
		got, err := Decode(encode(want))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%v\ngot      %+v\nexpected %+v", err, got, want)
		}
		p := encode(want)
		for n := range len(p) - len(want.Entry.Message.Body) {
			if _, err := Decode(p[:n]); err == nil {
				t.Errorf("type %d cut to %d of %d bytes is accepted", want.Type, n, len(p))
			}
		}
	}
}

// TestGolden: this build reads the file that version 1 wrote, for ever.
func TestGolden(t *testing.T) {
	const path = "testdata/v1/journal"
	content, _ := file(7)
	if *update {
		if err := os.WriteFile(path, content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	golden, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := CheckHeader(golden, 7); err != nil {
		t.Fatal(err)
	}
	var got []Record
	holes, err := Scan(golden, 7, func(_ int64, _ int, p []byte) error {
		r, err := Decode(p)
		got = append(got, r)
		return err
	}, nil)
	if err != nil || len(holes) > 0 || !reflect.DeepEqual(got, samples()) {
		t.Fatalf("%v %v\ngot      %+v\nexpected %+v", err, holes, got, samples())
	}
}

// TestScanDamage flips each bit of a file: every record that is not hit is found or lies in a hole that is told, none is
// invented, and a hole with a mark behind it is not taken for a torn end.
func TestScanDamage(t *testing.T) {
	content, offs := file(7)
	lastMark := offs[9] - MarkSize
	for at := HeaderSize; at < len(content); at++ {
		b := bytes.Clone(content)
		b[at] ^= 1 << (at % 8)
		found := map[int64]bool{}
		holes, err := Scan(b, 7, func(off int64, _ int, _ []byte) error { found[off] = true; return nil }, nil)
		if err != nil || len(holes) != 1 {
			t.Fatalf("bit at %d: %v, holes %v", at, err, holes)
		}
		h := holes[0]
		if int64(at) < h.From || int64(at) >= h.To || h.Torn != (int64(at) >= lastMark) {
			t.Fatalf("bit at %d: hole %+v, last mark at %d", at, h, lastMark)
		}
		for _, off := range offs {
			if inHole := off >= h.From && off < h.To; found[off] == inHole {
				t.Fatalf("bit at %d: record at %d found %v, hole %+v", at, off, found[off], h)
			}
		}
	}
}

// TestScanTorn cuts a file anywhere: what is whole is found, the rest is one torn hole.
func TestScanTorn(t *testing.T) {
	content, offs := file(7)
	for n := HeaderSize; n < len(content); n++ {
		count := 0
		holes, err := Scan(content[:n], 7, func(int64, int, []byte) error { count++; return nil }, nil)
		want := 0
		for i := range offs {
			end := int64(len(content))
			if i+1 < len(offs) {
				end = offs[i+1]
				if (i+1)%3 == 0 {
					end -= MarkSize
				}
			}
			if end <= int64(n) {
				want++
			}
		}
		if err != nil || count != want || len(holes) > 1 || len(holes) == 1 && (!holes[0].Torn || holes[0].To != int64(n)) {
			t.Fatalf("cut at %d: %v, %d records of %d, holes %v", n, err, count, want, holes)
		}
	}
}

// TestDecodeGarbage: no payload makes Decode panic or allocate what it does not hold.
func TestDecodeGarbage(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		var p []byte
		if r.IntN(2) == 0 {
			s := samples()
			p = encode(s[r.IntN(len(s))])
			for range 1 + r.IntN(4) {
				p[r.IntN(len(p))] = byte(r.Uint32())
			}
		} else {
			p = make([]byte, r.IntN(40))
			for i := range p {
				p[i] = byte(r.Uint32())
			}
		}
		_, _ = Decode(p)
		_, _ = DecodeSlim(p)
	}
}

func TestHeader(t *testing.T) {
	b := AppendHeader(nil, 3)
	if len(b) != HeaderSize || CheckHeader(b, 3) != nil {
		t.Fatal("a good header is refused")
	}
	for name, c := range map[string]struct {
		b    []byte
		want error
	}{
		"cut":    {b[:10], backingqueue.ErrDamaged},
		"number": {AppendHeader(nil, 4), backingqueue.ErrDamaged},
		"magic":  {append([]byte("x"), b[1:]...), backingqueue.ErrDamaged},
	} {
		if err := CheckHeader(c.b, 3); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
