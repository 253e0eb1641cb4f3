package link

import (
	"bytes"
	"errors"
	"math"
	"reflect"
	"runtime"
	"testing"
	"time"

	"github.com/vmihailenco/msgpack/v5"
)

type told struct {
	Names []string       `msgpack:"n"`
	Rows  []told         `msgpack:"r"`
	Map   map[string]int `msgpack:"m"`
	Body  []byte         `msgpack:"b"`
	Any   any            `msgpack:"a"`
}

// Every kind of value that msgpack writes is walked over to its end.
func TestUnmarshalReadsAllKinds(t *testing.T) {
	long := string(bytes.Repeat([]byte("x"), 70000))
	many := make([]int, 70000)
	for _, v := range []any{
		nil, true, 0, -1, -33, 127, 128, 255, 256, 65535, 65536, math.MaxInt64, math.MinInt64, uint64(math.MaxUint64), float32(1.5), 2.5,
		"", "short", long[:40], long[:300], long, []byte{}, []byte(long[:300]), []byte(long), time.Unix(5, 6), time.Unix(1<<40, 0),
		[]any{}, many[:3], many[:20], many, map[string]any{}, map[string]any{"k": []any{map[string]any{"x": "y"}}},
		told{Names: []string{"a"}, Rows: []told{{Body: []byte("b")}, {Map: map[string]int{"x": 1}}}, Any: "z"},
	} {
		b, err := msgpack.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		if err := checkClaims(b); err != nil {
			t.Errorf("%T: %v", v, err)
		}
		for _, n := range []int{0, 1, len(b) / 2, len(b) - 1} {
			if n < len(b) && checkClaims(b[:n]) == nil {
				t.Errorf("%T: %d bytes of %d are taken for the whole", v, n, len(b))
			}
		}
	}
	want := told{Names: []string{"a", "b"}, Rows: []told{{Body: []byte("b")}}, Map: map[string]int{"x": 1}}
	b, err := msgpack.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got told
	if err := Unmarshal(append(b, "what follows"...), &got); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
}

// A few bytes that claim a lot cost nothing.
func TestUnmarshalBelievesNoClaims(t *testing.T) {
	field := func(name string, value ...byte) []byte { return append([]byte{0x81, 0xa1, name[0]}, value...) }
	for _, b := range [][]byte{
		field("n", 0xdd, 0xff, 0xff, 0xff, 0xff), field("r", 0xdd, 0x0f, 0xff, 0xff, 0xff), field("m", 0xdf, 0x0f, 0xff, 0xff, 0xff),
		field("b", 0xc6, 0x7f, 0xff, 0xff, 0xff), field("a", 0xdd, 0x0f, 0xff, 0xff, 0xff), field("x", 0xdb, 0xff, 0xff, 0xff, 0xff),
		{0xc1}, {}, bytes.Repeat([]byte{0x91}, 1<<20), bytes.Repeat(field("r", 0x91), 1<<16),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		var v told
		err := Unmarshal(b, &v)
		runtime.ReadMemStats(&after)
		if !errors.Is(err, ErrMalformed) {
			t.Errorf("% x…: %v", b[:min(len(b), 9)], err)
		}
		if grown := after.TotalAlloc - before.TotalAlloc; grown > 1<<20 {
			t.Errorf("% x…: %d bytes were allocated", b[:min(len(b), 9)], grown)
		}
	}
}

func FuzzUnmarshal(f *testing.F) {
	f.Add([]byte{0x81, 0xa1, 'n', 0xdd, 0xff, 0xff, 0xff, 0xff})
	f.Add([]byte{0x81, 0xa1, 'r', 0x91, 0x80})
	f.Fuzz(func(t *testing.T, b []byte) {
		var v told
		_ = Unmarshal(b, &v) // it must not panic, nor take the memory that b claims
	})
}
