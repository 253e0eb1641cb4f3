package mirror

import (
	"encoding/hex"
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"

	"warren/dataplane/backingqueue"
	"warren/dataplane/gm"
	"warren/dataplane/message"
	"warren/dataplane/message/wire"
)

func sampleOps() map[string][]byte {
	id := backingqueue.OriginID{Node: "rabbit@x", Incarnation: 3, Connection: 1 << 40, Channel: 65535}
	rs := []backingqueue.Range{{First: 1, Last: 1}, {First: 300, Last: 70000}}
	return map[string][]byte{
		"newmaster":     encodeNewMaster(7, 1<<33, flagLossy, shortfall{}),
		"newmasterlost": encodeNewMaster(7, 1<<33, flagLossy, shortfall{300, true}),
		"positionlost": encodePosition(&op{epoch: 7, seq: 100, oldest: 3, count: 4, ref: 6, members: []gm.Member{mA},
			epochs: []epochStart{{1, 1}}, lost: shortfall{1, false}}),
		"masterends":   encodeMasterEnds(7),
		"publish":      encodePublish(&backingqueue.Entry{Seq: 9, Ref: 2, Number: 4, Message: message.Message{Exchange: "e", RoutingKey: "k", Body: []byte("b"), Persistent: true}}),
		"refused":      encodeRefused(2, 5),
		"remove":       encodeRemove(rs, 1, 69702),
		"delivered":    encodeDelivered(rs),
		"originopened": encodeOriginOpened(2, 3, id),
		"originclosed": encodeOriginClosed(2),
		"origins":      encodeOrigins(true, []originLine{{origin: backingqueue.Origin{Ref: 2, ID: id, Number: 8}, loss: 6, refused: rs}}),
		"needposition": encodeNeedPosition(),
		"position": encodePosition(&op{epoch: 7, seq: 100, oldest: 3, count: 4, ref: 6, members: []gm.Member{mA, mB},
			epochs: []epochStart{{1, 1}, {7, 50}}, floor: floor{4, 20, true}}),
	}
}

// TestOps holds the operations still (testdata/v1): each is read as it was written, cut ones and unknown ones are errors, and
// fields that a newer version adds are skipped.
func TestOps(t *testing.T) {
	for name, b := range sampleOps() {
		file := "testdata/v1/" + name + ".hex"
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if got := hex.EncodeToString(b); got != strings.TrimSpace(string(want)) {
			t.Errorf("%s: encoding changed: %s", name, got)
		}
		var ops []op
		collect := func(o *op) error { ops = append(ops, *o); return nil }
		if err := decodeOps(b, &op{}, collect); err != nil || len(ops) != 1 {
			t.Fatalf("%s: %v", name, err)
		}
		newer := append([]byte{b[0], b[1] + 1}, b[2:]...)
		newer = wire.AppendString(newer, "more")
		if err := decodeOps(append(newer, b[1:]...), &op{}, collect); err != nil || len(ops) != 3 {
			t.Fatalf("%s with a field more: %v", name, err)
		}
		if !reflect.DeepEqual(ops[0], ops[1]) || !reflect.DeepEqual(ops[0], ops[2]) {
			t.Fatalf("%s: %+v, with a field more %+v", name, ops[0], ops[1])
		}
		for i := 2; i < len(b); i++ {
			if err := decodeOps(b[:i], &op{}, collect); !errors.Is(err, ErrDefect) {
				t.Fatalf("%s cut at %d: %v", name, i, err)
			}
			for v := range 256 {
				c := append([]byte(nil), b...)
				c[i] = byte(v)
				_ = decodeOps(c, &op{}, collect)
			}
		}
	}
	for _, b := range []string{"\x02", "\x01\x90", "\x01\x91\x63", "\x01\x91\x01", "\x01\xc0"} {
		if err := decodeOps([]byte(b), &op{}, func(*op) error { return nil }); !errors.Is(err, ErrDefect) {
			t.Fatalf("%q: %v", b, err)
		}
	}
}

// TestPublishCost: the ring's budget is the body and 64 bytes.
func TestPublishCost(t *testing.T) {
	m := message.Message{RoutingKey: "orders", Body: make([]byte, 1000), Persistent: true, Expiry: 1 << 41}
	b := encodePublish(&backingqueue.Entry{Seq: 1 << 40, Ref: 1 << 20, Number: 1 << 40, Message: m})
	if extra := len(b) - len(m.Body); extra > 64 {
		t.Fatalf("%d bytes beside the body", extra)
	}
}

// TestMeta: what is written is read, also with a field more; the tables stay within their limits.
func TestMeta(t *testing.T) {
	m, err := decodeMeta(nil)
	if err != nil {
		t.Fatal(err)
	}
	for e := uint64(1); e <= 2*maxEpochs; e++ {
		m.begin(e, e*1000)
	}
	for i := uint64(1); i <= 2*maxLosses; i++ {
		m.losses[i] = i << 30
	}
	for i := uint64(1); i <= 3*maxRefused; i++ {
		m.refuse(i%7, i*2)
	}
	m.floor, m.unreconciled, m.baseline, m.baselineKnown, m.nextRef = floor{3, 4, true}, true, 99, true, 1234
	m.lacks, m.lost = shortfall{17, true}, shortfall{1 << 40, false}
	b := m.encode()
	if len(b) > backingqueue.MaxMeta {
		t.Fatalf("%d bytes", len(b))
	}
	b = append([]byte{b[0] + 1}, b[1:]...)
	got, err := decodeMeta(wire.AppendInt(b, -1))
	if err != nil {
		t.Fatal(err)
	}
	if len(got.losses) != maxLosses || got.losses[2*maxLosses] == 0 {
		t.Fatalf("%d losses", len(got.losses))
	}
	got.losses = m.losses
	if !reflect.DeepEqual(got, m) {
		t.Fatalf("read %+v", got)
	}
	if _, err := decodeMeta(b[:len(b)/2]); !errors.Is(err, wire.ErrMalformed) {
		t.Fatalf("half of it: %v", err)
	}
}

// TestEpochTable: the epoch of a position, and epochs that gave none.
func TestEpochTable(t *testing.T) {
	var m meta
	if _, ok := m.again(); ok {
		t.Error("no epoch, and messages were published again")
	}
	m.begin(1, 1)
	if _, ok := m.again(); ok {
		t.Error("one epoch, and messages were published again")
	}
	m.begin(2, 10)
	m.begin(4, 10) // epoch 2 gave nothing
	m.begin(5, 30)
	if from, ok := m.again(); !ok || from != 10 {
		t.Errorf("published again from %d on", from)
	}
	first := meta{}
	first.begin(1, 1)
	first.begin(2, 1) // all that epoch 1 gave died with its master
	if from, ok := first.again(); !ok || from != 1 {
		t.Errorf("published again from %d on", from)
	}
	for seq, want := range map[uint64]uint64{0: 0, 1: 1, 9: 1, 10: 4, 29: 4, 30: 5, 1000: 5} {
		if got := m.epochOf(seq); got != want {
			t.Errorf("position %d: epoch %d, want %d", seq, got, want)
		}
	}
}
