package amqp

import (
	"testing"
	"unsafe"
)

// TestMessageHasOneBuffer: however many frames a body comes in, the message ends in one buffer of just its size. Properties that were
// left in an earlier one would double the memory of each large message.
func TestMessageHasOneBuffer(t *testing.T) {
	for _, tc := range []struct{ frame, size int }{{131064, 262144}, {4088, 100_000}, {100, 100}, {131064, 1 << 20}} {
		a := &assembly{remaining: int64(tc.size), props: []byte("properties")}
		for a.remaining > 0 {
			n := int(min(int64(tc.frame), a.remaining))
			if a.cmd.msg.Body == nil {
				a.allocate(n)
			}
			body := a.cmd.msg.Body
			if len(body)+n > cap(body) {
				body = a.grow(len(body) + n)
			}
			a.cmd.msg.Body = body[:len(body)+n]
			a.remaining -= int64(n)
		}
		m := a.cmd.msg
		if string(m.Properties) != "properties" || len(m.Body) != tc.size || cap(m.Body) > tc.size {
			t.Errorf("frames of %d: properties %q, body of %d in %d octets", tc.frame, m.Properties, len(m.Body), cap(m.Body))
		}
		if unsafe.Pointer(unsafe.SliceData(m.Body)) != unsafe.Add(unsafe.Pointer(unsafe.SliceData(m.Properties)), len(m.Properties)) {
			t.Errorf("frames of %d: properties and body are in different buffers", tc.frame)
		}
	}
}
