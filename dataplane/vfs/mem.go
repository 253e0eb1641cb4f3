package vfs

import (
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// OpKind names what a fault function is asked about.
type OpKind uint8

const (
	OpCreate OpKind = iota + 1
	OpOpen
	OpRead
	OpWrite
	OpSync
	OpTruncate
	OpRemove
	OpRename
	OpSyncDir
	OpAllocate
)

// Op is one operation about to happen in a Mem.
type Op struct {
	Kind OpKind
	Path string
	Off  int64
	Size int
}

// Mem is a file system in memory. It keeps apart what is visible and what is durable: Crash leaves what was synced, and
// of the rest whatever the random source picks, torn writes among it.
type Mem struct {
	mu    sync.Mutex
	root  *node
	gen   int // of the last Crash: older handles are dead
	fault func(Op) error
	limit int64 // bytes all files may have together, 0: no limit
	used  int64
	ops   map[OpKind]int
}

type node struct {
	dir     map[string]*node // nil for a file
	durable map[string]*node // names that survive a crash
	data    []byte
	synced  []byte
	writes  []memWrite // since the last sync
	locked  bool
}

type memWrite struct {
	off  int64
	data []byte // nil: truncate to off
}

// NewMem returns an empty file system without a size limit.
func NewMem() *Mem {
	return &Mem{root: newDir(), ops: map[OpKind]int{}}
}

func newDir() *node { return &node{dir: map[string]*node{}, durable: map[string]*node{}} }

// Fault installs a function that is asked before each operation: an error fails it. A write that fails has written the
// first half; a sync that fails has lost, durably, what it should have synced. nil removes it. It is called under the
// file system's lock and must not call it.
func (m *Mem) Fault(f func(Op) error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fault = f
}

// Limit bounds the bytes of all files together: writes beyond it are cut short and fail with ENOSPC. 0: no bound.
func (m *Mem) Limit(n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.limit = n
}

// Count is how many operations of the kind were tried since NewMem.
func (m *Mem) Count(k OpKind) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ops[k]
}

// FlipBit damages one bit of a file, visible and durable, as a failing disk does.
func (m *Mem) FlipBit(p string, off int64, bit uint) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.file(p)
	if err != nil {
		return err
	}
	if off >= int64(len(n.data)) {
		return fmt.Errorf("flip a bit of %s at %d: beyond its end", p, off)
	}
	n.data[off] ^= 1 << (bit & 7)
	if off < int64(len(n.synced)) {
		n.synced[off] ^= 1 << (bit & 7)
	}
	return nil
}

// Crash is a power failure: open files and locks are dead, and what was not synced is there in part, as r picks.
func (m *Mem) Crash(r *rand.Rand) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.gen++
	m.used = 0
	m.crash(m.root, r)
}

func (m *Mem) crash(n *node, r *rand.Rand) {
	if n.dir == nil {
		n.crashFile(r)
		m.used += int64(len(n.data))
		return
	}
	if r.IntN(2) == 0 {
		n.dir = maps.Clone(n.durable)
	} else {
		n.durable = maps.Clone(n.dir)
	}
	for _, name := range slices.Sorted(maps.Keys(n.dir)) {
		m.crash(n.dir[name], r)
	}
}

// crashFile applies some of the writes since the last sync: a prefix of them, the last one cut, and now and then not
// even in order.
func (n *node) crashFile(r *rand.Rand) {
	b := slices.Clone(n.synced)
	ws := n.writes
	if len(ws) > 0 {
		ws = ws[:r.IntN(len(ws)+1)]
	}
	for i, w := range ws {
		if r.IntN(8) == 0 {
			continue
		}
		if i == len(ws)-1 && w.data != nil {
			w.data = w.data[:r.IntN(len(w.data)+1)]
		}
		b = w.apply(b)
	}
	n.data, n.synced, n.writes, n.locked = b, slices.Clone(b), nil, false
}

func (w memWrite) apply(b []byte) []byte {
	end := w.off + int64(len(w.data))
	if w.data == nil && end < int64(len(b)) {
		return b[:end]
	}
	if grow := end - int64(len(b)); grow > 0 {
		b = append(b, make([]byte, grow)...)
	}
	copy(b[w.off:], w.data)
	return b
}

func (m *Mem) check(k OpKind, p string, off int64, size int) error {
	m.ops[k]++
	if m.fault == nil {
		return nil
	}
	if err := m.fault(Op{Kind: k, Path: p, Off: off, Size: size}); err != nil {
		return fmt.Errorf("%s: %w", p, err)
	}
	return nil
}

func split(p string) []string {
	p = strings.Trim(path.Clean("/"+p), "/")
	if p == "" {
		return nil
	}
	return strings.Split(p, "/")
}

func (m *Mem) find(p string) (*node, error) {
	n := m.root
	for _, name := range split(p) {
		next := n.dir[name]
		if next == nil {
			return nil, &fs.PathError{Op: "open", Path: p, Err: fs.ErrNotExist}
		}
		n = next
	}
	return n, nil
}

func (m *Mem) file(p string) (*node, error) {
	n, err := m.find(p)
	if err == nil && n.dir != nil {
		err = &fs.PathError{Op: "open", Path: p, Err: unix.EISDIR}
	}
	return n, err
}

func (m *Mem) parent(p string) (*node, string, error) {
	n, err := m.find(path.Dir("/" + p))
	if err == nil && n.dir == nil {
		err = &fs.PathError{Op: "open", Path: p, Err: unix.ENOTDIR}
	}
	return n, path.Base(p), err
}

// Create implements FS.
func (m *Mem) Create(p string) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.check(OpCreate, p, 0, 0); err != nil {
		return nil, err
	}
	d, name, err := m.parent(p)
	if err != nil {
		return nil, err
	}
	if d.dir[name] != nil {
		return nil, &fs.PathError{Op: "create", Path: p, Err: fs.ErrExist}
	}
	d.dir[name] = &node{}
	return &memFile{m: m, n: d.dir[name], path: p, gen: m.gen}, nil
}

// Open implements FS.
func (m *Mem) Open(p string) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.check(OpOpen, p, 0, 0); err != nil {
		return nil, err
	}
	n, err := m.file(p)
	if err != nil {
		return nil, err
	}
	return &memFile{m: m, n: n, path: p, gen: m.gen}, nil
}

// Lock implements FS.
func (m *Mem) Lock(p string) (io.Closer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	d, name, err := m.parent(p)
	if err != nil {
		return nil, err
	}
	n := d.dir[name]
	if n == nil {
		n = &node{}
		d.dir[name] = n
	}
	if n.locked {
		return nil, fmt.Errorf("lock %s: %w", p, ErrLocked)
	}
	n.locked = true
	return &memFile{m: m, n: n, path: p, gen: m.gen, lock: true}, nil
}

// Space implements FS.
func (m *Mem) Space(string) (Space, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	total := m.limit
	if total == 0 {
		total = 1 << 40
	}
	return Space{Free: uint64(max(0, total-m.used)), Total: uint64(total)}, nil
}
