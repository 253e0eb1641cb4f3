package store

import (
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"

	"warren/dataplane/backingqueue"
	"warren/dataplane/backingqueue/journal"
	"warren/dataplane/backingqueue/record"
	"warren/dataplane/vfs"
)

// asideFor is how long what was set aside is kept (design/storage.md).
const asideFor = 7 * 24 * time.Hour

// asidePath is a new name in the directory of what was set aside; it begins with the time, for sweepAside.
func (s *Store) asidePath(name string) string {
	return s.dir("aside", strconv.FormatInt(time.Now().UnixNano(), 10)+"-"+name)
}

// save sets the content of a damaged file aside, and says so.
func (s *Store) save(file string, content []byte) error {
	to := s.asidePath(path.Base(path.Dir(file)) + "-" + path.Base(file))
	if err := vfs.WriteFile(s.fs, to, content); err != nil {
		return fmt.Errorf("set %s aside: %w", file, err)
	}
	if err := s.fs.SyncDir(s.dir("aside")); err != nil {
		return fmt.Errorf("set %s aside: %w", file, err)
	}
	s.log.Error("a damaged file was set aside", "file", file, "aside", to)
	return nil
}

// saveHole sets a damaged journal file aside as it is.
func (s *Store) saveHole(h journal.Hole) error {
	s.log.Error("the journal is damaged", "file", s.j.Path(h.File), "from", h.From, "to", h.To)
	if h.To == 0 {
		return nil // the file is not there at all
	}
	content, err := s.j.Content(h.File)
	if err != nil {
		return err
	}
	return s.save(s.j.Path(h.File), content)
}

// sweepAside deletes what was set aside more than seven days ago. A failure is logged only: nothing depends on it.
func (s *Store) sweepAside() {
	names, err := s.fs.ReadDir(s.dir("aside"))
	if err != nil {
		s.log.Warn("cannot list what was set aside", "err", err)
		return
	}
	for _, name := range names {
		stamp, _, _ := strings.Cut(name, "-")
		ns, err := strconv.ParseInt(stamp, 10, 64)
		if err != nil || time.Since(time.Unix(0, ns)) < asideFor || s.asideInUse(name) {
			continue
		}
		if err := s.fs.RemoveAll(s.dir("aside", name)); err != nil {
			s.log.Warn("cannot delete what was set aside", "file", s.dir("aside", name), "err", err)
			continue
		}
		s.log.Info("deleted what was set aside seven days ago", "file", s.dir("aside", name))
	}
}

// SetAside implements backingqueue.Store; what is known of the queue is its id.
func (s *Store) SetAside(id backingqueue.ID) (string, error) { return s.SetAsideAs(id, Label{}) }

// SetAsideAs is SetAside of a queue about which more is known: what it has is moved to the directory aside/, as segment files, a
// file STATE (one record of that type) and a NOTE (salvage.go), and the store forgets the queue. It waits for the disk. Errors:
// backingqueue.ErrOpen, ErrNotFound.
func (s *Store) SetAsideAs(id backingqueue.ID, l Label) (string, error) {
	to, err := s.setAside(id, l)
	if err != nil {
		return "", fmt.Errorf("set queue %d aside: %w", id, err)
	}
	s.log.Warn("queue was set aside", "queue", uint64(id), "aside", to)
	return to, nil
}

func (s *Store) setAside(id backingqueue.ID, l Label) (string, error) {
	s.mu.Lock()
	q := s.queues[id]
	var err error
	switch {
	case s.closed:
		err = backingqueue.ErrClosed
	case q == nil:
		err = backingqueue.ErrNotFound
	case q.h != nil || q.busy:
		err = backingqueue.ErrOpen
	default:
		q.busy = true
	}
	s.mu.Unlock()
	if err != nil {
		return "", err
	}
	s.work.Lock()
	defer s.work.Unlock()
	to, err := s.carryOff(q, l)
	s.mu.Lock()
	defer s.mu.Unlock()
	q.busy = false
	if err != nil {
		return "", err
	}
	return to, s.forget(q)
}

// carryOff puts all of a queue into its directory and gives that another name. The name goes before the journal forgets
// the queue: whatever happens between, nothing is lost.
func (s *Store) carryOff(q *queue, l Label) (string, error) {
	if err := s.j.Flush(); err != nil {
		return "", err
	}
	if err := q.gather(); err != nil {
		return "", err
	}
	from := s.queueDir(q.id)
	if err := s.fs.MkdirAll(from); err != nil {
		return "", err
	}
	q.mu.Lock()
	head := record.AppendState(record.Head(nil, record.TypeState, q.id, q.number), q.state())
	st := q.stats()
	q.mu.Unlock()
	b := record.AppendFrame(nil, uint32(len(head)), record.Checksum(head, nil))
	if err := vfs.WriteFile(s.fs, from+"/STATE", append(b, head...)); err != nil {
		return "", err
	}
	if err := s.writeNote(from, q.id, l, st.Messages, st.Bytes); err != nil {
		return "", err
	}
	to := s.asidePath("queue-" + strconv.FormatUint(uint64(q.id), 10))
	err := errors.Join(s.fs.SyncDir(from), q.segs.Close(), q.spill.Close(), s.fs.Rename(from, to),
		s.fs.SyncDir(s.dir("aside")), s.fs.SyncDir(s.dir("queues")))
	return to, err
}

// gather copies the entries that are in the journal to the queue's segments, marks what was delivered, and says what of all that
// the segments hold is not the queue's any more: the journal, which said it, does not come along.
func (q *queue) gather() error {
	g := &moving{q: q}
	if err := q.copyJournal(g); err != nil {
		return err
	}
	if err := q.segs.Commit(); err != nil {
		return err
	}
	g.settle()
	return nil
}

// copyJournal adds the entries that are in the journal to the segments. It holds the lock while it reads: nobody has the
// queue open.
func (q *queue) copyJournal(g *moving) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	var delivered []backingqueue.Range
	for seq, ok := q.idx.next(0); ok; seq, ok = q.idx.next(seq + 1) {
		it, _ := q.idx.get(seq)
		if it.delivered {
			delivered = merge(delivered, []backingqueue.Range{{First: seq, Last: seq}})
		}
		if it.file == 0 || it.file&segmentBits != 0 {
			continue
		}
		rec := make([]byte, it.size)
		if _, err := q.st.j.ReadAt(it.file, rec, int64(it.off)); err != nil {
			return err
		}
		if _, err := record.Payload(rec); err != nil {
			return fmt.Errorf("%s at %d: %w", q.st.j.Path(it.file), it.off, err)
		}
		id, off, err := q.segs.Append(rec, seq)
		if err != nil {
			return err
		}
		g.items = append(g.items, moved{seq: seq, from: it.slot, to: slot{file: id, off: off, size: it.size, body: it.body}})
	}
	if err := g.control(record.TypeRemove, q.stillSo(record.TypeRemove, []backingqueue.Range{{Last: ^uint64(0)}})); err != nil {
		return err
	}
	return g.control(record.TypeDelivered, delivered)
}
