package segment

import (
	"errors"
	"fmt"
	"io/fs"
	"sync"

	"warren/dataplane/backingqueue"
	"warren/dataplane/backingqueue/record"
	"warren/dataplane/vfs"
)

// Bits that tell the ids of segment files from those of journal files, and volatile ones from both.
const (
	Bit         uint32 = 1 << 31
	VolatileBit uint32 = 1 << 30
)

const (
	suffix         = ".segment"
	volatileSuffix = ".transient"
	// flushAt is how much is gathered before it is written, in bytes.
	flushAt = 1 << 20
)

// Options of a Set.
type Options struct {
	FS       vfs.FS
	Dir      string // the queue's directory; made when the first file is
	MaxSize  int64  // of a file in bytes, one record that is larger excepted
	Volatile bool
}

// Info describes a file of a Set.
type Info struct {
	ID       uint32
	Size     int64 // written
	Entries  int   // ever put into it
	Live     int   // of them, wanted
	Controls bool  // it holds removals or marks
	Active   bool  // the next record goes here
}

// file is one file of a Set; guarded by Set.mu.
type file struct {
	Info
	f        vfs.File
	min, max uint64 // of the entries' seqs, alive or not
}

// Set is one queue's segment files. Append, Control and Commit are for one goroutine at a time; the others may be called
// from any.
type Set struct {
	o Options

	mu     sync.RWMutex
	files  []*file // ascending ID
	next   uint32  // number of the next file, without Bit
	closed bool

	// Of the writer alone.
	buf     []byte
	bufOff  int64
	synced  bool // nothing was written since the last sync: the next record is preceded by a mark
	newName bool
}

// New returns an empty Set; nothing is done on disk before the first record.
func New(o Options) *Set { return &Set{o: o, next: 1, synced: true} }

func (s *Set) bit() uint32 {
	if s.o.Volatile {
		return VolatileBit
	}
	return Bit
}

func (s *Set) path(id uint32) string {
	sfx := suffix
	if s.o.Volatile {
		sfx = volatileSuffix
	}
	return fmt.Sprintf("%s/%010d%s", s.o.Dir, id&^(Bit|VolatileBit), sfx)
}

// Path of a file, for a log line.
func (s *Set) Path(id uint32) string { return s.path(id) }

// Append adds a whole record (frame and payload) that holds the entry seq, and says where it will be. It can be read
// after Commit.
func (s *Set) Append(rec []byte, seq uint64) (id, off uint32, err error) {
	f, err := s.room(len(rec))
	if err != nil {
		return 0, 0, err
	}
	off = uint32(s.bufOff) + uint32(len(s.buf))
	s.buf = append(s.buf, rec...)
	s.mu.Lock()
	if f.Entries == 0 || seq < f.min {
		f.min = seq
	}
	f.max = max(f.max, seq)
	f.Entries++
	s.mu.Unlock()
	return f.ID, off, nil
}

// Control adds a record without an entry, given as its payload.
func (s *Set) Control(payload []byte) error {
	f, err := s.room(record.FrameSize + len(payload))
	if err != nil {
		return err
	}
	s.buf = record.AppendFrame(s.buf, uint32(len(payload)), record.Checksum(payload, nil))
	s.buf = append(s.buf, payload...)
	s.mu.Lock()
	f.Controls = true
	s.mu.Unlock()
	return nil
}

// room makes room for size bytes in the active file, or begins another.
func (s *Set) room(size int) (*file, error) {
	s.mu.RLock()
	var f *file
	if n := len(s.files); n > 0 && s.files[n-1].Active {
		f = s.files[n-1]
	}
	closed := s.closed
	s.mu.RUnlock()
	if closed {
		return nil, fmt.Errorf("write segment: %w", backingqueue.ErrClosed)
	}
	if f != nil && s.bufOff+int64(len(s.buf)+size) > s.o.MaxSize && s.bufOff+int64(len(s.buf)) > record.HeaderSize+record.MarkSize {
		if err := s.Commit(); err != nil {
			return nil, err
		}
		s.Seal()
		f = nil
	}
	if len(s.buf) >= flushAt {
		if err := s.flush(f); err != nil {
			return nil, err
		}
	}
	if f == nil {
		return s.begin()
	}
	if s.synced {
		s.buf = record.AppendMark(s.buf, uint64(f.ID), s.bufOff+int64(len(s.buf)))
		s.synced = false
	}
	return f, nil
}

// begin starts the next file.
func (s *Set) begin() (*file, error) {
	if err := s.o.FS.MkdirAll(s.o.Dir); err != nil {
		return nil, fmt.Errorf("make the queue's directory: %w", err)
	}
	id := s.next | s.bit()
	h, err := s.o.FS.Create(s.path(id))
	if err != nil {
		return nil, fmt.Errorf("begin segment: %w", err)
	}
	f := &file{Info: Info{ID: id, Active: true}, f: h}
	s.mu.Lock()
	s.files = append(s.files, f)
	s.next++
	s.mu.Unlock()
	s.buf, s.bufOff = record.AppendHeader(s.buf[:0], uint64(id)), 0
	s.buf = record.AppendMark(s.buf, uint64(id), int64(len(s.buf)))
	s.synced, s.newName = false, true
	return f, nil
}

