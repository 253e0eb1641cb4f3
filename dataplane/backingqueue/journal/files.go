package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"warren/dataplane/backingqueue"
	"warren/dataplane/backingqueue/record"
	"warren/dataplane/vfs"
)

const suffix = ".journal"

func (j *Journal) path(id uint32) string { return fmt.Sprintf("%s/%010d%s", j.o.Dir, id, suffix) }

// Path of a file, for a log line.
func (j *Journal) Path(id uint32) string { return j.path(id) }

// Hole is a part of a journal file that holds no good record. Torn ends are not reported as holes: they are cut.
type Hole struct {
	File     uint32
	From, To int64
}

// Visit is called for each record: file, offset, whole size, payload (valid during the call).
type Visit func(pos Pos, payload []byte) error

// Load opens the journal in o.Dir: it calls visit for every good record, in order, cuts the torn end of the newest file,
// and finds the holes. Nothing can be written before Start. ErrFormat of package record if a file is newer than this build.
func Load(o Options, visit Visit) (*Journal, []Hole, error) {
	j := newJournal(o)
	names, err := o.FS.ReadDir(o.Dir)
	if err != nil {
		return nil, nil, fmt.Errorf("list the journal: %w", err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, droppedSuffix) {
			if err := o.FS.Remove(o.Dir + "/" + name); err != nil {
				return nil, nil, fmt.Errorf("remove what is left of a journal file that was dropped: %w", err)
			}
			continue
		}
		id, err := strconv.ParseUint(strings.TrimSuffix(name, suffix), 10, 32)
		if err != nil || !strings.HasSuffix(name, suffix) {
			o.Log.Warn("unknown file in the journal's directory", "file", name)
			continue
		}
		f, err := o.FS.Open(o.Dir + "/" + name)
		if err != nil {
			return nil, nil, fmt.Errorf("open journal file: %w", err)
		}
		file := &File{ID: uint32(id), f: f}
		j.addFile(file)
		j.nextFile = file.ID + 1
	}
	holes, err := j.inspect(visit)
	if err != nil {
		return nil, nil, errors.Join(err, j.closeFiles())
	}
	j.committed.Store(uint64(j.nextFile) << 32)
	return j, holes, nil
}

func (j *Journal) closeFiles() (err error) {
	j.files.Lock()
	defer j.files.Unlock()
	for _, f := range j.files.order {
		if f.f != nil {
			err = errors.Join(err, f.f.Close())
		}
	}
	j.files.order, j.files.m = nil, map[uint32]*File{}
	return err
}

// inspect reads every file once for its holes, and cuts the torn end.
func (j *Journal) inspect(visit Visit) (holes []Hole, err error) {
	files := j.files.order
	var b []byte
	for i, file := range files {
		if b, err = j.content(file, b); err != nil {
			return nil, err
		}
		if i > 0 && file.ID != files[i-1].ID+1 {
			holes = append(holes, Hole{File: files[i-1].ID + 1})
		}
		last := i+1 == len(files)
		if err := record.CheckHeader(b, uint64(file.ID)); errors.Is(err, record.ErrFormat) {
			return nil, fmt.Errorf("%s: %w", j.path(file.ID), err)
		} else if err != nil {
			if last && record.FirstMark(b, uint64(file.ID)) == int64(len(b)) {
				return holes, j.discard(file)
			}
			holes = append(holes, Hole{File: file.ID, To: record.HeaderSize})
		}
		bad, err := scan(file.ID, b, visit)
		if err != nil {
			return nil, err
		}
		for _, h := range bad {
			if h.Torn && last {
				if err := j.cut(file, h, blank(b[h.From:h.To])); err != nil {
					return nil, err
				}
				continue
			}
			holes = append(holes, Hole{File: file.ID, From: h.From, To: h.To})
		}
	}
	return holes, nil
}

// discard removes the newest file, which a crash left without a header.
func (j *Journal) discard(file *File) error {
	j.o.Log.Warn("removing a journal file that was being begun at the crash", "file", j.path(file.ID))
	err := errors.Join(file.f.Close(), j.o.FS.Remove(j.path(file.ID)), j.o.FS.SyncDir(j.o.Dir))
	if err != nil {
		return fmt.Errorf("remove journal file %d: %w", file.ID, err)
	}
	delete(j.files.m, file.ID)
	j.nextFile = file.ID
	j.files.order = j.files.order[:len(j.files.order)-1]
	return nil
}

// cut ends the newest file before a torn batch, or before what was allocated ahead and not written.
func (j *Journal) cut(file *File, h record.Hole, zeroes bool) error {
	if !zeroes {
		j.o.Log.Warn("cutting the torn end of the journal", "file", j.path(file.ID), "at", h.From, "bytes", h.To-h.From)
	}
	if err := errors.Join(file.f.Truncate(h.From), file.f.Sync()); err != nil {
		return fmt.Errorf("cut journal file %d at %d: %w", file.ID, h.From, err)
	}
	file.size.Store(h.From)
	return nil
}

func blank(b []byte) bool {
	for _, x := range b {
		if x != 0 {
			return false
		}
	}
	return true
}

