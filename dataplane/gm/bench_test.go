package gm

import (
	"fmt"
	"testing"
)

// forwarding runs a middle member of a ring of three: batch messages at a time come in, go out, are delivered, persisted,
// and become stable. It returns allocations per message, without those of the frames that come in.
func forwarding(tb testing.TB, batch, rounds int) (allocs float64, g *Group) {
	r := newRing(3, Config{})
	r.settle()
	g = r.groups[1]
	sender := r.groups[0].me
	body := make([]byte, 1000)
	frames := make([][]byte, 0, batch)
	stable := make([]byte, 0, 64)
	var outs []Output
	n := uint64(0)
	round := func() {
		frames = frames[:0]
		for range batch {
			n++
			f, _ := encodeData(1, sender, n, Bulk, body)
			frames = append(frames, f)
		}
		for _, f := range frames {
			if err := g.Receive(r.members[0], f); err != nil {
				tb.Fatal(err)
			}
		}
		stable = appendUint(appendRef(appendArray(appendHead(stable[:0], frameStable, 1), 2), sender), n)
		if err := g.Receive(r.members[0], stable); err != nil {
			tb.Fatal(err)
		}
		g.Persisted(r.members[0], n)
		outs = g.Take(outs[:0])
		g.out.sent, g.out.credit = 0, g.out.window // the successor gives everything back
	}
	for range 10 {
		round()
	}
	if rounds > 0 {
		// One allocation per message is the incoming frame's, made here.
		allocs = testing.AllocsPerRun(rounds, round)/float64(batch) - 1
	}
	return allocs, g
}

// BenchmarkForward is one message through a member in the middle: Data in, Data out, Deliver, persisted, stable.
func BenchmarkForward(b *testing.B) {
	for _, batch := range []int{1, 64} {
		b.Run(fmt.Sprintf("batch=%d", batch), func(b *testing.B) {
			r := newRing(3, Config{})
			r.settle()
			g := r.groups[1]
			sender := r.groups[0].me
			body := make([]byte, 1000)
			stable := make([]byte, 0, 64)
			var outs []Output
			var frame []byte
			frame, _ = encodeData(1, sender, 1<<40, Bulk, body)
			at := len(frame) - len(body) - 3 - 1 - 9 // where the number's nine bytes begin
			b.ReportAllocs()
			b.ResetTimer()
			for i := 1; i <= b.N; i++ {
				for k := range 8 {
					frame[at+1+k] = byte(uint64(i) >> (56 - 8*k))
				}
				if err := g.Receive(r.members[0], frame); err != nil {
					b.Fatal(err)
				}
				if i%batch == 0 {
					stable = appendUint(appendRef(appendArray(appendHead(stable[:0], frameStable, 1), 2), sender), uint64(i))
					if err := g.Receive(r.members[0], stable); err != nil {
						b.Fatal(err)
					}
					g.Persisted(r.members[0], uint64(i))
					outs = g.Take(outs[:0])
					g.out.sent, g.out.credit = 0, g.out.window
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "messages/s")
		})
	}
}

// BenchmarkRing is a whole ring in one goroutine: every message broadcast, delivered and persisted by all, and reported.
func BenchmarkRing(b *testing.B) {
	for _, size := range []int{100, 1000, 10_000} {
		for _, n := range []int{2, 3, 5, 7} {
			b.Run(fmt.Sprintf("size=%d/ring=%d", size, n), func(b *testing.B) {
				r := newRing(n, Config{})
				r.settle()
				steps := 0
				r.user = func(i int, o Output) {
					steps++
					r.persistAll(i, o)
				}
				body := make([]byte, size)
				sent, frames := r.bytes[0], r.frames
				b.ReportAllocs()
				b.ResetTimer()
				for i := 0; i < b.N; i++ {
					if _, err := r.groups[0].Broadcast(body, Bulk); err != nil {
						b.Fatal(err)
					}
					if i%32 == 31 {
						r.settle()
					}
				}
				r.settle()
				steps += r.frames - frames
				b.ReportMetric(float64(r.bytes[0]-sent)/float64(b.N), "senderB/msg")
				b.ReportMetric(float64(steps)/b.Elapsed().Seconds(), "steps/s")
			})
		}
	}
}
