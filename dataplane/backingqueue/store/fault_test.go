package store

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"warren/dataplane/backingqueue"
	"warren/dataplane/backingqueue/record"
	"warren/dataplane/message"
	"warren/dataplane/vfs"
)

// bench is one store on a file system in memory, with what it logged.
type rig struct {
	t     *testing.T
	fs    *vfs.Mem
	o     Options
	s     *Store
	log   *logBuffer
	fatal chan error
}

type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func newRig(t *testing.T, o Options) *rig {
	r := &rig{t: t, fs: vfs.NewMem(), log: &logBuffer{}, fatal: make(chan error, 9)}
	o.Dir, o.FS, o.Log = "data", r.fs, slog.New(slog.NewTextHandler(r.log, nil))
	o.OnFatal = func(err error) { r.fatal <- err }
	r.o = o
	r.start()
	return r
}

func (r *rig) start() {
	r.t.Helper()
	s, err := Open(r.o)
	if err != nil {
		r.t.Fatal(err)
	}
	r.s = s
	r.t.Cleanup(func() { _ = s.Close() })
}

func (r *rig) stop() {
	r.t.Helper()
	if err := r.s.Close(); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) open(id backingqueue.ID) (backingqueue.Queue, backingqueue.Recovery) {
	r.t.Helper()
	q, rec, err := r.s.Open(id, backingqueue.Options{Durable: true})
	if err != nil {
		r.t.Fatal(err)
	}
	return q, rec
}

func testEntry(seq uint64, size int) backingqueue.Entry {
	body := bytes.Repeat([]byte{byte(seq)}, size)
	return backingqueue.Entry{Seq: seq, Ref: 1, Number: seq, Message: message.Message{Persistent: true, Body: body}}
}

func (r *rig) fill(q backingqueue.Queue, first, n uint64, size int) {
	r.t.Helper()
	for seq := first; seq < first+n; seq++ {
		if _, err := q.Append(testEntry(seq, size)); err != nil {
			r.t.Fatal(err)
		}
	}
}

func (r *rig) flush() {
	r.t.Helper()
	if err := r.s.j.Flush(); err != nil {
		r.t.Fatal(err)
	}
}

// check reads every message from first to last and nothing else.
func (r *rig) check(q backingqueue.Queue, first, last uint64) {
	r.t.Helper()
	want := first
	for seq, ok := q.Next(0); ok; seq, ok = q.Next(seq + 1) {
		e, held, err := q.Get(seq)
		if err != nil || !held || seq != want || !bytes.Equal(e.Message.Body, bytes.Repeat([]byte{byte(seq)}, len(e.Message.Body))) {
			r.t.Fatalf("message %d (expected %d): %v %v %q", seq, want, held, err, e.Message.Body)
		}
		want++
	}
	if want != last+1 {
		r.t.Fatalf("messages end at %d, expected %d", want-1, last)
	}
}

func (r *rig) files(dir string) []string {
	r.t.Helper()
	names, err := r.fs.ReadDir(dir)
	if err != nil {
		r.t.Fatal(err)
	}
	return names
}

// TestFailedWriteIsFatal: a write or sync that fails ends the store, is never tried again, and loses nothing that was
// durable.
func TestFailedWriteIsFatal(t *testing.T) {
	for name, fault := range map[string]func(vfs.Op) error{
		"short write": func(op vfs.Op) error { return failOn(op, vfs.OpWrite) },
		"failed sync": func(op vfs.Op) error { return failOn(op, vfs.OpSync) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, Options{})
			q, _ := r.open(1)
			r.fill(q, 1, 10, 50)
			r.flush()
			r.fs.Fault(fault)
			r.fill(q, 11, 5, 50)
			q.Sync()
			if err := <-r.fatal; !errors.Is(err, backingqueue.ErrFatal) || !errors.Is(err, errDisk) {
				t.Fatalf("OnFatal got %v", err)
			}
			r.fs.Fault(nil)
			syncs := r.fs.Count(vfs.OpSync)
			if _, err := q.Append(testEntry(16, 1)); !errors.Is(err, backingqueue.ErrFatal) {
				t.Fatalf("append after the failure: %v", err)
			}
			if _, err := q.Remove([]backingqueue.Range{{First: 1, Last: 2}}); !errors.Is(err, backingqueue.ErrFatal) {
				t.Fatalf("remove after the failure: %v", err)
			}
			q.Sync()
			if err := r.s.Close(); !errors.Is(err, backingqueue.ErrFatal) {
				t.Fatalf("close after the failure: %v", err)
			}
			if n := r.fs.Count(vfs.OpSync); n != syncs || q.Durable() > 10 || len(r.fatal) > 0 {
				t.Fatalf("%d syncs after the failure, durable %d, %d more calls of OnFatal", n-syncs, q.Durable(), len(r.fatal))
			}
			r.fs.Crash(rand.New(rand.NewPCG(1, 1)))
			r.start()
			q, rec := r.open(1)
			if rec.Damaged || q.Stats().Messages < 10 {
				t.Fatalf("after the restart: %+v, %+v", rec, q.Stats())
			}
		})
	}
}