func (j *Journal) content(file *File, b []byte) ([]byte, error) {
	b, err := j.contentInto(file.ID, b)
	if err != nil {
		return nil, err
	}
	file.size.Store(int64(len(b)))
	return b, nil
}

func scan(id uint32, content []byte, visit Visit) ([]record.Hole, error) {
	return record.Scan(content, uint64(id), func(off int64, size int, p []byte) error {
		return visit(Pos{File: id, Off: uint32(off), Size: uint32(size)}, p)
	}, nil)
}

// Replay calls visit for every good record of every file, in order.
func (j *Journal) Replay(visit Visit) (err error) {
	var b []byte
	for _, file := range j.Files() {
		if b, err = j.contentInto(file.ID, b); err != nil {
			return err
		}
		if _, err := scan(file.ID, b, visit); err != nil {
			return err
		}
	}
	return nil
}

// Content is a whole file. The file must be complete: loaded, or no longer written.
func (j *Journal) Content(id uint32) ([]byte, error) { return j.contentInto(id, nil) }

func (j *Journal) contentInto(id uint32, b []byte) ([]byte, error) {
	b, err := vfs.ReadFileInto(j.o.FS, j.path(id), b)
	if err != nil {
		return nil, fmt.Errorf("read journal file: %w", err)
	}
	return b, nil
}

// Start starts the committer; Put may be called from now on.
func (j *Journal) Start() { go j.commits() }

func (j *Journal) file(id uint32) *File {
	j.files.RLock()
	defer j.files.RUnlock()
	return j.files.m[id]
}

// FileInfo describes a file.
type FileInfo struct {
	ID   uint32
	Size int64
	Live int64 // entries in it that were not freed
}

// Files are the files there are, oldest first. The newest may not be on disk yet.
func (j *Journal) Files() []FileInfo {
	j.files.RLock()
	defer j.files.RUnlock()
	is := make([]FileInfo, len(j.files.order))
	for i, f := range j.files.order {
		is[i] = FileInfo{ID: f.ID, Size: f.size.Load(), Live: f.live.Load()}
	}
	return is
}

// Hold says that n more entries in the file are wanted, Free that n fewer are. An unknown file is ignored.
func (j *Journal) Hold(id uint32, n int) { j.Free(id, -n) }

// Free is the opposite of Hold.
func (j *Journal) Free(id uint32, n int) {
	if f := j.file(id); f != nil {
		f.live.Add(-int64(n))
	}
}

// Written says whether the record at the place is on disk.
func (j *Journal) Written(id, off uint32) bool {
	return uint64(id)<<32|uint64(off) < j.committed.Load()
}

// ReadAt fills b from a file. fs.ErrNotExist or fs.ErrClosed if it was dropped meanwhile: look the entry up again.
func (j *Journal) ReadAt(id uint32, b []byte, off int64) (int, error) {
	j.files.RLock()
	var f vfs.File
	if file := j.files.m[id]; file != nil {
		f = file.f
	}
	j.files.RUnlock()
	if f == nil {
		return 0, fmt.Errorf("read journal file %d: %w", id, fs.ErrNotExist)
	}
	return f.ReadAt(b, off)
}

// Complete are the files that nothing more is written to, oldest first: those before the one that was written last.
func (j *Journal) Complete() []FileInfo {
	files := j.Files()
	current := uint32(j.committed.Load() >> 32)
	for i, f := range files {
		if f.ID >= current {
			return files[:i]
		}
	}
	return files
}

// Drop removes the oldest file, which must have this id and be one of Complete.
func (j *Journal) Drop(id uint32) error {
	j.files.Lock()
	if len(j.files.order) == 0 || j.files.order[0].ID != id {
		j.files.Unlock()
		return fmt.Errorf("drop journal file %d: %w", id, backingqueue.ErrOrder)
	}
	file := j.files.order[0]
	j.files.order = append([]*File(nil), j.files.order[1:]...)
	delete(j.files.m, id)
	f := file.f
	j.files.Unlock()
	if err := j.discardSlowly(f, j.path(id), file.size.Load()); err != nil {
		return fmt.Errorf("drop journal file %d: %w", id, err)
	}
	return nil
}

// A file system that gives 64 MiB back at once holds up every sync meanwhile, up to a tenth of a second on ext4 that discards. So a
// file is given back in steps, under a name by which Load knows that it counts no more.
const (
	droppedSuffix = ".dropped"
	shrinkStep    = 4 << 20
	shrinkPause   = 10 * time.Millisecond
)

// discardSlowly closes and removes a file of that size; its name is gone durably before anything of it is.
func (j *Journal) discardSlowly(f vfs.File, path string, size int64) error {
	if size <= shrinkStep {
		return errors.Join(f.Close(), j.o.FS.Remove(path), j.o.FS.SyncDir(j.o.Dir))
	}
	err := errors.Join(j.o.FS.Rename(path, path+droppedSuffix), j.o.FS.SyncDir(j.o.Dir))
	for n := size - shrinkStep; n > 0 && err == nil; n -= shrinkStep {
		err = f.Truncate(n)
		time.Sleep(shrinkPause)
	}
	return errors.Join(err, f.Close(), j.o.FS.Remove(path+droppedSuffix))
}
