package store

import (
	"math/rand/v2"
	"testing"

	"warren/dataplane/vfs"
)

// TestReborn: a queue that was deleted, or set aside, and begun again under the same ID is, after a restart, what the new one
// was: a mirror that was dropped comes back under the ID of its queue.
func TestReborn(t *testing.T) {
	for name, end := range map[string]func(r *rig){
		"deleted": func(r *rig) {
			if err := r.s.lookup(1).h.Delete(); err != nil {
				t.Fatal(err)
			}
		},
		"set aside": func(r *rig) {
			if err := r.s.lookup(1).h.Close(); err != nil {
				t.Fatal(err)
			}
			if _, err := r.s.SetAside(1); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := segmented(t)
			for life := range uint64(3) {
				end(r)
				q, rec := r.open(1)
				if rec.Found {
					t.Fatalf("the new queue found %+v", rec)
				}
				r.fill(q, 50, 10+life, 60)
				r.flush()
			}
			for range 2 {
				r.stop()
				r.start()
				q, rec := r.open(1)
				if !rec.Found || rec.Damaged {
					t.Fatalf("recovered %+v", rec)
				}
				r.check(q, 50, 61)
				r.rotate()
				r.check(q, 50, 61)
			}
		})
	}
}

// TestRebornKeepsItsFiles: what is left of the old queue is cleared before the new one has files.
func TestRebornKeepsItsFiles(t *testing.T) {
	r := segmented(t)
	r.s.work.Lock() // the janitor is busy elsewhere
	err := r.s.lookup(1).h.Delete()
	r.s.work.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	q, _ := r.open(1)
	r.fill(q, 50, 30, 60)
	r.flush()
	r.rotate()
	r.stop()
	r.start()
	q, rec := r.open(1)
	if rec.Damaged {
		t.Fatalf("recovered %+v", rec)
	}
	r.check(q, 50, 79)
}

// TestDeletedStaysDeleted: the files that a crash left of a deleted queue, and recovery removed, do not come back with a second
// crash, when the journal no longer says that it was deleted.
func TestDeletedStaysDeleted(t *testing.T) {
	for seed := range uint64(8) {
		r := segmented(t)
		r.fs.Fault(func(op vfs.Op) error { return failOn(op, vfs.OpRemove) }) // the power fails before the files are gone
		if err := r.s.lookup(1).h.Delete(); err != nil {
			t.Fatal(err)
		}
		<-r.fatal
		_ = r.s.Close()
		random := rand.New(rand.NewPCG(seed, 1))
		r.fs.Crash(random)
		r.fs.Fault(nil)
		r.start()
		r.rotate()
		r.fs.Fault(func(vfs.Op) error { return errDisk })
		_ = r.s.Close()
		r.fs.Crash(random)
		r.fs.Fault(nil)
		r.start()
		if q := r.s.lookup(1); q != nil {
			t.Fatalf("seed %d: the queue is back: %q", seed, q.damaged)
		}
	}
}
