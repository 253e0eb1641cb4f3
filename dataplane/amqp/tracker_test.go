package amqp

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestConfirmsAgainstModel answers publishes in random order and plays the frames to a client that keeps a set of what is
// outstanding: each publish must be answered once, as the backend said.
func TestConfirmsAgainstModel(t *testing.T) {
	frames, publishes := 0, 0
	for seed := range uint64(500) {
		rnd := rand.New(rand.NewPCG(seed, 2))
		var c confirms
		outstanding := map[uint64]bool{} // at the client
		said := map[uint64]bool{}        // what the backend answered
		open := []uint64{}
		var last uint64
		check := func() {
			for _, f := range c.flush(nil) {
				frames++
				covered, lowest := 0, f.tag
				for seq := range outstanding {
					if seq == f.tag || f.multiple && seq < f.tag {
						covered++
						lowest = min(lowest, seq)
						ok, answered := said[seq]
						if !answered || ok == f.nack {
							t.Fatalf("seed %d: frame %+v covers %d, about which the backend said %t, %t", seed, f, seq, ok, answered)
						}
						delete(outstanding, seq)
					}
				}
				if uint64(covered) != f.tag-lowest+1 {
					t.Fatalf("seed %d: frame %+v covers %d from %d on: nothing, or some that were answered before", seed, f, covered, lowest)
				}
			}
			for seq := range said {
				if outstanding[seq] {
					t.Fatalf("seed %d: %d was answered but not sent", seed, seq)
				}
			}
			clear(said)
		}
		for range 400 {
			switch r := rnd.IntN(10); {
			case r < 5:
				seq := c.add()
				if seq != last+1 {
					t.Fatalf("seed %d: publish %d after %d", seed, seq, last)
				}
				last = seq
				publishes++
				outstanding[seq] = true
				open = append(open, seq)
			case r < 9 && len(open) > 0:
				i := rnd.IntN(min(len(open), 1+rnd.IntN(8)))
				ok := rnd.IntN(10) > 0
				if !c.answer(open[i], ok) {
					t.Fatalf("seed %d: answer to %d ignored", seed, open[i])
				}
				said[open[i]] = ok
				if c.answer(open[i], !ok) {
					t.Fatalf("seed %d: second answer to %d taken", seed, open[i])
				}
				open = append(open[:i], open[i+1:]...)
			default:
				check()
			}
		}
		check()
		if c.open != len(open) {
			t.Fatalf("seed %d: %d open, want %d", seed, c.open, len(open))
		}
	}
	if frames*4 > publishes*3 {
		t.Errorf("%d frames for %d publishes: confirms are not coalesced", frames, publishes)
	}
}

func TestUnackedAgainstModel(t *testing.T) {
	for seed := range uint64(300) {
		rnd := rand.New(rand.NewPCG(seed, 3))
		var u unacked
		model := []uint64{}
		tag := uint64(0)
		for range 500 {
			switch rnd.IntN(4) {
			case 0, 1:
				tag += 1 + rnd.Uint64N(2) // no-ack deliveries leave gaps
				u.add(tag, Token{Pos: tag})
				model = append(model, tag)
			case 2:
				want, multiple := rnd.Uint64N(tag+2), rnd.IntN(6) == 0
				var expect, rest []uint64
				found := want == 0 && multiple
				for _, m := range model {
					found = found || m == want
					if m == want || multiple && (m < want || want == 0) {
						expect = append(expect, m)
					} else {
						rest = append(rest, m)
					}
				}
				got, ok := u.take(want, multiple, nil)
				if ok != found || found && len(got) != len(expect) || !ok && len(got) > 0 {
					t.Fatalf("seed %d: take %d %t: %v %t, want %v %t", seed, want, multiple, got, ok, expect, found)
				}
				if !ok {
					continue
				}
				for i, e := range got {
					if e.tag != expect[i] || e.token.Pos != e.tag {
						t.Fatalf("seed %d: got %v, want %v", seed, got, expect)
					}
				}
				model = rest
				if rnd.IntN(5) == 0 {
					u.putBack(got)
					model = append(expect, model...)
					slices.Sort(model)
				}
			}
			if u.len() != len(model) || len(u.entries) > 2*len(model)+64 {
				t.Fatalf("seed %d: %d entries, %d slots, want %d", seed, u.len(), len(u.entries), len(model))
			}
		}
	}
}

func TestUnackedStaysSmallBehindAnOldOne(t *testing.T) {
	var u unacked
	u.add(1, Token{})
	for tag := uint64(2); tag < 100_000; tag++ {
		u.add(tag, Token{})
		if _, ok := u.take(tag, false, nil); !ok {
			t.Fatal("not taken")
		}
	}
	if u.len() != 1 || cap(u.entries) > 256 {
		t.Errorf("%d waiting in %d slots", u.len(), cap(u.entries))
	}
}
