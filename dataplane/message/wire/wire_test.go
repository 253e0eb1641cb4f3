package wire

import (
	"errors"
	"math"
	"testing"

	"github.com/vmihailenco/msgpack/v5"
)

// TestNumbers: every number is written in the shortest form, as msgpack knows it, and read back.
func TestNumbers(t *testing.T) {
	for shift := range 64 {
		for _, d := range []int64{-1, 0, 1} {
			v := int64(1)<<shift + d
			for _, v := range []int64{v, -v} {
				b := AppendInt(nil, v)
				var got int64
				if err := msgpack.Unmarshal(b, &got); err != nil || got != v {
					t.Fatalf("%d: msgpack reads %d, %v", v, got, err)
				}
				r := NewReader(b)
				if got := r.Int(); got != v || r.Err() != nil || r.Len() != 0 {
					t.Fatalf("%d: read %d, %v", v, got, r.Err())
				}
			}
			u := uint64(v)
			r := NewReader(AppendUint(nil, u))
			if got := r.Uint(); got != u || r.Err() != nil {
				t.Fatalf("%d: read %d, %v", u, got, r.Err())
			}
		}
	}
	r := NewReader(AppendUint(nil, math.MaxUint64))
	if r.Int(); !errors.Is(r.Err(), ErrMalformed) {
		t.Fatal("MaxUint64 as a signed integer")
	}
}

// TestSkip: any value that msgpack writes can be skipped.
func TestSkip(t *testing.T) {
	values := []any{
		nil, true, false, 1, -1, 1 << 40, -(1 << 40), 1.5, float32(1.5), "s", make([]byte, 300), []any{1, []any{"x"}}, map[string]any{"a": []int{1, 2}},
		make([]int, 20), string(make([]byte, 70000)),
	}
	var b []byte
	for _, v := range values {
		p, err := msgpack.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		b = append(b, p...)
	}
	b = append(b, 0xd4, 1, 2, 0xc7, 3, 1, 2, 3, 4) // extensions
	b = AppendUint(b, 77)
	r := NewReader(b)
	r.SkipN(len(values) + 2)
	if got := r.Uint(); got != 77 || r.Err() != nil || r.Len() != 0 {
		t.Fatalf("behind the skipped: %d, %v, %d left", got, r.Err(), r.Len())
	}
}

// TestMalformed: wrong types, lengths beyond the input and endless nesting are errors, and the first error stays.
func TestMalformed(t *testing.T) {
	deep := make([]byte, 1000)
	for i := range deep {
		deep[i] = 0x91
	}
	for what, f := range map[string]func(r *Reader){
		"\xdd\xff\xff\xff\xff": func(r *Reader) { r.Array() },
		"\xc6\xff\xff\xff\xff": func(r *Reader) { r.Bytes() },
		"\xdb\xff\xff\xff\xff": func(r *Reader) { _ = r.String() },
		"\xa1a":                func(r *Reader) { r.Uint() },
		"\x01":                 func(r *Reader) { r.Bool() },
		"\xc1":                 func(r *Reader) { r.SkipN(1) },
		"":                     func(r *Reader) { r.Int() },
		"\xc4":                 func(r *Reader) { r.Bytes() },
		string(deep):           func(r *Reader) { r.SkipN(1) },
	} {
		r := NewReader([]byte(what))
		f(&r)
		first := r.Err()
		if !errors.Is(first, ErrMalformed) {
			t.Fatalf("%q: %v", what, first)
		}
		if r.Uint(); r.Err() != first {
			t.Fatal("the first error was replaced")
		}
	}
}
