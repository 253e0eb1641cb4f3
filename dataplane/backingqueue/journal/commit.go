package journal

import (
	"errors"
	"fmt"

	"warren/dataplane/backingqueue"
	"warren/dataplane/backingqueue/record"
)

// commits is the committer's life; it ends after Close or a failure.
func (j *Journal) commits() {
	defer close(j.done)
	for {
		j.mu.Lock()
		for !j.kicked && !j.closing && j.err == nil {
			j.wake.Wait()
		}
		if j.err != nil {
			j.mu.Unlock()
			return
		}
		j.kicked = false
		last := j.closing && len(j.chunks) == 0 && len(j.streams) == 0
		chunks, streams := j.chunks, j.streams
		j.chunks, j.streams, j.pending = nil, nil, 0
		for _, s := range streams {
			s.commit, s.batched = s.logged, false
		}
		gen := j.gen
		j.gen++
		j.mu.Unlock()
		if last {
			j.finish()
			return
		}
		if err := j.write(chunks); err != nil {
			j.Fail(err)
			return
		}
		j.settle(gen, chunks, streams)
	}
}

// settle spreads the news that a batch is durable.
func (j *Journal) settle(gen uint64, chunks []chunk, streams []*Stream) {
	for _, s := range streams {
		if s.commit > s.durable.Load() {
			s.durable.Store(s.commit)
			if s.onDurable != nil {
				s.onDurable(s.commit)
			}
		}
	}
	j.mu.Lock()
	j.doneGen = gen
	for _, c := range chunks {
		if len(j.spare) < keepChunks && cap(c.buf) <= 2*chunkSize {
			j.spare = append(j.spare, c.buf[:0])
		}
	}
	j.flushed.Broadcast()
	j.mu.Unlock()
}

// write makes a batch durable: each file is synced before anything is written to the next one, and a new file's name
// before the batch counts.
func (j *Journal) write(chunks []chunk) error {
	rotated := false
	for i, c := range chunks {
		if c.off == 0 {
			if err := j.create(c.file); err != nil {
				return err
			}
			rotated = true
		}
		j.reserve(c.file, c.off+int64(len(c.buf)))
		if _, err := c.file.f.WriteAt(c.buf, c.off); err != nil {
			return fmt.Errorf("write journal file %d: %w", c.file.ID, err)
		}
		j.metrics.bytes.Add(uint64(len(c.buf)))
		if i+1 == len(chunks) || chunks[i+1].file != c.file {
			if err := c.file.f.Sync(); err != nil {
				return fmt.Errorf("sync journal file %d: %w", c.file.ID, err)
			}
			j.metrics.syncs.Add(1)
		}
	}
	if rotated {
		if err := j.o.FS.SyncDir(j.o.Dir); err != nil {
			return fmt.Errorf("sync the journal's directory: %w", err)
		}
	}
	if n := len(chunks); n > 0 {
		c := chunks[n-1]
		j.metrics.batches.Add(1)
		j.committed.Store(uint64(c.file.ID)<<32 | uint64(c.off+int64(len(c.buf))))
	}
	if j.o.OnCommit != nil {
		j.o.OnCommit(rotated)
	}
	return nil
}

// reserve allocates the file ahead, up to its bound. Where that fails the file is written as it is: a disk that has no room for
// what is written says so itself.
func (j *Journal) reserve(file *File, end int64) {
	if end <= file.allocated || file.refused {
		return
	}
	ahead := max(end, min(end+allocate, j.o.FileSize))
	if err := file.f.Allocate(ahead); err != nil {
		file.refused = true
		j.o.Log.Debug("a journal file cannot be allocated ahead", "file", file.ID, "err", err)
	}
	file.allocated = ahead
}

// trim gives back what was allocated and not used, once nothing more is written to the file: only the newest file of a
// journal ends in zeroes.
func (j *Journal) trim(file *File) error {
	if file == nil || file.allocated == 0 {
		return nil
	}
	file.allocated = 0
	if err := errors.Join(file.f.Truncate(file.size.Load()), file.f.Sync()); err != nil {
		return fmt.Errorf("end journal file %d: %w", file.ID, err)
	}
	return nil
}

// create begins a file, after the one before it has got its end.
func (j *Journal) create(file *File) error {
	if err := j.trim(j.writing); err != nil {
		return err
	}
	f, err := j.o.FS.Create(j.path(file.ID))
	if err != nil {
		return fmt.Errorf("begin journal file %d: %w", file.ID, err)
	}
	j.files.Lock()
	file.f = f
	j.files.Unlock()
	j.writing = file
	return nil
}

// finish ends the last file with a mark, so that damage in its last batch can be told from a torn end.
func (j *Journal) finish() {
	if j.cur != nil && j.cur.f != nil {
		if err := j.end(j.cur); err != nil {
			j.Fail(err)
		}
	}
	j.mu.Lock()
	j.doneGen = j.gen
	j.flushed.Broadcast()
	j.mu.Unlock()
}

func (j *Journal) end(file *File) error {
	off := file.size.Load()
	mark := record.AppendMark(nil, uint64(file.ID), off)
	if err := j.write([]chunk{{file: file, off: off, buf: mark}}); err != nil {
		return err
	}
	file.size.Add(int64(len(mark)))
	return j.trim(file)
}

// Fail ends the journal because of err, its own or that of something that must not go on without it: what was put and is
// not durable is lost, and every later call returns the error, which wraps backingqueue.ErrFatal.
func (j *Journal) Fail(err error) {
	err = fmt.Errorf("%w: %w", backingqueue.ErrFatal, err)
	j.mu.Lock()
	first := j.err == nil
	if first {
		j.err = err
	}
	j.chunks, j.streams, j.spare = nil, nil, nil
	j.wake.Broadcast()
	j.flushed.Broadcast()
	j.mu.Unlock()
	if !first {
		return
	}
	j.o.Log.Error("storage failed, nothing more is written", "err", err)
	if j.o.OnFatal != nil {
		j.o.OnFatal(err)
	}
}
