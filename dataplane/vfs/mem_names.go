package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"

	"golang.org/x/sys/unix"
)

// Remove implements FS.
func (m *Mem) Remove(p string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.remove(p, false)
}

// RemoveAll implements FS.
func (m *Mem) RemoveAll(p string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.remove(p, true); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func (m *Mem) remove(p string, all bool) error {
	if err := m.check(OpRemove, p, 0, 0); err != nil {
		return err
	}
	d, name, err := m.parent(p)
	if err != nil {
		return err
	}
	n := d.dir[name]
	switch {
	case n == nil:
		return &fs.PathError{Op: "remove", Path: p, Err: fs.ErrNotExist}
	case len(n.dir) > 0 && !all:
		return &fs.PathError{Op: "remove", Path: p, Err: unix.ENOTEMPTY}
	}
	m.used -= n.size()
	delete(d.dir, name)
	return nil
}

func (n *node) size() int64 {
	total := int64(len(n.data))
	for _, c := range n.dir {
		total += c.size()
	}
	return total
}

// Rename implements FS.
func (m *Mem) Rename(from, to string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.check(OpRename, from, 0, 0); err != nil {
		return err
	}
	d, name, err := m.parent(from)
	if err != nil {
		return err
	}
	n := d.dir[name]
	if n == nil {
		return &fs.PathError{Op: "rename", Path: from, Err: fs.ErrNotExist}
	}
	d2, name2, err := m.parent(to)
	if err != nil {
		return err
	}
	if old := d2.dir[name2]; old != nil && old != n {
		m.used -= old.size()
	}
	delete(d.dir, name)
	d2.dir[name2] = n
	return nil
}

// MkdirAll implements FS.
func (m *Mem) MkdirAll(p string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.root
	for _, name := range split(p) {
		next := n.dir[name]
		if next == nil {
			next = newDir()
			n.dir[name] = next
		}
		if next.dir == nil {
			return &fs.PathError{Op: "mkdir", Path: p, Err: unix.ENOTDIR}
		}
		n = next
	}
	return nil
}

// ReadDir implements FS.
func (m *Mem) ReadDir(p string) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.find(p)
	if err != nil {
		return nil, err
	}
	return slices.Sorted(maps.Keys(n.dir)), nil
}

// SyncDir implements FS.
func (m *Mem) SyncDir(p string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.check(OpSyncDir, p, 0, 0); err != nil {
		return err
	}
	n, err := m.find(p)
	if err != nil {
		return err
	}
	n.durable = maps.Clone(n.dir)
	return nil
}

type memFile struct {
	m    *Mem
	n    *node
	path string
	gen  int
	lock bool
	shut bool
}

func (f *memFile) alive() error {
	if f.shut || f.gen != f.m.gen {
		return &fs.PathError{Op: "use", Path: f.path, Err: fs.ErrClosed}
	}
	return nil
}

func (f *memFile) ReadAt(b []byte, off int64) (int, error) {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if err := errors.Join(f.alive(), f.m.check(OpRead, f.path, off, len(b))); err != nil {
		return 0, err
	}
	if off >= int64(len(f.n.data)) {
		return 0, io.EOF
	}
	n := copy(b, f.n.data[off:])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

func (f *memFile) WriteAt(b []byte, off int64) (int, error) {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if err := f.alive(); err != nil {
		return 0, err
	}
	err := f.m.check(OpWrite, f.path, off, len(b))
	n := len(b)
	if err != nil {
		n /= 2
	}
	if grow := off + int64(n) - int64(len(f.n.data)); grow > 0 {
		if f.m.limit > 0 && f.m.used+grow > f.m.limit {
			n = int(max(0, int64(n)-(f.m.used+grow-f.m.limit)))
			grow = max(0, off+int64(n)-int64(len(f.n.data)))
			err = fmt.Errorf("write %s: %w", f.path, unix.ENOSPC)
		}
		f.m.used += grow
	}
	if n > 0 {
		w := memWrite{off: off, data: slices.Clone(b[:n])}
		f.n.writes = append(f.n.writes, w)
		f.n.data = w.apply(f.n.data)
	}
	return n, err
}

func (f *memFile) Sync() error {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if err := f.alive(); err != nil {
		return err
	}
	if err := f.m.check(OpSync, f.path, 0, 0); err != nil {
		f.n.writes = nil
		return err
	}
	for _, w := range f.n.writes {
		f.n.synced = w.apply(f.n.synced)
	}
	f.n.writes = nil
	return nil
}

func (f *memFile) Allocate(end int64) error {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if err := errors.Join(f.alive(), f.m.check(OpAllocate, f.path, end, 0)); err != nil {
		return err
	}
	old := int64(len(f.n.data))
	grow := end - old
	switch {
	case grow <= 0:
		return nil
	case f.m.limit > 0 && f.m.used+grow > f.m.limit:
		return fmt.Errorf("allocate for %s: %w", f.path, unix.ENOSPC)
	}
	f.m.used += grow
	w := memWrite{off: old, data: make([]byte, grow)}
	f.n.writes = append(f.n.writes, w)
	f.n.data = w.apply(f.n.data)
	return nil
}

func (f *memFile) Truncate(size int64) error {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if err := errors.Join(f.alive(), f.m.check(OpTruncate, f.path, size, 0)); err != nil {
		return err
	}
	w := memWrite{off: size}
	f.m.used += size - int64(len(f.n.data))
	f.n.writes = append(f.n.writes, w)
	f.n.data = w.apply(f.n.data)
	return nil
}

func (f *memFile) Size() (int64, error) {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	return int64(len(f.n.data)), f.alive()
}

func (f *memFile) Close() error {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if err := f.alive(); err != nil {
		return err
	}
	f.shut = true
	if f.lock {
		f.n.locked = false
	}
	return nil
}