var errDisk = errors.New("input/output error")

func failOn(op vfs.Op, k vfs.OpKind) error {
	if op.Kind == k {
		return errDisk
	}
	return nil
}

func TestFullDiskIsFatal(t *testing.T) {
	r := newRig(t, Options{JournalFileSize: 16 << 10}) // beyond what is allocated ahead
	q, _ := r.open(1)
	r.fill(q, 1, 10, 50)
	r.flush()
	u, err := r.s.Usage()
	if err != nil || u.Free == 0 || u.Bodies < 500 || u.Index == 0 {
		t.Fatalf("usage %+v %v", u, err)
	}
	r.fs.Limit(8 << 10)
	r.fill(q, 11, 200, 200)
	q.Sync()
	if err := <-r.fatal; !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("OnFatal got %v", err)
	}
	if u, err := r.s.Usage(); err != nil || u.Free != 0 {
		t.Fatalf("usage of the full disk %+v %v", u, err)
	}
}

func TestDirectoryIsLocked(t *testing.T) {
	r := newRig(t, Options{})
	if _, err := Open(r.o); !errors.Is(err, vfs.ErrLocked) {
		t.Fatalf("second open: %v", err)
	}
	r.stop()
	r.start()
}

func TestNewerFormatIsRefused(t *testing.T) {
	r := newRig(t, Options{})
	q, _ := r.open(1)
	r.fill(q, 1, 3, 10)
	r.stop()
	if err := errors.Join(r.fs.Remove("data/FORMAT"), vfs.WriteFile(r.fs, "data/FORMAT", []byte("warren messages 2\n"))); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(r.o); !errors.Is(err, ErrFormat) {
		t.Fatalf("directory of a newer format: %v", err)
	}
	if err := errors.Join(r.fs.Remove("data/FORMAT"), vfs.WriteFile(r.fs, "data/FORMAT", []byte("warren messages 1\n"))); err != nil {
		t.Fatal(err)
	}
	b := record.AppendHeader(nil, 2)
	b[8]++
	b = b[:record.HeaderSize-4]
	sum := record.Checksum(b, nil)
	b = append(b, byte(sum), byte(sum>>8), byte(sum>>16), byte(sum>>24))
	if err := vfs.WriteFile(r.fs, "data/journal/0000000002.journal", b); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(r.o); !errors.Is(err, record.ErrFormat) {
		t.Fatalf("journal file of a newer format: %v", err)
	}
	if err := r.fs.Remove("data/journal/0000000002.journal"); err != nil {
		t.Fatal(err)
	}
	r.start()
	q, _ = r.open(1)
	r.check(q, 1, 3)
}

// offset finds the first record in a file that satisfies f.
func (r *rig) offset(path string, file uint64, f func(record.Record) bool) int64 {
	r.t.Helper()
	b, err := vfs.ReadFile(r.fs, path)
	if err != nil {
		r.t.Fatal(err)
	}
	at := int64(-1)
	_, err = record.Scan(b, file, func(off int64, _ int, p []byte) error {
		if rec, err := record.Decode(p); err == nil && at < 0 && f(rec) {
			at = off
		}
		return nil
	}, nil)
	if err != nil || at < 0 {
		r.t.Fatalf("no such record in %s: %v", path, err)
	}
	return at
}

