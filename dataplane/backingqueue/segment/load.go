package segment

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"warren/dataplane/backingqueue/record"
	"warren/dataplane/vfs"
)

func parent(dir string) string { return path.Dir(dir) }

// Damage is a part of a file that is not what it was when it was made durable.
type Damage struct {
	ID       uint32
	From, To int64
	Missing  bool // the whole file
}

// Visit is called for each good record, in order.
type Visit func(id uint32, off int64, size int, payload []byte) error

// Load opens the files of a queue in a new Set. state is what the journal last said of them; stated is false if it said
// nothing, and then all are taken as they are. Files that state no longer knows are deleted, torn ends are cut, damage is
// returned: of a damaged file the records before the damage are visited, and the rest is cut after save got the whole.
func (s *Set) Load(state record.State, stated bool, visit Visit, save func(path string, content []byte) error) (
	[]Damage, error,
) {
	names, err := s.o.FS.ReadDir(s.o.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list segments: %w", err)
	}
	s.next = max(1, state.NextSegment)
	var damages []Damage
	var ids []uint32
	for _, name := range names {
		id, ok := s.classify(name, state, stated)
		if !ok {
			if err := s.o.FS.Remove(s.o.Dir + "/" + name); err != nil {
				return nil, fmt.Errorf("remove a left-over segment: %w", err)
			}
			continue
		}
		ids = append(ids, id)
		s.next = max(s.next, id&^Bit+1)
	}
	for _, g := range state.Segments {
		if !slices.Contains(ids, g.File) {
			damages = append(damages, Damage{ID: g.File, To: g.Size, Missing: true})
		}
	}
	var buf []byte
	for i, id := range ids {
		d, err := s.load(id, &buf, i+1 == len(ids), strict(state, id), visit, save)
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
		damages = append(damages, d...)
	}
	return damages, nil
}

// classify reads a name; ok is false for what is to be deleted.
func (s *Set) classify(name string, state record.State, stated bool) (id uint32, ok bool) {
	n, err := strconv.ParseUint(strings.TrimSuffix(name, suffix), 10, 30)
	if err != nil || !strings.HasSuffix(name, suffix) {
		return 0, false
	}
	id = uint32(n) | Bit
	known := slices.ContainsFunc(state.Segments, func(g record.Segment) bool { return g.File == id })
	return id, known || !stated || uint32(n) >= state.NextSegment
}

// strict is how much of a file is known to have been durable.
func strict(state record.State, id uint32) int64 {
	for _, g := range state.Segments {
		if g.File == id {
			return g.Size
		}
	}
	return 0
}

func (s *Set) load(
	id uint32, buf *[]byte, last bool, strict int64, visit Visit, save func(string, []byte) error,
) ([]Damage, error) {
	h, err := s.o.FS.Open(s.path(id))
	if err != nil {
		return nil, fmt.Errorf("open segment: %w", err)
	}
	f := &file{Info: Info{ID: id}, f: h}
	s.files = append(s.files, f)
	content, err := vfs.ReadFileInto(s.o.FS, s.path(id), *buf)
	if err != nil {
		return nil, fmt.Errorf("read segment: %w", err)
	}
	*buf = content
	good, torn, err := s.read(f, content, visit)
	if err != nil {
		return nil, err
	}
	f.Size = good
	end := int64(len(content))
	sound := good == end && good >= strict || torn && last && good >= strict
	if !sound {
		if err := save(s.path(id), content); err != nil {
			return nil, fmt.Errorf("set the damaged segment %s aside: %w", s.path(id), err)
		}
	}
	if err := s.cut(f, good, end); err != nil {
		return nil, err
	}
	if !sound {
		return []Damage{{ID: id, From: good, To: max(end, strict)}}, nil
	}
	if last && good > 0 {
		f.Active = true
		s.bufOff, s.synced = good, true
	}
	return nil, nil
}

// read visits the records up to the first bad one; torn says that nothing proves that what follows had been synced.
func (s *Set) read(f *file, content []byte, visit Visit) (good int64, torn bool, err error) {
	good = int64(len(content))
	if err := record.CheckHeader(content, uint64(f.ID)); errors.Is(err, record.ErrFormat) {
		return 0, false, fmt.Errorf("%s: %w", s.path(f.ID), err)
	} else if err != nil {
		return 0, record.FirstMark(content, uint64(f.ID)) == good, nil
	}
	holes, err := record.Scan(content, uint64(f.ID), func(off int64, size int, p []byte) error {
		if good < int64(len(content)) {
			return nil
		}
		return s.visit(f, off, size, p, visit)
	}, func(h record.Hole) { good = min(good, h.From) })
	return good, len(holes) > 0 && holes[0].Torn, err
}

// cut ends a file at good; a file without a header goes.
func (s *Set) cut(f *file, good, end int64) error {
	if good == 0 {
		s.files = s.files[:len(s.files)-1]
		if err := errors.Join(f.f.Close(), s.o.FS.Remove(s.path(f.ID))); err != nil {
			return fmt.Errorf("remove a segment without a header: %w", err)
		}
		return nil
	}
	if good < end {
		if err := errors.Join(f.f.Truncate(good), f.f.Sync()); err != nil {
			return fmt.Errorf("cut segment %s: %w", s.path(f.ID), err)
		}
	}
	return nil
}

func (s *Set) visit(f *file, off int64, size int, p []byte, visit Visit) error {
	rec, err := record.DecodeSlim(p)
	if err != nil {
		return fmt.Errorf("%s at %d: %w", s.path(f.ID), off, err)
	}
	switch rec.Type {
	case record.TypeAppend, record.TypeInsert:
		if f.Entries == 0 || rec.Entry.Seq < f.min {
			f.min = rec.Entry.Seq
		}
		f.max = max(f.max, rec.Entry.Seq)
		f.Entries++
	default:
		f.Controls = true
	}
	return visit(f.ID, off, size, p)
}
