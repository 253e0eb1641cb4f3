package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"sort"

	"warren/dataplane/backingqueue"
	"warren/dataplane/backingqueue/record"
	"warren/dataplane/backingqueue/segment"
	"warren/dataplane/vfs"
)

// Aside is a set that is being read; nobody else reads it, and it is not swept meanwhile. It is for one goroutine. It keeps
// 40 bytes in memory for each message of the set.
type Aside struct {
	Set AsideSet
	// Damage says what of the set cannot be read, one line each; the rest can.
	Damage []string

	s      *Store
	places []asidePlace
	file   vfs.File
	opened uint32
}

// OpenAside opens a set by its name. Errors: backingqueue.ErrNotFound; backingqueue.ErrOpen if somebody reads it.
func (s *Store) OpenAside(name string) (*Aside, error) {
	s.asideMu.Lock()
	busy := s.asideUsed[name]
	if !busy {
		if s.asideUsed == nil {
			s.asideUsed = map[string]bool{}
		}
		s.asideUsed[name] = true
	}
	s.asideMu.Unlock()
	if busy {
		return nil, fmt.Errorf("open what was set aside as %s: %w", name, backingqueue.ErrOpen)
	}
	a, err := s.openAside(name)
	if err != nil {
		s.endAside(name)
		return nil, fmt.Errorf("open what was set aside as %s: %w", name, err)
	}
	return a, nil
}

func (s *Store) endAside(name string) {
	s.asideMu.Lock()
	defer s.asideMu.Unlock()
	delete(s.asideUsed, name)
}

func (s *Store) openAside(name string) (*Aside, error) {
	set, ok, err := s.asideSet(name)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !ok {
		return nil, backingqueue.ErrNotFound
	} else if err != nil {
		return nil, err
	}
	a := &Aside{Set: set, s: s}
	if a.places, a.Damage, err = s.scanAside(set.Path); errors.Is(err, fs.ErrNotExist) {
		return nil, backingqueue.ErrNotFound
	}
	return a, err
}

// Restart forgets what was published again: Messages begins with the first. It is durable with the next Mark.
func (a *Aside) Restart() { a.Set.last, a.Set.Published = 0, 0 }

// Messages are the messages that Mark has not told of, in order.
func (a *Aside) Messages() iter.Seq2[backingqueue.Entry, error] {
	return func(yield func(backingqueue.Entry, error) bool) {
		i := 0
		if a.Set.Published > 0 {
			i = sort.Search(len(a.places), func(i int) bool { return a.places[i].seq > a.Set.last })
		}
		for ; i < len(a.places); i++ {
			e, err := a.read(a.places[i])
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

func (a *Aside) read(p asidePlace) (backingqueue.Entry, error) {
	path := fmt.Sprintf("%s/%010d.segment", a.Set.Path, p.file&^segment.Bit)
	if a.file == nil || a.opened != p.file {
		if err := a.closeFile(); err != nil {
			return backingqueue.Entry{}, err
		}
		f, err := a.s.fs.Open(path)
		if err != nil {
			return backingqueue.Entry{}, fmt.Errorf("read what was set aside: %w", err)
		}
		a.file, a.opened = f, p.file
	}
	b := make([]byte, p.size)
	if _, err := a.file.ReadAt(b, p.off); err != nil {
		return backingqueue.Entry{}, fmt.Errorf("read what was set aside, %s at %d: %w", path, p.off, err)
	}
	payload, err := record.Payload(b)
	if err != nil {
		return backingqueue.Entry{}, fmt.Errorf("read what was set aside, %s at %d: %w", path, p.off, err)
	}
	rec, err := record.Decode(payload)
	if err != nil {
		return backingqueue.Entry{}, fmt.Errorf("read what was set aside, %s at %d: %w", path, p.off, err)
	}
	return rec.Entry, nil
}

// Mark says that n more messages, up to position last, have been published again; it returns when that is durable.
func (a *Aside) Mark(last uint64, n int) error {
	a.Set.last, a.Set.Published = last, a.Set.Published+n
	b, err := json.Marshal(asideProgress{asideVersion, a.Set.last, a.Set.Published})
	if err != nil {
		return fmt.Errorf("mark what was published again: %w", err)
	}
	to := a.Set.Path + "/" + progressFile
	if err = a.s.fs.Remove(to + ".new"); errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err == nil {
		err = vfs.WriteFile(a.s.fs, to+".new", b)
	}
	if err == nil {
		err = errors.Join(a.s.fs.Rename(to+".new", to), a.s.fs.SyncDir(a.Set.Path))
	}
	if err != nil {
		return fmt.Errorf("mark what was published again of %s: %w", a.Set.Path, err)
	}
	return nil
}

// Remove deletes the set; Close follows all the same.
func (a *Aside) Remove() error {
	err := a.closeFile()
	if err == nil {
		err = a.s.fs.RemoveAll(a.Set.Path)
	}
	if err == nil {
		err = a.s.fs.SyncDir(a.s.dir("aside"))
	}
	if err != nil {
		return fmt.Errorf("remove what was set aside as %s: %w", a.Set.Name, err)
	}
	return nil
}

func (a *Aside) closeFile() error {
	f := a.file
	a.file = nil
	if f == nil {
		return nil
	}
	return f.Close()
}

// Close ends use of the set.
func (a *Aside) Close() error {
	a.s.endAside(a.Set.Name)
	return a.closeFile()
}
