package store

import (
	"errors"
	"fmt"
	"iter"
	"strconv"

	"warren/dataplane/backingqueue"
	"warren/dataplane/backingqueue/segment"
)

// SetPartAside keeps a copy of entries of a queue, which may be open, as segment files in a directory of aside/, for as long
// as what SetAside moves there. It returns when all is durable. The caller drops the entries afterwards; if it cannot, they
// are there twice, never lost.
func (s *Store) SetPartAside(id backingqueue.ID, l Label, entries iter.Seq2[backingqueue.Entry, error]) (path string, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("set part of queue %d aside: %w", id, err)
		}
	}()
	to := s.asidePath("queue-" + strconv.FormatUint(uint64(id), 10))
	set := segment.New(segment.Options{FS: s.fs, Dir: to, MaxSize: s.o.JournalFileSize})
	defer func() { err = errors.Join(err, set.Close()) }()
	messages, bytes := 0, int64(0)
	for e, err := range entries {
		if err != nil {
			return "", err
		}
		if _, _, err := set.Append(entryRecord(id, &e), e.Seq); err != nil {
			return "", err
		}
		messages, bytes = messages+1, bytes+int64(len(e.Message.Body))
	}
	if err := set.Commit(); err != nil {
		return "", err
	}
	if err := s.writeNote(to, id, l, messages, bytes); err != nil {
		return "", err
	}
	if err := s.fs.SyncDir(to); err != nil {
		return "", err
	}
	return to, s.fs.SyncDir(s.dir("aside"))
}
