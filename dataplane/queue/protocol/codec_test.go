package protocol

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"warren/dataplane/backingqueue"
	"warren/dataplane/message"
)

var rewrite = flag.Bool("rewrite", false, "write the golden file again (a new version only)")

func samples() []Message {
	h := Header{Epoch: 7, Session: 300}
	id := backingqueue.OriginID{Node: "rabbit@a", Incarnation: 3, Connection: 4, Channel: 1}
	named := Named{Position: Position{6, 1 << 40}, Origin: id, Number: 9}
	msg := message.Message{
		Exchange: "x", RoutingKey: "key", Properties: []byte{1, 2}, Body: []byte("body"),
		Persistent: true, Priority: 4, Expiry: 123456789,
	}
	cons := Consumer{
		ID: 5, Call: 6, Tag: "ctag", Prefetch: 20, NoAck: true, Exclusive: true, Priority: -3, Args: []byte{9},
	}
	deliver := &Deliver{Header: h, Origins: []backingqueue.OriginID{id}, Items: []DeliverItem{
		{Consumer: 5, Position: Position{7, 8}, Origin: 1, Number: 2, Redelivered: true, Message: msg},
	}}
	return []Message{
		&Hello{h},
		&Attach{h, []AttachOrigin{{1, id, 9}}, []Consumer{cons}, []Outstanding{{5, named}}, true},
		&Publish{h, []PublishItem{{1, 2, false, msg}, {1, 3, true, message.Message{Properties: []byte{}, Body: []byte{}}}}},
		&Ack{h, 4, Rejected, []backingqueue.Range{{First: 1, Last: 3}, {First: 7, Last: 7}}, []Named{named}},
		&CreditGrant{h, []ConsumerCredit{{5, Credit{10, 1000}}}},
		&Call{h, 11, OpPrepareDelete, cons, true, true, true},
		&CloseOrigin{h, 1},
		&Ready{h, true},
		&Welcome{h, Credit{1, 2}, Credit{3, 4}},
		deliver,
		&Confirm{h, []Result{{1, 0, 9, false}, {1, 10, 11, true}}, 5, Credit{2, 200}},
		&Reply{h, 11, ErrNotEmpty, 12, 13, deliver},
		&Reply{h, 12, 0, 0, 0, nil},
		&Cancelled{h, 5, ErrFailover},
	}
}

func TestCodec(t *testing.T) {
	kinds := map[Kind]bool{}
	for _, m := range samples() {
		kinds[m.Kind()] = true
		b := Append(nil, m)
		got, err := Decode(b)
		if err != nil {
			t.Fatalf("%T: %v", m, err)
		}
		if !reflect.DeepEqual(got, m) {
			t.Errorf("%T: read back\n%+v, want\n%+v", m, got, m)
		}
		for cut := range b { // cut short anywhere, it is refused
			if _, err := Decode(b[:cut]); !errors.Is(err, ErrMalformed) && !errors.Is(err, ErrVersion) {
				t.Fatalf("%T cut at %d: %v", m, cut, err)
			}
		}
		if _, err := Decode(append(b, 0)); !errors.Is(err, ErrMalformed) {
			t.Errorf("%T with a byte behind it: %v", m, err)
		}
	}
	if len(kinds) != len(bodyFields)-1 {
		t.Errorf("%d kinds of %d have a sample", len(kinds), len(bodyFields)-1)
	}
}

// TestGolden: what version 1 wrote is read by every later version.
func TestGolden(t *testing.T) {
	path := filepath.Join("testdata", "v1", "messages")
	var all []byte
	for _, m := range samples() {
		b := Append(nil, m)
		all = append(append(all, byte(len(b)>>8), byte(len(b))), b...)
	}
	if *rewrite {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, all, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range samples() {
		n := int(b[0])<<8 | int(b[1])
		got, err := Decode(b[2 : 2+n])
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("message %d: %+v, %v; want %+v", i, got, err, want)
		}
		b = b[2+n:]
	}
}

// TestLater: elements that a later version adds at the end are skipped.
func TestLater(t *testing.T) {
	b := Append(nil, &CloseOrigin{Header{7, 8}, 1})
	b[0]++ // one element more
	m, err := Decode(append(b, 0xc0))
	if err != nil || !reflect.DeepEqual(m, &CloseOrigin{Header{7, 8}, 1}) {
		t.Errorf("with an unknown element: %+v, %v", m, err)
	}
}

func TestLimits(t *testing.T) {
	h := Header{1, 1}
	for name, m := range map[string]Message{
		"items":    &CreditGrant{h, make([]ConsumerCredit, MaxItems+1)},
		"range":    &Ack{Header: h, Outcome: Acked, Seqs: []backingqueue.Range{{First: 1, Last: MaxItems + 1}}},
		"backward": &Ack{Header: h, Outcome: Acked, Seqs: []backingqueue.Range{{First: 2, Last: 1}}},
		"all":      &Ack{Header: h, Outcome: Acked, Seqs: []backingqueue.Range{{First: 0, Last: 1<<64 - 1}}},
		"outcome":  &Ack{Header: h, Outcome: 9},
		"credit":   &Welcome{h, Credit{-1, 0}, Credit{}},
	} {
		if got, err := Decode(Append(nil, m)); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, m := range samples() {
		f.Add(Append(nil, m))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := Decode(b)
		if err != nil {
			return
		}
		again, err := Decode(Append(nil, m))
		if err != nil || !reflect.DeepEqual(m, again) {
			t.Errorf("read %+v, written and read again %+v, %v", m, again, err)
		}
	})
}
