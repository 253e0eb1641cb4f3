package store

import (
	"math/rand/v2"
	"slices"
	"testing"

	"warren/dataplane/backingqueue"
)

// TestIndex compares the index with a map, over chunks that are dense, sparse and far apart.
func TestIndex(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 9))
	for range 20 {
		var x index
		model := map[uint64]item{}
		span := uint64(1) << (4 + r.IntN(10))
		base := uint64(r.IntN(3)) << 40
		for range 600 {
			seq := base + r.Uint64N(span)
			switch k := r.IntN(10); {
			case k < 6:
				if _, ok := model[seq]; ok {
					continue
				}
				it := item{slot: slot{file: uint32(1 + r.IntN(9)), off: r.Uint32()}, persistent: r.IntN(2) == 0}
				if r.IntN(2) == 0 {
					it.ram = &backingqueue.Entry{Seq: seq}
				}
				model[seq] = it
				x.add(seq, it)
			case k < 8:
				last := seq + r.Uint64N(span/4+1)
				var got []uint64
				x.remove(seq, last, func(s uint64, it item) {
					if model[s] != it {
						t.Fatalf("removed %d: %+v, expected %+v", s, it, model[s])
					}
					got = append(got, s)
					delete(model, s)
				})
				for s := range model {
					if s >= seq && s <= last {
						t.Fatalf("%d was not removed by %d to %d", s, seq, last)
					}
				}
				if !slices.IsSorted(got) {
					t.Fatalf("removed out of order: %v", got)
				}
			case k < 9:
				last := seq + r.Uint64N(9)
				x.markDelivered(seq, last, func(item) {})
				for s, it := range model {
					if s >= seq && s <= last {
						it.delivered = true
						model[s] = it
					}
				}
			default:
				if it, ok := model[seq]; ok && it.ram != nil {
					x.evict(seq)
					it.ram = nil
					model[seq] = it
				}
			}
			compareIndex(t, &x, model)
		}
	}
}

func compareIndex(t *testing.T, x *index, model map[uint64]item) {
	t.Helper()
	n := 0
	var mem int64
	for _, r := range x.dir {
		mem += r.c.mem()
	}
	first, last := x.bounds()
	for seq, ok := x.next(0); ok; seq, ok = x.next(seq + 1) {
		it, held := x.get(seq)
		if want, ok := model[seq]; !ok || !held || it != want {
			t.Fatalf("at %d: %+v %v, expected %+v", seq, it, held, want)
		}
		if n == 0 && seq != first || seq > last {
			t.Fatalf("bounds %d to %d, at %d", first, last, seq)
		}
		n++
	}
	if n != len(model) || x.count != n || x.bytes != mem {
		t.Fatalf("%d held, counted %d, expected %d; %d bytes, counted %d", n, x.count, len(model), mem, x.bytes)
	}
}
