package store

import (
	"errors"
	"iter"
	"math/rand/v2"
	"slices"
	"testing"

	"warren/dataplane/backingqueue"
	"warren/dataplane/vfs"
)

func seqsOf(t *testing.T, a *Aside) (seqs []uint64) {
	t.Helper()
	for e, err := range a.Messages() {
		if err != nil {
			t.Fatal(err)
		}
		if len(e.Message.Body) == 0 || e.Message.Body[0] != byte(e.Seq) {
			t.Fatalf("message %d has the body of another", e.Seq)
		}
		seqs = append(seqs, e.Seq)
	}
	return seqs
}

func (r *rig) aside(name string) *Aside {
	r.t.Helper()
	a, err := r.s.OpenAside(name)
	if err != nil {
		r.t.Fatal(err)
	}
	return a
}

// A copy that was set aside holds, when it is read, what it held as a queue and nothing that was removed before: neither what the
// segments forgot nor what only the journal knew of.
func TestAsideHoldsWhatTheQueueHeld(t *testing.T) {
	r := segmented(t)
	r.stop()
	r.start()
	q, _ := r.open(1)
	r.fill(q, 101, 10, 60) // in the journal alone
	if _, err := q.Remove([]backingqueue.Range{{First: 1, Last: 10}, {First: 50, Last: 59}, {First: 103, Last: 103}}); err != nil {
		t.Fatal(err)
	}
	want := slices.Concat(run(11, 49), run(60, 102), run(104, 110))
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := r.s.SetAsideAs(1, Label{"v", "orders", "because"}); err != nil {
		t.Fatal(err)
	}
	sets, err := r.s.Asides()
	if err != nil || len(sets) != 1 {
		t.Fatalf("sets: %+v, %v", sets, err)
	}
	set := sets[0]
	if set.Label != (Label{"v", "orders", "because"}) || !set.Noted || set.Queue != 1 || set.Messages != len(want) || set.Bytes != 60*int64(len(want)) {
		t.Errorf("it is described as %+v", set)
	}
	a := r.aside(set.Name)
	if got := seqsOf(t, a); !slices.Equal(got, want) || len(a.Damage) > 0 {
		t.Errorf("it holds %v, want %v; damage %v", got, want, a.Damage)
	}
	if _, err := r.s.OpenAside(set.Name); !errors.Is(err, backingqueue.ErrOpen) {
		t.Errorf("open it a second time: %v", err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := r.s.OpenAside("nosuch"); !errors.Is(err, backingqueue.ErrNotFound) {
		t.Errorf("open what is not there: %v", err)
	}
}

func run(first, last uint64) (seqs []uint64) {
	for seq := first; seq <= last; seq++ {
		seqs = append(seqs, seq)
	}
	return seqs
}

// What was published again survives a crash as far as Mark has told of it; the rest comes again, in order. A set without a note, and
// one with a damaged part, can be read as far as they go. Removing is for good.
func TestAsideGoesOnWhereItWas(t *testing.T) {
	r := newRig(t, Options{JournalFileSize: 2000})
	entries := iter.Seq2[backingqueue.Entry, error](func(yield func(backingqueue.Entry, error) bool) {
		for seq := uint64(1); seq <= 100 && yield(testEntry(seq, 60), nil); seq++ {
		}
	})
	path, err := r.s.SetPartAside(7, Label{"/", "q", "why"}, entries)
	if err != nil {
		t.Fatal(err)
	}
	sets, err := r.s.Asides()
	if err != nil || len(sets) != 1 || sets[0].Path != path || sets[0].Messages != 100 || sets[0].Bytes != 6000 {
		t.Fatalf("sets: %+v, %v", sets, err)
	}
	name := sets[0].Name
	a := r.aside(name)
	if err := errors.Join(a.Mark(30, 30), a.Mark(41, 11)); err != nil {
		t.Fatal(err)
	}
	r.fs.Crash(rand.New(rand.NewPCG(1, 2)))
	r.start()
	a = r.aside(name)
	if got := seqsOf(t, a); !slices.Equal(got, run(42, 100)) || a.Set.Published != 41 {
		t.Errorf("after a crash %v are left, %d were published", got, a.Set.Published)
	}
	a.Restart()
	if got := seqsOf(t, a); len(got) != 100 {
		t.Errorf("from the start: %v", got)
	}
	if err := errors.Join(a.Close(), r.fs.Remove(path+"/NOTE"), r.fs.FlipBit(path+"/0000000002.segment", 900, 3)); err != nil {
		t.Fatal(err)
	}
	sets, err = r.s.Asides()
	if err != nil || len(sets) != 1 || sets[0].Noted || sets[0].Messages < 60 || sets[0].Messages > 99 || sets[0].Published != 41 {
		t.Fatalf("without a note, with damage: %+v, %v", sets, err)
	}
	a = r.aside(name)
	a.Restart()
	if got := seqsOf(t, a); len(got) != sets[0].Messages || len(a.Damage) != 1 || !slices.IsSorted(got) {
		t.Errorf("%v can be read, damage %v", got, a.Damage)
	}
	if err := errors.Join(a.Remove(), a.Close()); err != nil {
		t.Fatal(err)
	}
	if sets, err := r.s.Asides(); err != nil || len(sets) > 0 {
		t.Errorf("after removal: %+v, %v", sets, err)
	}
	if _, err := vfs.ReadFile(r.fs, path+"/PROGRESS"); err == nil {
		t.Error("its files are still there")
	}
}