func seqIs(id backingqueue.ID, seq uint64) func(record.Record) bool {
	return func(rec record.Record) bool {
		return rec.Type == record.TypeAppend && rec.Queue == id && rec.Entry.Seq == seq
	}
}

// TestDamageInJournal: a flipped bit in the middle ends the recovery of the queue that lost a record, and of no other; the
// file is set aside and named; the mark stays until the owner takes note.
func TestDamageInJournal(t *testing.T) {
	r := newRig(t, Options{})
	q1, _ := r.open(1)
	q2, _ := r.open(2)
	for i := range uint64(10) {
		r.fill(q1, 1+i, 1, 40)
		r.flush()
		r.fill(q2, 1+i, 1, 40)
		r.flush()
	}
	r.stop()
	file := "data/journal/0000000001.journal"
	if err := r.fs.FlipBit(file, r.offset(file, 1, seqIs(1, 6))+30, 3); err != nil {
		t.Fatal(err)
	}
	for restart := range 2 {
		r.start()
		q1, rec := r.open(1)
		if !rec.Found || !rec.Damaged || !strings.Contains(rec.Detail, file) {
			t.Fatalf("restart %d: %+v", restart, rec)
		}
		r.check(q1, 1, 5)
		q2, rec := r.open(2)
		if !rec.Found || rec.Damaged {
			t.Fatalf("restart %d: the other queue: %+v", restart, rec)
		}
		r.check(q2, 1, 10)
		if aside := r.files("data/aside"); len(aside) != 1 || !strings.Contains(r.log.String(), "data/aside/"+aside[0]) {
			t.Fatalf("restart %d: aside %v, log %s", restart, aside, r.log)
		}
		if restart == 1 {
			if _, err := q1.SetMeta([]byte("noted")); err != nil {
				t.Fatal(err)
			}
			r.fill(q1, 6, 3, 10)
		}
		r.stop()
	}
	r.start()
	q1, rec := r.open(1)
	if rec.Damaged {
		t.Fatalf("after the owner took note: %+v", rec)
	}
	r.check(q1, 1, 8)
}

// TestTornTail: what a crash cut off is cut and logged, and is no damage.
func TestTornTail(t *testing.T) {
	r := newRig(t, Options{})
	q, _ := r.open(1)
	r.fill(q, 1, 10, 40)
	r.flush()
	r.fill(q, 11, 10, 40)
	q.Sync()
	r.flush()
	file := "data/journal/0000000001.journal"
	at := r.offset(file, 1, seqIs(1, 15))
	r.fs.Fault(func(vfs.Op) error { return errDisk })
	_ = r.s.Close()
	r.fs.Fault(nil)
	if err := r.fs.FlipBit(file, at+20, 0); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		r.start()
		q, rec := r.open(1)
		if rec.Damaged || !strings.Contains(r.log.String(), "cutting the torn end") {
			t.Fatalf("%+v, log %s", rec, r.log)
		}
		r.check(q, 1, 14)
		r.stop()
	}
}

// TestDamageAfterCleanClose: after a clean close even the last batch is known to have been durable.
func TestDamageAfterCleanClose(t *testing.T) {
	r := newRig(t, Options{})
	q, _ := r.open(1)
	r.fill(q, 1, 10, 40)
	r.stop()
	file := "data/journal/0000000001.journal"
	if err := r.fs.FlipBit(file, r.offset(file, 1, seqIs(1, 8))+20, 0); err != nil {
		t.Fatal(err)
	}
	r.start()
	q, rec := r.open(1)
	if !rec.Damaged {
		t.Fatalf("%+v", rec)
	}
	r.check(q, 1, 7)
}

// segmented makes a store whose queue 1 has entries in segments.
func segmented(t *testing.T) *rig {
	r := newRig(t, Options{JournalFileSize: 2000, JournalFiles: 1})
	q, _ := r.open(1)
	for seq := uint64(1); seq <= 100; seq++ {
		r.fill(q, seq, 1, 60)
		r.flush()
	}
	if err := r.s.tend(); err != nil {
		t.Fatal(err)
	}
	if n := len(r.s.lookup(1).segs.Files()); n < 3 {
		t.Fatalf("%d segment files", n)
	}
	return r
}

