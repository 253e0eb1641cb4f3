package store

import (
	"testing"

	"warren/dataplane/backingqueue"
)

// BenchmarkPurge is one Remove, and one Delete, of a million messages.
func BenchmarkPurge(b *testing.B) {
	for _, how := range []string{"purge", "delete"} {
		b.Run("how="+how, func(b *testing.B) {
			s := openBench(b, Options{Budget: 64 << 20})
			for i := range b.N {
				b.StopTimer()
				p := newPublisher(b, s, backingqueue.ID(i+1), 100)
				p.run(b, 1_000_000, 10_000, false)
				b.StartTimer()
				var err error
				if how == "purge" {
					_, err = p.q.Remove([]backingqueue.Range{{First: 0, Last: p.next}})
				} else {
					err = p.q.Delete()
				}
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
