package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"warren/dataplane/backingqueue"
	"warren/dataplane/backingqueue/journal"
	"warren/dataplane/vfs"
)

// Options of Open.
type Options struct {
	// Dir is the node's directory for messages; it is made if need be, and locked while the store is open.
	Dir string
	// FS is the file system; nil: the real one.
	FS vfs.FS
	// Budget is how many bytes of memory message bodies may take; 0: DefaultBudget().
	Budget int64
	// JournalFileSize bounds a journal file and a segment file, in bytes; 0: journal.DefaultFileSize.
	JournalFileSize int64
	// JournalFiles is how many journal files are kept besides the one that is written; 0: 4.
	JournalFiles int
	Log          *slog.Logger
	// OnFatal is called once, from a goroutine of the store, after a write or sync failed: the node must stop. It must
	// not block and must not call Close. Every change of every queue fails with backingqueue.ErrFatal from then on.
	OnFatal func(error)
	// OnFlood is called when Flooded has begun to hold, perhaps repeatedly; nil: nobody wants to know. It must not block.
	OnFlood func()
}

// ErrFormat: the directory was written by a newer build, whose format this one does not know. Nothing was changed.
var ErrFormat = errors.New("data directory has a newer format")

// format is the version of the directory's layout.
const format = 1

// Store keeps a node's queues in a directory. Make one with Open. Its methods may be called from any goroutine.
type Store struct {
	o    Options
	fs   vfs.FS
	log  *slog.Logger
	lock io.Closer
	j    *journal.Journal

	mu     sync.Mutex
	queues map[backingqueue.ID]*queue
	closed bool

	ram atomic.Int64 // bytes of messages in memory, with what holding them costs

	budget   atomic.Int64 // what message bodies in memory are kept to
	work     sync.Mutex   // one mover of records at a time: the janitor, SetAside, recovery
	paging   sync.Mutex   // one writer of transient messages at a time; inside work
	chores   chores
	tendC    chan struct{}                 // wakes the janitor
	pageC    chan struct{}                 // wakes the pager
	calm     atomic.Pointer[chan struct{}] // nil: no flood
	stopping atomic.Bool
	helpers  sync.WaitGroup // janitor and pager

	asideMu   sync.Mutex
	asideUsed map[string]bool // sets that are being read (salvage.go)
}

// Open opens the store in o.Dir and recovers every queue in it. vfs.ErrLocked if another process has it open, ErrFormat if
// a newer build wrote it. It takes time in proportion to what is alive, not to what ever was.
func Open(o Options) (*Store, error) {
	if o.FS == nil {
		o.FS = vfs.OS{}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Budget == 0 {
		o.Budget = DefaultBudget()
	}
	if o.JournalFileSize == 0 {
		o.JournalFileSize = journal.DefaultFileSize
	}
	if o.JournalFiles == 0 {
		o.JournalFiles = 4
	}
	s := &Store{
		o: o, fs: o.FS, log: o.Log, queues: map[backingqueue.ID]*queue{},
		tendC: make(chan struct{}, 1), pageC: make(chan struct{}, 1),
	}
	s.budget.Store(o.Budget)
	if err := s.prepare(); err != nil {
		return nil, fmt.Errorf("open the message store %s: %w", o.Dir, err)
	}
	if err := s.start(); err != nil {
		return nil, errors.Join(fmt.Errorf("open the message store %s: %w", o.Dir, err), s.lock.Close())
	}
	return s, nil
}

func (s *Store) dir(elem ...string) string { return s.o.Dir + "/" + strings.Join(elem, "/") }

// prepare makes the directory, locks it and checks its version.
func (s *Store) prepare() error {
	for _, d := range []string{s.o.Dir, s.dir("journal"), s.dir("queues"), s.dir("aside")} {
		if err := s.fs.MkdirAll(d); err != nil {
			return err
		}
	}
	if err := errors.Join(s.fs.SyncDir(s.o.Dir), s.fs.SyncDir(path.Dir(s.o.Dir))); err != nil {
		return err
	}
	lock, err := s.fs.Lock(s.dir("LOCK"))
	if err != nil {
		return err
	}
	if err := s.checkFormat(); err != nil {
		return errors.Join(err, lock.Close())
	}
	s.lock = lock
	return nil
}

func (s *Store) checkFormat() error {
	b, err := vfs.ReadFile(s.fs, s.dir("FORMAT"))
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(b) == 0 {
		err = s.writeFormat()
		return err
	}
	if err != nil {
		return err
	}
	var v int
	if _, err := fmt.Sscanf(string(b), "warren messages %d\n", &v); err != nil {
		return fmt.Errorf("read %s: %q is no format version: %w", s.dir("FORMAT"), b, backingqueue.ErrDamaged)
	}
	if v > format {
		return fmt.Errorf("format %d, this build reads up to %d: %w", v, format, ErrFormat)
	}
	return nil
}

func (s *Store) writeFormat() error {
	tmp := s.dir("FORMAT.new")
	if err := s.fs.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := vfs.WriteFile(s.fs, tmp, fmt.Appendf(nil, "warren messages %d\n", format)); err != nil {
		return err
	}
	if err := s.fs.Rename(tmp, s.dir("FORMAT")); err != nil {
		return err
	}
	return s.fs.SyncDir(s.o.Dir)
}

func (s *Store) queueDir(id backingqueue.ID) string {
	return s.dir("queues", strconv.FormatUint(uint64(id), 10))
}

// kick wakes a helper without waiting for it.
func (s *Store) kick(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Open implements backingqueue.Store.
func (s *Store) Open(id backingqueue.ID, o backingqueue.Options) (backingqueue.Queue, backingqueue.Recovery, error) {
	h, rec, err := s.open(id, o)
	if err != nil {
		return nil, rec, fmt.Errorf("open queue %d: %w", id, err)
	}
	return h, rec, nil
}

func (s *Store) open(id backingqueue.ID, o backingqueue.Options) (*handle, backingqueue.Recovery, error) {
	if err := s.makeRoom(id); err != nil {
		return nil, backingqueue.Recovery{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, backingqueue.Recovery{}, backingqueue.ErrClosed
	}
	q := s.queues[id]
	if q != nil && (q.h != nil || q.busy) {
		return nil, backingqueue.Recovery{}, backingqueue.ErrOpen
	}
	if q != nil && q.durable && !o.Durable {
		return nil, backingqueue.Recovery{}, fmt.Errorf("as transient, but it is on disk: %w", backingqueue.ErrExists)
	}
	if q == nil {
		q = newQueue(s, id)
	}
	fresh := !q.durable
	rec := backingqueue.Recovery{Found: !fresh, Damaged: q.damaged != "", Detail: q.damaged}
	h, err := q.open(o, fresh)
	if err != nil {
		return nil, backingqueue.Recovery{}, err
	}
	s.queues[id] = q
	return h, rec, nil
}

// IDs implements backingqueue.Store.
func (s *Store) IDs() []backingqueue.ID {
	s.mu.Lock()
	defer s.mu.Unlock()
	ids := []backingqueue.ID{}
	for _, id := range slices.Sorted(maps.Keys(s.queues)) {
		if s.queues[id].durable {
			ids = append(ids, id)
		}
	}
	return ids
}

// Close implements backingqueue.Store.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	qs := slices.Collect(maps.Values(s.queues))
	s.mu.Unlock()
	for _, q := range qs {
		q.shut()
	}
	err := s.j.Flush()
	s.stop()
	err = errors.Join(err, s.j.Close())
	for _, q := range qs {
		err = errors.Join(err, q.segs.Close(), q.spill.Close())
	}
	return errors.Join(err, s.lock.Close())
}
