package store

import (
	"testing"
)

// BenchmarkRecover opens a store that holds 300,000 messages of 1 KiB in one queue, most of them in the journal: what stands
// between a node's start and its mirrors' offers.
func BenchmarkRecover(b *testing.B) {
	const messages = 300_000
	o := Options{Dir: b.TempDir()}
	s, err := Open(o)
	if err != nil {
		b.Fatal(err)
	}
	p := newPublisher(b, s, 1, 1024)
	p.run(b, messages, 2000, false)
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(messages * 1024)
	for b.Loop() {
		s, err := Open(o)
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		if n := s.queues[1].idx.count; n != messages {
			b.Fatalf("%d messages after the recovery", n)
		}
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}
