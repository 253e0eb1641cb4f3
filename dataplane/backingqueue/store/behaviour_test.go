package store

import (
	"errors"
	"strings"
	"testing"

	"warren/dataplane/backingqueue"
)

// TestConsumedAsFilled: a queue that is consumed as fast as it is filled writes each message once, and no segment.
func TestConsumedAsFilled(t *testing.T) {
	r := newRig(t, Options{JournalFileSize: 20_000, JournalFiles: 2})
	q, _ := r.open(1)
	const size = 1000
	var payload uint64
	for seq := uint64(1); seq <= 500; seq++ {
		r.fill(q, seq, 1, size)
		payload += size
		if _, err := q.Remove([]backingqueue.Range{{First: seq, Last: seq}}); err != nil {
			t.Fatal(err)
		}
		r.flush()
		if err := r.s.tend(); err != nil {
			t.Fatal(err)
		}
	}
	if n := r.s.j.Metrics().Bytes; n > payload*5/4 {
		t.Errorf("%d bytes were written for %d bytes of messages", n, payload)
	}
	if names := r.files("data/queues"); len(names) > 0 {
		t.Errorf("queues with segments: %v", names)
	}
	if names := r.files("data/journal"); len(names) > 4 {
		t.Errorf("%d journal files are kept", len(names))
	}
}

// TestBudget: bodies beyond the budget leave memory, and are read back in order, from journal and segments.
func TestBudget(t *testing.T) {
	r := newRig(t, Options{Budget: 50_000, JournalFileSize: 30_000, JournalFiles: 2})
	q, _ := r.open(1)
	for seq := uint64(1); seq <= 1000; seq += 10 {
		r.fill(q, seq, 10, 300)
		r.flush()
	}
	if err := r.s.page(); err != nil {
		t.Fatal(err)
	}
	st := q.Stats()
	if u, _ := r.s.Usage(); u.Bodies > 50_000 || st.MessagesRAM == 0 || st.MessagesRAM >= 200 || st.Messages != 1000 {
		t.Fatalf("%d bytes in memory, %+v", u.Bodies, st)
	}
	r.check(q, 1, 1000)
	if e, _, err := q.Get(1000); err != nil || e.Seq != 1000 {
		t.Fatal(err)
	}
	if _, err := q.Remove([]backingqueue.Range{{First: 1, Last: 990}}); err != nil {
		t.Fatal(err)
	}
	r.flush()
	if err := r.s.tend(); err != nil {
		t.Fatal(err)
	}
	r.check(q, 991, 1000)
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	q, _ = r.open(1)
	r.check(q, 991, 1000)
}

