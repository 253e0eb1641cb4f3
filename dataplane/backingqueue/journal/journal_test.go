package journal

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"warren/dataplane/backingqueue"
	"warren/dataplane/backingqueue/record"
	"warren/dataplane/vfs"
)

func testJournal(t *testing.T, fsys vfs.FS, fileSize int64, visit Visit) *Journal {
	t.Helper()
	if err := fsys.MkdirAll("j"); err != nil {
		t.Fatal(err)
	}
	if visit == nil {
		visit = func(Pos, []byte) error { return nil }
	}
	j, holes, err := Load(Options{FS: fsys, Dir: "j", FileSize: fileSize, Log: slog.New(slog.DiscardHandler)}, visit)
	if err != nil || len(holes) > 0 {
		t.Fatal(err, holes)
	}
	j.Start()
	t.Cleanup(func() { _ = j.Close() })
	return j
}

func payload(n uint64) []byte { return record.Head(nil, record.TypeDelete, 1, n) }

// TestGroupCommit: what gathers while a sync runs shares the next one, and an idle journal syncs nothing.
func TestGroupCommit(t *testing.T) {
	fsys := vfs.NewMem()
	j := testJournal(t, fsys, 0, nil)
	entered, leave := make(chan struct{}, 9), make(chan struct{})
	fsys.Fault(func(op vfs.Op) error {
		if op.Kind == vfs.OpSync {
			entered <- struct{}{}
			<-leave
		}
		return nil
	})
	moved := make(chan uint64, 100)
	s := NewStream(func(lsn uint64) { moved <- lsn })
	put := func(lsn uint64) {
		if _, err := j.Put(s, lsn, payload(lsn), nil, false); err != nil {
			t.Fatal(err)
		}
		j.Sync()
	}
	put(1)
	<-entered
	for lsn := uint64(2); lsn <= 50; lsn++ {
		put(lsn)
	}
	if s.Durable() != 0 {
		t.Fatalf("durable %d while the sync runs", s.Durable())
	}
	leave <- struct{}{}
	if got := <-moved; got != 1 {
		t.Fatalf("the first commit made %d durable", got)
	}
	<-entered
	leave <- struct{}{}
	if got := <-moved; got != 50 || j.Metrics().Syncs != 2 {
		t.Fatalf("the second commit made %d durable, after %d syncs", got, j.Metrics().Syncs)
	}
	if err := j.Flush(); err != nil || fsys.Count(vfs.OpSync) != 2 {
		t.Fatalf("idle: %v, %d syncs", err, fsys.Count(vfs.OpSync))
	}
	close(leave)
}

// TestRotate: files stay within their bound, records within files; Drop takes the oldest only.
func TestRotate(t *testing.T) {
	fsys := vfs.NewMem()
	j := testJournal(t, fsys, 1000, nil)
	s := NewStream(nil)
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range 200 {
				body := make([]byte, (w*200+i)%300)
				if _, err := j.Put(s, 1, payload(1), body, false); err != nil {
					t.Error(err)
				}
				if i%10 == 0 {
					j.Sync()
				}
			}
		})
	}
	wg.Wait()
	if _, err := j.Put(s, 1, payload(1), make([]byte, 5000), false); err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	n := 0
	j = testJournal(t, fsys, 1000, func(Pos, []byte) error { n++; return nil })
	if n != 801 {
		t.Fatalf("%d records", n)
	}
	files := j.Files()
	for _, f := range files {
		if f.Size > 1000+record.MarkSize && f.Size < 5000 {
			t.Errorf("file %d has %d bytes", f.ID, f.Size)
		}
	}
	if err := j.Drop(files[1].ID); !errors.Is(err, backingqueue.ErrOrder) {
		t.Errorf("drop of the second file: %v", err)
	}
	if err := j.Drop(files[0].ID); err != nil || len(j.Files()) != len(files)-1 {
		t.Errorf("drop: %v, %d files left of %d", err, len(j.Files()), len(files))
	}
}

