package journal

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"warren/dataplane/backingqueue"
	"warren/dataplane/backingqueue/record"
	"warren/dataplane/vfs"
)

// Limits in bytes.
const (
	// DefaultFileSize bounds a file, one record that is larger excepted.
	DefaultFileSize = 64 << 20
	// chunkSize is the size of the buffers a batch is made of, and of the writes.
	chunkSize = 1 << 20
	// keepChunks is how many empty buffers are kept for the next batches.
	keepChunks = 8
	// allocate is how much of a file is allocated ahead of what is written.
	allocate = 1 << 20
	// soonWithin bounds the wait of SyncSoon.
	soonWithin = 5 * time.Millisecond
	// pushAt is how much unsynced content starts a commit that nobody asked for.
	pushAt = 4 << 20
)

// Options of a Journal.
type Options struct {
	FS       vfs.FS
	Dir      string // must exist
	FileSize int64  // 0: DefaultFileSize
	Log      *slog.Logger
	// OnFatal is called once, from the committer, after a write or sync failed. It must not block on the journal.
	OnFatal func(error)
	// OnCommit is called from the committer after each commit, if set; rotated: a new file was begun. It must not block.
	OnCommit func(rotated bool)
}

// Stream is one queue's place in the journal. Its methods may be called from any goroutine.
type Stream struct {
	onDurable func(uint64)
	durable   atomic.Uint64
	// Guarded by Journal.mu.
	logged  uint64 // the newest change put
	commit  uint64 // what the batch being written brings
	batched bool   // is in the batch being gathered
}

// NewStream returns a stream; onDurable may be nil. It is called from the committer and must not block.
func NewStream(onDurable func(uint64)) *Stream { return &Stream{onDurable: onDurable} }

// Durable is the newest change that is on disk with everything before it.
func (s *Stream) Durable() uint64 { return s.durable.Load() }

// Pos is where a record is.
type Pos struct{ File, Off, Size uint32 }

// File is one file of the journal.
type File struct {
	ID   uint32
	size atomic.Int64 // as put
	live atomic.Int64 // entries that some queue still has here
	f    vfs.File     // nil until the committer made it; guarded by Journal.files

	// Of the committer: what was allocated, 0 if nothing was; whether the file system refused.
	allocated int64
	refused   bool
}

// chunk is a part of a batch: a piece of one file.
type chunk struct {
	file *File
	off  int64
	buf  []byte
}

// Metrics counts since Load.
type Metrics struct {
	Batches uint64 // commits that wrote
	Syncs   uint64 // fdatasync calls
	Bytes   uint64 // written
}

// Journal is the log of one node.
type Journal struct {
	o Options

	mu       sync.Mutex
	wake     sync.Cond // the committer waits here
	flushed  sync.Cond // Flush waits here
	chunks   []chunk   // the batch being gathered
	streams  []*Stream // in it
	pending  int64     // bytes in it
	spare    [][]byte
	cur      *File // records go here; nil before the first
	nextFile uint32
	gen      uint64 // number of the batch being gathered
	doneGen  uint64 // of the last batch that is durable
	kicked   bool
	soon     bool // timer runs
	timer    *time.Timer
	closing  bool
	err      error
	writing  *File // of the committer: what it wrote last

	files struct {
		sync.RWMutex
		m     map[uint32]*File
		order []*File // ascending ID
	}
	committed atomic.Uint64 // Pos up to which all is durable, File<<32|Off
	metrics   struct{ batches, syncs, bytes atomic.Uint64 }
	done      chan struct{}
}

func newJournal(o Options) *Journal {
	if o.FileSize == 0 {
		o.FileSize = DefaultFileSize
	}
	j := &Journal{o: o, gen: 1, nextFile: 1, done: make(chan struct{})}
	j.wake.L, j.flushed.L = &j.mu, &j.mu
	j.files.m = map[uint32]*File{}
	return j
}

// Put adds a record, made of head and body, as part of the stream's change lsn; both are copied. entry says that the
// record is one that Free will be called for. It never waits for the disk.
func (j *Journal) Put(s *Stream, lsn uint64, head, body []byte, entry bool) (Pos, error) {
	sum := record.Checksum(head, body)
	size := record.FrameSize + len(head) + len(body)
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.usable(); err != nil {
		return Pos{}, err
	}
	c := j.room(size)
	pos := Pos{File: c.file.ID, Off: uint32(c.off) + uint32(len(c.buf)), Size: uint32(size)}
	c.buf = record.AppendFrame(c.buf, uint32(len(head)+len(body)), sum)
	c.buf = append(c.buf, head...)
	c.buf = append(c.buf, body...)
	c.file.size.Add(int64(size))
	if entry {
		c.file.live.Add(1)
	}
	j.pending += int64(size)
	j.touch(s, lsn)
	if j.pending >= pushAt {
		j.kick()
	}
	return pos, nil
}

