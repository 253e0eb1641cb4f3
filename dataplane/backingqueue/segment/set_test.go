package segment

import (
	"fmt"
	"testing"

	"warren/dataplane/backingqueue"
	"warren/dataplane/backingqueue/record"
	"warren/dataplane/message"
	"warren/dataplane/vfs"
)

func rec(seq uint64) []byte {
	e := backingqueue.Entry{Seq: seq, Message: message.Message{Persistent: true, Body: make([]byte, 100)}}
	p := append(record.AppendEntry(record.Head(nil, record.TypeAppend, 1, 0), &e), e.Message.Body...)
	return append(record.AppendFrame(nil, uint32(len(p)), record.Checksum(p, nil)), p...)
}

func fill(t *testing.T, s *Set, first, last uint64) {
	t.Helper()
	for seq := first; seq <= last; seq++ {
		id, off, err := s.Append(rec(seq), seq)
		if err != nil {
			t.Fatal(err)
		}
		s.Hold(id, 1)
		if seq%5 == 0 {
			if err := s.Commit(); err != nil {
				t.Fatal(err)
			}
			b := make([]byte, len(rec(seq)))
			if _, err := s.ReadAt(id, b, int64(off)); err != nil || string(b) != string(rec(seq)) {
				t.Fatalf("read %d: %v", seq, err)
			}
		}
	}
}

func load(t *testing.T, o Options, st record.State) (*Set, []uint64, []Damage) {
	t.Helper()
	s := New(o)
	var seqs []uint64
	damages, err := s.Load(st, true, func(_ uint32, _ int64, _ int, p []byte) error {
		r, err := record.Decode(p)
		if r.Type == record.TypeAppend {
			seqs = append(seqs, r.Entry.Seq)
		}
		return err
	}, func(string, []byte) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	return s, seqs, damages
}

// TestLoad: a Set is found again, goes on in its last file, and knows what the journal said from what it did not.
func TestLoad(t *testing.T) {
	o := Options{FS: vfs.NewMem(), Dir: "q", MaxSize: 1000}
	s := New(o)
	fill(t, s, 1, 20)
	st := record.State{}
	st.NextSegment, st.Segments = s.State()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s, seqs, damages := load(t, o, st)
	if len(seqs) != 20 || len(damages) > 0 || len(s.Files()) != len(st.Segments) || !s.Files()[len(st.Segments)-1].Active {
		t.Fatalf("%v %v %+v", seqs, damages, s.Files())
	}
	fill(t, s, 21, 40)
	first := s.Files()[0]
	if tidy := s.Free(first.ID, first.Entries); tidy {
		t.Errorf("what Load found is not held: %+v", first)
	}
	if got := fmt.Sprint(s.Spans(first.ID + 1)); got != fmt.Sprintf("[{1 %d}]", first.Entries) {
		t.Errorf("span of the first file: %s", got)
	}
	if err := s.Detach(first.ID)(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s, seqs, damages = load(t, o, st)
	if len(seqs) != 40-first.Entries || len(damages) != 1 || !damages[0].Missing || damages[0].ID != first.ID {
		t.Fatalf("%v %v", seqs, damages)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	known := record.State{NextSegment: st.NextSegment}
	if _, seqs, damages = load(t, o, known); len(damages) > 0 || len(seqs) == 0 || seqs[0] <= 20 {
		t.Fatalf("files that the journal no longer knows: %v %v", seqs, damages)
	}
}

// TestVolatile: transient messages are not synced and not found again.
func TestVolatile(t *testing.T) {
	fsys := vfs.NewMem()
	o := Options{FS: fsys, Dir: "q", MaxSize: 1000, Volatile: true}
	s := New(o)
	fill(t, s, 1, 20)
	if n := fsys.Count(vfs.OpSync); n > 0 || s.Files()[0].ID&VolatileBit == 0 {
		t.Errorf("%d syncs, %+v", n, s.Files())
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Append(rec(9), 9); err == nil {
		t.Error("append after Close")
	}
	o.Volatile = false
	_, seqs, damages := load(t, o, record.State{})
	if names, _ := fsys.ReadDir("q"); len(seqs)+len(damages)+len(names) > 0 {
		t.Errorf("%v %v %v", seqs, damages, names)
	}
}
