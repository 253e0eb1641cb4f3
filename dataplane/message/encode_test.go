package message

import (
	"bytes"
	"encoding/hex"
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"
	"unsafe"

	"github.com/vmihailenco/msgpack/v5"

	"warren/dataplane/message/wire"
)

func sample() Message {
	return Message{
		Exchange: "amq.topic", RoutingKey: "a.b", Properties: []byte{0x80, 0, 1, 'x'}, Body: []byte("body"), Persistent: true,
		Priority: 200, Expiry: 1_700_000_000_000,
	}
}

// TestGolden holds the encoding still: later versions must read what this one wrote (testdata/v1).
func TestGolden(t *testing.T) {
	want, err := os.ReadFile("testdata/v1/message.hex")
	if err != nil {
		t.Fatal(err)
	}
	m := sample()
	if got := hex.EncodeToString(Append(nil, &m)); got != strings.TrimSpace(string(want)) {
		t.Fatalf("encoding changed:\n%s\nwant\n%s", got, want)
	}
	b, err := hex.DecodeString(strings.TrimSpace(string(want)))
	if err != nil {
		t.Fatal(err)
	}
	got, err := Parse(b)
	if err != nil || !reflect.DeepEqual(got, m) {
		t.Fatalf("read %+v, %v", got, err)
	}
}

// TestRoundTrip: any message comes back, is ordinary msgpack, aliases its input, and fits in Size.
func TestRoundTrip(t *testing.T) {
	for _, n := range []int{0, 1, 31, 32, 255, 256, 65535, 65536, 1 << 20} {
		m := Message{Exchange: strings.Repeat("e", n%300), RoutingKey: strings.Repeat("k", n%256), Properties: make([]byte, n%70000), Body: bytes.Repeat([]byte{7}, n), Expiry: -int64(n)}
		b := Append(nil, &m)
		if len(b) > Size(&m) {
			t.Fatalf("%d bytes, Size says %d", len(b), Size(&m))
		}
		var values []any
		if err := msgpack.Unmarshal(b, &values); err != nil || len(values) != fields {
			t.Fatalf("not msgpack: %v, %d values", err, len(values))
		}
		got, err := Parse(b)
		if err != nil || !bytes.Equal(got.Body, m.Body) || got.Exchange != m.Exchange || got.RoutingKey != m.RoutingKey || got.Expiry != m.Expiry {
			t.Fatalf("size %d: %v", n, err)
		}
		if n > 0 && unsafe.SliceData(got.Body) != &b[len(b)-n] {
			t.Fatal("the body was copied")
		}
	}
}

// TestNewer: what a newer version adds is skipped; a version with another layout is refused by name.
func TestNewer(t *testing.T) {
	m := sample()
	b := Append(nil, &m)
	newer := append([]byte{b[0] + 2}, b[1:]...)
	newer = wire.AppendArray(wire.AppendString(newer, "more"), 1)
	newer = wire.AppendInt(newer, -5)
	if got, err := Parse(newer); err != nil || !reflect.DeepEqual(got, m) {
		t.Fatalf("read %+v, %v", got, err)
	}
	b[1] = 2
	if _, err := Parse(b); !errors.Is(err, ErrVersion) {
		t.Fatalf("version 2: %v", err)
	}
}

// TestCut: every prefix and every changed byte gives a message or an error, never a panic or a length beyond the input.
func TestCut(t *testing.T) {
	m := sample()
	b := Append(nil, &m)
	for i := range b {
		if _, err := Parse(b[:i]); err == nil {
			t.Fatalf("a prefix of %d bytes is a message", i)
		}
		for v := range 256 {
			c := bytes.Clone(b)
			c[i] = byte(v)
			if got, err := Parse(c); err == nil && len(got.Body) > len(b) {
				t.Fatal("body longer than the input")
			}
		}
	}
	if _, err := Parse(append(b, 0)); !errors.Is(err, wire.ErrMalformed) {
		t.Fatalf("a byte behind it: %v", err)
	}
}

func BenchmarkAppendDecode(b *testing.B) {
	m := sample()
	m.Body = make([]byte, 1024)
	buf := Append(nil, &m)
	b.SetBytes(int64(len(buf)))
	b.ReportAllocs()
	for b.Loop() {
		buf = Append(buf[:0], &m)
		if _, err := Parse(buf); err != nil {
			b.Fatal(err)
		}
	}
}