func (s *Set) write(f *file) error {
	if _, err := f.f.WriteAt(s.buf, s.bufOff); err != nil {
		return fmt.Errorf("write %s: %w", s.path(f.ID), err)
	}
	s.bufOff += int64(len(s.buf))
	s.buf = s.buf[:0]
	s.mu.Lock()
	f.Size = s.bufOff
	s.mu.Unlock()
	return nil
}

// flush writes what was gathered before a Commit is due. It is given to the disk now: much at once at the Commit would hold up
// whoever waits for a sync of the journal meanwhile.
func (s *Set) flush(f *file) error {
	if err := s.write(f); err != nil || s.o.Volatile {
		return err
	}
	if err := f.f.Sync(); err != nil {
		return fmt.Errorf("sync %s: %w", s.path(f.ID), err)
	}
	return nil
}

// Commit writes what was added and, unless the Set is volatile, makes it durable.
func (s *Set) Commit() error {
	s.mu.RLock()
	var f *file
	if n := len(s.files); n > 0 && s.files[n-1].Active {
		f = s.files[n-1]
	}
	s.mu.RUnlock()
	if f == nil || s.synced && len(s.buf) == 0 {
		return nil
	}
	if err := s.write(f); err != nil {
		return err
	}
	s.synced = true
	if cap(s.buf) > 0 {
		s.buf = nil
	}
	if s.o.Volatile {
		return nil
	}
	if err := f.f.Sync(); err != nil {
		return fmt.Errorf("sync %s: %w", s.path(f.ID), err)
	}
	if s.newName {
		if err := errors.Join(s.o.FS.SyncDir(s.o.Dir), s.o.FS.SyncDir(parent(s.o.Dir))); err != nil {
			return fmt.Errorf("sync the queue's directory: %w", err)
		}
		s.newName = false
	}
	return nil
}

// Seal ends the active file after a Commit: the next record begins another one.
func (s *Set) Seal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.files); n > 0 {
		s.files[n-1].Active = false
	}
	s.buf, s.bufOff = s.buf[:0], 0
}

// Hold says that n more entries of the file are wanted, Free that n fewer are. Free reports whether the file has become
// one that is worth tidying: with nothing wanted, or little of much.
func (s *Set) Hold(id uint32, n int) { s.Free(id, -n) }

// Free is the opposite of Hold.
func (s *Set) Free(id uint32, n int) (tidy bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.find(id)
	if f == nil {
		return false
	}
	before := f.Live
	f.Live -= n
	return before > 0 && f.Live <= 0 || !Sparse(before, f.Entries) && Sparse(f.Live, f.Entries)
}

// Sparse says whether so little of a file is wanted that the rest is worth giving back by writing that little again.
func Sparse(live, entries int) bool { return live*4 < entries }

func (s *Set) find(id uint32) *file {
	for _, f := range s.files {
		if f.ID == id {
			return f
		}
	}
	return nil
}

// ReadAt fills b from a file. fs.ErrNotExist if it was dropped meanwhile: look the entry up again.
func (s *Set) ReadAt(id uint32, b []byte, off int64) (int, error) {
	s.mu.RLock()
	f := s.find(id)
	s.mu.RUnlock()
	if f == nil {
		return 0, fmt.Errorf("read segment %d: %w", id, fs.ErrNotExist)
	}
	return f.f.ReadAt(b, off)
}

// Content is a whole file.
func (s *Set) Content(id uint32) ([]byte, error) {
	b, err := vfs.ReadFile(s.o.FS, s.path(id))
	if err != nil {
		return nil, fmt.Errorf("read segment: %w", err)
	}
	return b, nil
}

// Files are the files there are, oldest first.
func (s *Set) Files() []Info {
	s.mu.RLock()
	defer s.mu.RUnlock()
	is := make([]Info, len(s.files))
	for i, f := range s.files {
		is[i] = f.Info
	}
	return is
}

// State is what a record.State says of the Set.
func (s *Set) State() (next uint32, segments []record.Segment) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, f := range s.files {
		segments = append(segments, record.Segment{File: f.ID, Size: f.Size})
	}
	return s.next, segments
}

// Spans are the seqs, from lowest to highest, of each file older than before (0: of all files) that has entries.
func (s *Set) Spans(before uint32) []backingqueue.Range {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var rs []backingqueue.Range
	for _, f := range s.files {
		if f.Entries > 0 && (before == 0 || f.ID < before) {
			rs = append(rs, backingqueue.Range{First: f.min, Last: f.max})
		}
	}
	return rs
}

// Detach takes a file out of the Set; unlink then deletes it. If it was the active one, the next record begins another.
func (s *Set) Detach(id uint32) (unlink func() error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.find(id)
	if f == nil {
		return func() error { return nil }
	}
	files := make([]*file, 0, len(s.files)-1)
	for _, g := range s.files {
		if g != f {
			files = append(files, g)
		}
	}
	s.files = files
	if f.Active {
		s.buf, s.bufOff, s.synced = s.buf[:0], 0, true
	}
	return func() error {
		if err := errors.Join(f.f.Close(), s.o.FS.Remove(s.path(id))); err != nil {
			return fmt.Errorf("drop segment: %w", err)
		}
		return nil
	}
}

// Close closes the files; nothing can be added or read afterwards.
func (s *Set) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	var err error
	for _, f := range s.files {
		err = errors.Join(err, f.f.Close())
	}
	s.files = nil
	return err
}
