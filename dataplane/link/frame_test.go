package link

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"testing"
	"testing/iotest"
)

func TestFrameReaderAnyCut(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var in bytes.Buffer
	var bodies [][]byte
	for range 300 {
		body := make([]byte, rng.IntN(1<<rng.IntN(17)))
		for i := range body {
			body[i] = byte(rng.Uint32())
		}
		bodies = append(bodies, body)
		in.Write(putHeader(nil, testKind, len(body)))
		in.Write(body)
	}
	for name, r := range map[string]io.Reader{
		"whole":           bytes.NewReader(in.Bytes()),
		"halves":          iotest.HalfReader(bytes.NewReader(in.Bytes())),
		"data with error": iotest.DataErrReader(bytes.NewReader(in.Bytes())),
		"bytes":           iotest.OneByteReader(bytes.NewReader(in.Bytes())),
	} {
		f := frameReader{r: r, max: 1 << 20}
		var got [][]byte
		for range bodies {
			kind, body, err := f.next()
			if err != nil || kind != testKind {
				t.Fatalf("%s: kind %d, %v", name, kind, err)
			}
			got = append(got, body)
		}
		if _, _, err := f.next(); !errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("%s: at the end: %v", name, err)
		}
		for i := range bodies { // after all were read: a body must not have been overwritten by a later one
			if !bytes.Equal(got[i], bodies[i]) {
				t.Fatalf("%s: body %d differs", name, i)
			}
		}
	}
}

func FuzzFrames(f *testing.F) {
	f.Add([]byte{0, 0, 0, 3, 20, 'a', 'b', 0, 0, 0, 1, 0})
	f.Add(append(putHeader(nil, kindCall, 4), 1, 0, 1, 'm'))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, in []byte) {
		const limit = 4096
		r := frameReader{r: iotest.HalfReader(bytes.NewReader(in)), max: limit}
		at := 0
		for {
			kind, body, err := r.next()
			if err != nil {
				return
			}
			if len(body) > limit || int(binary.BigEndian.Uint32(in[at:])) != len(body)+1 || !bytes.Equal(in[at+5:at+5+len(body)], body) {
				t.Fatalf("frame at %d: kind %d, %d bytes", at, kind, len(body))
			}
			at += 5 + len(body)
			if c, err := decodeCall(body); err == nil {
				again := append(encodeCall(c), c.body...)
				if d, err := decodeCall(again); err != nil || d.id != c.id || d.method != c.method || !bytes.Equal(d.body, c.body) {
					t.Fatal("a call does not survive encoding")
				}
			}
			_, _, _, _ = decodeAnswer(body)
		}
	})
}