// Touch says that the stream's change lsn needs no record: it is durable with what was put before it.
func (j *Journal) Touch(s *Stream, lsn uint64) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.usable(); err != nil {
		return err
	}
	j.touch(s, lsn)
	return nil
}

func (j *Journal) usable() error {
	if j.err != nil {
		return j.err
	}
	if j.closing {
		return fmt.Errorf("journal: %w", backingqueue.ErrClosed)
	}
	return nil
}

func (j *Journal) touch(s *Stream, lsn uint64) {
	s.logged = lsn
	if !s.batched {
		s.batched = true
		j.streams = append(j.streams, s)
	}
}

func (j *Journal) kick() {
	if !j.kicked {
		j.kicked = true
		j.wake.Signal()
	}
}

// room returns the chunk for size more bytes, beginning a batch, a file or a buffer as needed.
func (j *Journal) room(size int) *chunk {
	rotate := j.cur == nil || j.cur.size.Load() > record.HeaderSize+record.MarkSize &&
		j.cur.size.Load()+int64(size)+record.MarkSize > j.o.FileSize
	if rotate {
		j.cur = &File{ID: j.nextFile}
		j.nextFile++
		j.addFile(j.cur)
	}
	if n := len(j.chunks); !rotate && n > 0 && len(j.chunks[n-1].buf)+size <= cap(j.chunks[n-1].buf) {
		return &j.chunks[n-1]
	}
	first := len(j.chunks) == 0
	buf := j.buffer(size + record.HeaderSize + record.MarkSize)
	off := j.cur.size.Load()
	if rotate {
		buf = record.AppendHeader(buf, uint64(j.cur.ID))
	}
	if rotate || first {
		buf = record.AppendMark(buf, uint64(j.cur.ID), off+int64(len(buf)))
	}
	j.cur.size.Add(int64(len(buf)))
	j.chunks = append(j.chunks, chunk{file: j.cur, off: off, buf: buf})
	return &j.chunks[len(j.chunks)-1]
}

func (j *Journal) buffer(size int) []byte {
	if n := len(j.spare); n > 0 && size <= chunkSize {
		b := j.spare[n-1]
		j.spare = j.spare[:n-1]
		return b
	}
	return make([]byte, 0, max(size, chunkSize))
}

func (j *Journal) addFile(f *File) {
	j.files.Lock()
	defer j.files.Unlock()
	j.files.m[f.ID] = f
	j.files.order = append(j.files.order, f)
}

// Sync asks for a commit of everything put so far, and returns at once.
func (j *Journal) Sync() {
	j.mu.Lock()
	j.kick()
	j.mu.Unlock()
}

// SyncSoon asks for the same within soonWithin.
func (j *Journal) SyncSoon() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.soon || j.kicked || j.closing || j.err != nil {
		return
	}
	j.soon = true
	if j.timer == nil {
		j.timer = time.AfterFunc(soonWithin, j.soonOver)
		return
	}
	j.timer.Reset(soonWithin)
}

// soonOver commits what no other sync has taken along.
func (j *Journal) soonOver() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.soon = false; len(j.chunks) > 0 || len(j.streams) > 0 {
		j.kick()
	}
}

// Flush commits everything put so far and waits for it.
func (j *Journal) Flush() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.err == nil && len(j.chunks) == 0 && len(j.streams) == 0 && j.doneGen+1 == j.gen {
		return nil
	}
	gen := j.gen
	if len(j.chunks) == 0 && len(j.streams) == 0 {
		gen--
	}
	j.kick()
	for j.doneGen < gen && j.err == nil {
		j.flushed.Wait()
	}
	return j.err
}

// Pending is how many bytes wait to be written.
func (j *Journal) Pending() int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.pending
}

// Err is why the journal ended, if a write or sync failed.
func (j *Journal) Err() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.err
}

// Metrics so far.
func (j *Journal) Metrics() Metrics {
	return Metrics{
		Batches: j.metrics.batches.Load(), Syncs: j.metrics.syncs.Load(), Bytes: j.metrics.bytes.Load(),
	}
}

// Close commits what was put, and ends the journal; it waits for the committer.
func (j *Journal) Close() error {
	j.mu.Lock()
	if !j.closing {
		j.closing = true
		j.wake.Signal()
		if j.timer != nil {
			j.timer.Stop() // if it has fired it finds nothing to do
		}
	}
	j.mu.Unlock()
	<-j.done
	return errors.Join(j.Err(), j.closeFiles())
}

// Abandon closes a journal that was loaded and never started.
func (j *Journal) Abandon() error { return j.closeFiles() }