func TestDamageInSegment(t *testing.T) {
	r := segmented(t)
	r.stop()
	file := "data/queues/1/0000000002.segment"
	b, _ := vfs.ReadFile(r.fs, file)
	if err := r.fs.FlipBit(file, int64(len(b)/2), 5); err != nil {
		t.Fatal(err)
	}
	r.start()
	q, rec := r.open(1)
	st := q.Stats()
	if !rec.Damaged || !strings.Contains(rec.Detail, file) || st.Messages >= 100 || st.Messages < 70 || st.NextSeq != 101 {
		t.Fatalf("%+v, %+v", rec, st)
	}
	for seq, ok := q.Next(0); ok; seq, ok = q.Next(seq + 1) {
		if _, held, err := q.Get(seq); !held || err != nil {
			t.Fatalf("get %d: %v %v", seq, held, err)
		}
	}
	if aside := r.files("data/aside"); len(aside) != 1 || !strings.Contains(r.log.String(), aside[0]) {
		t.Fatalf("aside %v, log %s", aside, r.log)
	}
}

func TestMissingSegment(t *testing.T) {
	r := segmented(t)
	r.stop()
	if err := r.fs.Remove("data/queues/1/0000000002.segment"); err != nil {
		t.Fatal(err)
	}
	r.start()
	if _, rec := r.open(1); !rec.Damaged || !strings.Contains(rec.Detail, "0000000002.segment is missing") {
		t.Fatalf("%+v", rec)
	}
}

func TestDamageWhileReading(t *testing.T) {
	r := segmented(t)
	r.stop()
	r.start()
	q, _ := r.open(1)
	file := "data/queues/1/0000000001.segment"
	if err := r.fs.FlipBit(file, r.offset(file, uint64(1|1<<31), seqIs(1, 4))+30, 1); err != nil {
		t.Fatal(err)
	}
	if _, _, err := q.Get(4); !errors.Is(err, backingqueue.ErrDamaged) || !strings.Contains(err.Error(), file) {
		t.Fatalf("get: %v", err)
	}
	if _, held, err := q.Get(5); !held || err != nil {
		t.Fatalf("get of the next: %v", err)
	}
}

func TestSetAside(t *testing.T) {
	r := segmented(t)
	if _, err := r.s.SetAside(1); !errors.Is(err, backingqueue.ErrOpen) {
		t.Fatalf("of an open queue: %v", err)
	}
	r.stop()
	r.start()
	if _, err := r.s.SetAside(7); !errors.Is(err, backingqueue.ErrNotFound) {
		t.Fatalf("of an unknown queue: %v", err)
	}
	path, err := r.s.SetAside(1)
	if err != nil {
		t.Fatal(err)
	}
	entries := 0
	for _, name := range r.files(path) {
		b, err := vfs.ReadFile(r.fs, path+"/"+name)
		if err != nil {
			t.Fatal(err)
		}
		var n uint32
		if _, err := fmt.Sscanf(name, "%d.segment", &n); err != nil {
			continue
		}
		holes, _ := record.Scan(b, uint64(n|1<<31), func(_ int64, _ int, p []byte) error {
			if rec, err := record.Decode(p); err == nil && rec.Type == record.TypeAppend {
				entries++
			}
			return nil
		}, nil)
		if len(holes) > 0 {
			t.Fatalf("%s: %v", name, holes)
		}
	}
	if entries < 100 || len(r.s.IDs()) != 0 {
		t.Fatalf("%d entries set aside, left %v", entries, r.s.IDs())
	}
	r.stop()
	r.start()
	if q, rec := r.open(1); rec.Found || q.Stats().Messages != 0 {
		t.Fatalf("found again: %+v", rec)
	}
	if _, err := r.fs.ReadDir(path); err != nil {
		t.Fatalf("what was set aside: %v", err)
	}
}
