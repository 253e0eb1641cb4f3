package store

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"

	"warren/dataplane/backingqueue"
	"warren/dataplane/backingqueue/record"
	"warren/dataplane/backingqueue/segment"
	"warren/dataplane/vfs"
)

// Label says of what is set aside what the store does not know.
type Label struct {
	VHost, Name string // of the queue; empty: not known
	Why         string
}

// Files of a set besides its segments. Both are JSON with a field version, which is 1.
const (
	noteFile     = "NOTE"
	progressFile = "PROGRESS"
	asideVersion = 1
)

// asideNote is the content of a NOTE. It is written when all else is durable: a set without one was left by a version that wrote
// none, or was not finished, and then the queue still has what is in it.
type asideNote struct {
	Version  int    `json:"version"`
	Queue    uint64 `json:"queue"`
	VHost    string `json:"vhost,omitempty"`
	Name     string `json:"name,omitempty"`
	Why      string `json:"why,omitempty"`
	Messages int    `json:"messages"`
	Bytes    int64  `json:"bytes"`
}

// asideProgress is the content of a PROGRESS: all up to position Last has been published again.
type asideProgress struct {
	Version  int    `json:"version"`
	Last     uint64 `json:"last"`
	Messages int    `json:"messages"`
}

// AsideSet is what was set aside of one queue at one time.
type AsideSet struct {
	Name  string // unique on this node
	Path  string
	When  time.Time
	Queue backingqueue.ID
	Label
	Noted     bool // false: Label is not known, and perhaps the queue still has the messages
	Messages  int
	Bytes     int64  // of bodies
	Published int    // how many of Messages have been published again
	last      uint64 // position of the last of them
}

func (s *Store) writeNote(dir string, id backingqueue.ID, l Label, messages int, bytes int64) error {
	b, err := json.Marshal(asideNote{asideVersion, uint64(id), l.VHost, l.Name, l.Why, messages, bytes})
	if err != nil {
		return fmt.Errorf("note what is set aside: %w", err)
	}
	if err := s.fs.Remove(dir + "/" + noteFile); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("note what is set aside: %w", err)
	}
	return vfs.WriteFile(s.fs, dir+"/"+noteFile, b)
}

func (s *Store) asideInUse(name string) bool {
	s.asideMu.Lock()
	defer s.asideMu.Unlock()
	return s.asideUsed[name]
}

// Asides are the sets of messages that were set aside on this node, oldest first. It reads sets without a note as a whole.
func (s *Store) Asides() ([]AsideSet, error) {
	names, err := s.fs.ReadDir(s.dir("aside"))
	if err != nil {
		return nil, fmt.Errorf("list what was set aside: %w", err)
	}
	var all []AsideSet
	for _, name := range names {
		set, ok, err := s.asideSet(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it has just been removed
		} else if err != nil {
			return nil, fmt.Errorf("list what was set aside: %s: %w", name, err)
		}
		if ok {
			all = append(all, set)
		}
	}
	slices.SortFunc(all, func(a, b AsideSet) int { return cmp.Or(a.When.Compare(b.When), cmp.Compare(a.Name, b.Name)) })
	return all, nil
}

// asideSet describes one set; ok is false for what is something else, such as a damaged file.
func (s *Store) asideSet(name string) (set AsideSet, ok bool, err error) {
	stamp, rest, _ := strings.Cut(name, "-")
	ns, err := strconv.ParseInt(stamp, 10, 64)
	id, isQueue := strings.CutPrefix(rest, "queue-")
	queue, err2 := strconv.ParseUint(id, 10, 64)
	if err != nil || err2 != nil || !isQueue {
		return set, false, nil
	}
	set = AsideSet{Name: name, Path: s.dir("aside", name), When: time.Unix(0, ns), Queue: backingqueue.ID(queue)}
	var n asideNote
	if set.Noted, err = s.readJSON(set.Path+"/"+noteFile, &n, &n.Version); err != nil {
		return set, false, err
	}
	var p asideProgress
	if _, err = s.readJSON(set.Path+"/"+progressFile, &p, &p.Version); err != nil {
		return set, false, err
	}
	set.Published, set.last = p.Messages, p.Last
	if set.Noted {
		set.Label, set.Messages, set.Bytes = Label{n.VHost, n.Name, n.Why}, n.Messages, n.Bytes
		return set, true, nil
	}
	places, _, err := s.scanAside(set.Path)
	for _, p := range places {
		set.Messages, set.Bytes = set.Messages+1, set.Bytes+p.body
	}
	return set, err == nil, err
}

// readJSON reads a file of a set; there: it exists.
func (s *Store) readJSON(path string, v any, version *int) (there bool, err error) {
	b, err := vfs.ReadFile(s.fs, path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err == nil {
		err = json.Unmarshal(b, v)
	}
	if err == nil && *version != asideVersion {
		err = fmt.Errorf("version %d: %w", *version, record.ErrFormat)
	}
	if err != nil {
		return false, fmt.Errorf("read %s: %w", path, err)
	}
	return true, nil
}

// asidePlace is where a message of a set is.
type asidePlace struct {
	seq       uint64
	body, off int64
	file      uint32
	size      int
}

// scanAside finds the messages of a set, in order. damage says what of it cannot be read.
func (s *Store) scanAside(dir string) (places []asidePlace, damage []string, err error) {
	names, err := s.fs.ReadDir(dir)
	if err != nil {
		return nil, nil, err
	}
	held := map[uint64]asidePlace{}
	for _, name := range names {
		number, isSegment := strings.CutSuffix(name, ".segment")
		n, err := strconv.ParseUint(number, 10, 30)
		if err != nil || !isSegment {
			continue
		}
		content, err := vfs.ReadFile(s.fs, dir+"/"+name)
		if err != nil {
			return nil, nil, err
		}
		id := uint32(n) | segment.Bit
		if err := record.CheckHeader(content, uint64(id)); err != nil {
			damage = append(damage, fmt.Sprintf("%s: %v", name, err))
			continue
		}
		holes, err := record.Scan(content, uint64(id), func(off int64, size int, p []byte) error {
			return holdAside(held, id, off, size, p)
		}, nil)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", name, err)
		}
		for _, h := range holes {
			damage = append(damage, fmt.Sprintf("%s from %d to %d", name, h.From, h.To))
		}
	}
	for _, p := range held {
		places = append(places, p)
	}
	slices.SortFunc(places, func(a, b asidePlace) int { return cmp.Compare(a.seq, b.seq) })
	return places, damage, nil
}

// holdAside applies one record of a set's segments.
func holdAside(held map[uint64]asidePlace, file uint32, off int64, size int, p []byte) error {
	rec, err := record.Decode(p)
	if err != nil {
		return err
	}
	switch rec.Type {
	case record.TypeAppend, record.TypeInsert:
		held[rec.Entry.Seq] = asidePlace{rec.Entry.Seq, int64(len(rec.Entry.Message.Body)), off, file, size}
	case record.TypeRemove:
		for _, r := range rec.Ranges {
			if r.Last-r.First >= uint64(len(held)) {
				for seq := range held {
					if r.First <= seq && seq <= r.Last {
						delete(held, seq)
					}
				}
				continue
			}
			for n := r.Last - r.First; ; n-- {
				delete(held, r.First+n)
				if n == 0 {
					break
				}
			}
		}
	}
	return nil
}