// TestMissingFile: a file that is gone from the middle is a hole.
func TestMissingFile(t *testing.T) {
	fsys := vfs.NewMem()
	j := testJournal(t, fsys, 200, nil)
	for i := range 20 {
		if _, err := j.Put(NewStream(nil), 1, payload(uint64(i)), make([]byte, 50), false); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if err := fsys.Remove(j.Path(2)); err != nil {
		t.Fatal(err)
	}
	_, holes, err := Load(Options{FS: fsys, Dir: "j", Log: slog.New(slog.DiscardHandler)}, func(Pos, []byte) error { return nil })
	if err != nil || fmt.Sprint(holes) != "[{2 0 0}]" {
		t.Fatalf("%v %v", holes, err)
	}
}

// TestAllocatedAhead: the file that is written has room ahead; a crash leaves zeroes there, which are cut without a loss; a
// file that is full and the last one of an orderly end have none.
func TestAllocatedAhead(t *testing.T) {
	fsys := vfs.NewMem()
	size := func(j *Journal, id uint32) int64 {
		t.Helper()
		b, err := vfs.ReadFile(fsys, j.Path(id))
		if err != nil {
			t.Fatal(err)
		}
		return int64(len(b))
	}
	put := func(j *Journal, n int) {
		t.Helper()
		for range n {
			if _, err := j.Put(NewStream(nil), 1, payload(1), make([]byte, 1000), false); err != nil {
				t.Fatal(err)
			}
		}
		if err := j.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	j := testJournal(t, fsys, 3<<20, nil)
	put(j, 10)
	if n := size(j, 1); n < allocate {
		t.Errorf("a file with %d bytes has room for %d", j.Files()[0].Size, n)
	}
	put(j, 4000)
	if files := j.Files(); len(files) != 2 || size(j, 1) != files[0].Size || size(j, 2) <= files[1].Size {
		t.Errorf("files %v, on disk %d and %d", files, size(j, 1), size(j, 2))
	}
	if err := fsys.SyncDir("."); err != nil {
		t.Fatal(err)
	}
	fsys.Crash(rand.New(rand.NewPCG(1, 2)))
	n := 0
	j, holes, err := Load(Options{FS: fsys, Dir: "j", FileSize: 3 << 20, Log: slog.New(slog.DiscardHandler)}, func(Pos, []byte) error { n++; return nil })
	if err != nil || len(holes) > 0 || n != 4010 {
		t.Fatalf("after the crash: %d records, holes %v, %v", n, holes, err)
	}
	j.Start()
	put(j, 1)
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	for _, f := range j.Files() {
		if size(j, f.ID) != f.Size {
			t.Errorf("file %d has %d bytes, on disk %d", f.ID, f.Size, size(j, f.ID))
		}
	}
	if n := size(j, 3); n > 2000 {
		t.Errorf("the last file ends at %d", n)
	}
}

// TestSyncSoon: it comes within its bound, and not at all where another sync has done it.
func TestSyncSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := testJournal(t, vfs.NewMem(), 0, nil)
		durable := make(chan uint64, 4)
		s := NewStream(func(lsn uint64) { durable <- lsn })
		put := func(lsn uint64) {
			t.Helper()
			if _, err := j.Put(s, lsn, payload(lsn), nil, false); err != nil {
				t.Fatal(err)
			}
		}
		start := time.Now()
		put(1)
		j.SyncSoon()
		if lsn := <-durable; lsn != 1 || time.Since(start) != soonWithin {
			t.Errorf("%d durable after %v", lsn, time.Since(start))
		}
		put(2)
		j.SyncSoon()
		j.Sync()
		if start = time.Now(); <-durable != 2 || time.Since(start) != 0 {
			t.Errorf("a sync waited %v", time.Since(start))
		}
		synctest.Wait()
		syncs := j.Metrics().Syncs
		time.Sleep(2 * soonWithin)
		synctest.Wait()
		if n := j.Metrics().Syncs; n != syncs {
			t.Errorf("%d syncs for nothing", n-syncs)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	})
}