// TestTransientSpill: transient messages go to disk only under pressure, and are gone after a restart.
func TestTransientSpill(t *testing.T) {
	r := newRig(t, Options{Budget: 50_000, JournalFileSize: 30_000})
	q, _ := r.open(1)
	transient, _, err := r.s.Open(2, backingqueue.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for seq := uint64(1); seq <= 20; seq++ {
		e := testEntry(seq, 1000)
		e.Message.Persistent = false
		if _, err := q.Append(e); err != nil {
			t.Fatal(err)
		}
	}
	r.flush()
	if names := r.files("data/queues"); len(names) > 0 {
		t.Fatalf("without pressure there are %v", names)
	}
	if n := r.s.j.Metrics().Bytes; n > 2000 {
		t.Fatalf("the journal took %d bytes", n)
	}
	for seq := uint64(1); seq <= 200; seq++ {
		if _, err := transient.Append(testEntry(seq, 1000)); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.s.page(); err != nil {
		t.Fatal(err)
	}
	if u, _ := r.s.Usage(); u.Bodies > 50_000 {
		t.Fatalf("%d bytes are in memory", u.Bodies)
	}
	if names := r.files("data/queues/2"); len(names) == 0 || !strings.HasSuffix(names[0], ".transient") {
		t.Fatalf("spilled to %v", names)
	}
	r.check(transient, 1, 200)
	r.check(q, 1, 20)
	if _, err := transient.Remove([]backingqueue.Range{{First: 1, Last: 200}}); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(r.s.page(), r.s.tend()); err != nil {
		t.Fatal(err)
	}
	if names := r.files("data/queues/2"); len(names) > 0 {
		t.Fatalf("after all is consumed there are %v", names)
	}
	r.stop()
	r.start()
	q, rec := r.open(1)
	if st := q.Stats(); !rec.Found || rec.Damaged || st.Messages != 0 || st.NextSeq != 21 {
		t.Fatalf("%+v %+v", rec, st)
	}
	if ids := r.s.IDs(); len(ids) != 1 || ids[0] != 1 {
		t.Fatalf("ids %v", ids)
	}
}

// TestIndexIsSmall: 32 bytes per message of a backlog at most, with every second message gone too.
func TestIndexIsSmall(t *testing.T) {
	r := newRig(t, Options{Budget: 1})
	q, _ := r.open(1)
	const n = 50_000
	for seq := uint64(1); seq <= n; seq += 1000 {
		r.fill(q, seq, 1000, 10)
		r.flush()
		if err := r.s.page(); err != nil {
			t.Fatal(err)
		}
	}
	if st := q.Stats(); st.MessagesRAM > 0 || st.IndexBytes > 32*n {
		t.Errorf("%d bytes per message, %d messages in memory", st.IndexBytes/n, st.MessagesRAM)
	}
	var rs []backingqueue.Range
	for seq := uint64(1); seq <= n; seq += 2 {
		rs = append(rs, backingqueue.Range{First: seq, Last: seq})
	}
	if _, err := q.Remove(rs); err != nil {
		t.Fatal(err)
	}
	if st := q.Stats(); st.Messages != n/2 || st.IndexBytes > 64*n/2 {
		t.Errorf("%d bytes per message of %d", st.IndexBytes/int64(st.Messages), st.Messages)
	}
}

// TestDeleteGivesBack: a deleted queue's files go, in the background, and it is not found again.
func TestDeleteGivesBack(t *testing.T) {
	r := segmented(t)
	q2, _ := r.open(2)
	r.fill(q2, 1, 3, 10)
	r.flush()
	q := r.s.lookup(1).h
	if err := q.Delete(); err != nil {
		t.Fatal(err)
	}
	if err := r.s.tend(); err != nil {
		t.Fatal(err)
	}
	if names := r.files("data/queues"); len(names) != 0 {
		t.Fatalf("left over: %v", names)
	}
	r.stop()
	r.start()
	if ids := r.s.IDs(); len(ids) != 1 || ids[0] != 2 {
		t.Fatalf("queues %v", ids)
	}
}

// TestSparseSegments: when little of a segment is alive it is written again, and the disk is given back; a restart finds
// what is left and nothing that was removed.
func TestSparseSegments(t *testing.T) {
	r := segmented(t)
	q := r.s.lookup(1).h
	before := len(r.s.lookup(1).segs.Files())
	var rs []backingqueue.Range
	for seq := uint64(1); seq <= 100; seq++ {
		if seq%10 != 0 {
			rs = append(rs, backingqueue.Range{First: seq, Last: seq})
		}
	}
	if _, err := q.SetDelivered([]backingqueue.Range{{First: 50, Last: 50}}); err != nil {
		t.Fatal(err)
	}
	if _, err := q.Remove(rs); err != nil {
		t.Fatal(err)
	}
	r.flush()
	if err := r.s.tend(); err != nil {
		t.Fatal(err)
	}
	if after := len(r.s.lookup(1).segs.Files()); after > 2 || after >= before {
		t.Errorf("%d segment files before, %d after", before, after)
	}
	r.stop()
	r.start()
	r.open(1)
	q = r.s.lookup(1).h
	if n := q.Stats().Messages; n != 10 {
		t.Fatalf("%d messages", n)
	}
	for seq := uint64(10); seq <= 100; seq += 10 {
		if e, held, err := q.Get(seq); !held || err != nil || e.Delivered != (seq == 50) {
			t.Fatalf("get %d: %v %v %v", seq, held, err, e.Delivered)
		}
	}
}

// rotate writes through another queue until every journal file that there is now has been dropped.
func (r *rig) rotate() {
	r.t.Helper()
	q := r.s.lookup(99)
	var h backingqueue.Queue
	if q == nil || q.h == nil {
		h, _ = r.open(99)
	} else {
		h = q.h
	}
	newest := r.s.j.Files()[len(r.s.j.Files())-1].ID
	for r.s.j.Files()[0].ID <= newest {
		seq := h.Stats().NextSeq
		r.fill(h, seq, 1, 200)
		if _, err := h.Remove([]backingqueue.Range{{First: seq, Last: seq}}); err != nil {
			r.t.Fatal(err)
		}
		r.flush()
		if err := r.s.tend(); err != nil {
			r.t.Fatal(err)
		}
	}
}

func (r *rig) remove(q backingqueue.Queue, first, last uint64) {
	r.t.Helper()
	if _, err := q.Remove([]backingqueue.Range{{First: first, Last: last}}); err != nil {
		r.t.Fatal(err)
	}
	r.flush()
}

// TestRemovalsOutliveTheirFiles: a removal of something in a segment is still known after the journal file that had it is
// gone, and after the segment file that had it next is gone too.
func TestRemovalsOutliveTheirFiles(t *testing.T) {
	t.Run("dead file", func(t *testing.T) { testRemovalsOutlive(t, false) })
	t.Run("sparse file", func(t *testing.T) { testRemovalsOutlive(t, true) })
}

func testRemovalsOutlive(t *testing.T, insert bool) {
	r := newRig(t, Options{JournalFileSize: 2000, JournalFiles: 1})
	q, _ := r.open(1)
	r.fill(q, 1, 40, 60)
	r.flush()
	r.rotate()
	r.remove(q, 3, 3)
	r.remove(q, 5, 6)
	r.remove(q, 9, 9)
	if insert {
		if _, err := q.Insert(testEntry(6, 60)); err != nil {
			t.Fatal(err)
		}
	}
	r.fill(q, 41, 20, 60)
	r.flush()
	r.rotate()
	before := r.s.lookup(1).segs.Files()
	if len(before) < 3 || before[0].Controls || !before[1].Controls {
		t.Fatalf("the removals are not in the second of %+v", before)
	}
	r.remove(q, 23, 60)
	r.rotate()
	after := r.s.lookup(1).segs.Files()
	if after[0].ID != before[0].ID || after[1].ID == before[1].ID {
		t.Fatalf("segment files were %+v, now there are %+v", before, after)
	}
	r.stop()
	r.start()
	q, rec := r.open(1)
	if rec.Damaged {
		t.Fatalf("%+v", rec)
	}
	for seq := uint64(1); seq <= 60; seq++ {
		if want := seq <= 22 && (insert || seq != 6) && seq != 3 && seq != 5 && seq != 9; q.Has(seq) != want {
			t.Errorf("holds %d: %v", seq, !want)
		}
	}
}

func TestTruncateOutlivesItsFile(t *testing.T) {
	r := newRig(t, Options{JournalFileSize: 2000, JournalFiles: 1})
	q, _ := r.open(1)
	r.fill(q, 1, 20, 60)
	r.flush()
	r.rotate()
	if _, err := q.Truncate(15); err != nil {
		t.Fatal(err)
	}
	r.fill(q, 15, 2, 60)
	r.flush()
	r.rotate()
	r.stop()
	r.start()
	q, _ = r.open(1)
	r.check(q, 1, 16)
	if st := q.Stats(); st.NextSeq != 17 {
		t.Fatalf("%+v", st)
	}
}
