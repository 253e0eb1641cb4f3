package backingqueue

import (
	"maps"
	"slices"
)

type changeKind uint8

const (
	changeAppend changeKind = iota + 1
	changeInsert
	changeRemove
	changeTruncate
	changeSkip
	changeDelivered
	changeOrigin
	changeCloseOrigin
	changeMeta
)

// change is one call of a changing method of Queue.
type change struct {
	kind   changeKind
	entry  Entry
	ranges []Range
	at     uint64
	origin Origin
	meta   []byte
}

func (c change) seq() uint64 {
	if c.kind == changeAppend || c.kind == changeInsert {
		return c.entry.Seq
	}
	return c.at
}

// memState is a queue's content as plainly as it can be written down.
type memState struct {
	entries map[uint64]Entry
	seqs    []uint64 // ascending keys of entries
	origins map[uint64]Origin
	meta    []byte
	nextSeq uint64
	total   Stats // Messages, Bytes, Persistent and PersistBytes, kept up to date
}

func newMemState() *memState {
	return &memState{entries: map[uint64]Entry{}, origins: map[uint64]Origin{}}
}

func (s *memState) clone() *memState {
	return &memState{
		entries: maps.Clone(s.entries), seqs: slices.Clone(s.seqs),
		origins: maps.Clone(s.origins), meta: s.meta, nextSeq: s.nextSeq, total: s.total,
	}
}

func (s *memState) check(c change) error {
	switch c.kind {
	case changeAppend:
		if c.entry.Seq < s.nextSeq {
			return ErrOrder
		}
	case changeInsert:
		if c.entry.Seq >= s.nextSeq {
			return ErrOrder
		}
		if _, ok := s.entries[c.entry.Seq]; ok {
			return ErrExists
		}
	case changeMeta:
		if len(c.meta) > MaxMeta {
			return ErrTooLarge
		}
	}
	if len(c.entry.Message.Body) > MaxMessage {
		return ErrTooLarge
	}
	return nil
}

func (s *memState) apply(c change) {
	switch c.kind {
	case changeAppend:
		s.put(c.entry)
		s.nextSeq = c.entry.Seq + 1
		if o, ok := s.origins[c.entry.Ref]; ok && o.Number < c.entry.Number {
			o.Number = c.entry.Number
			s.origins[c.entry.Ref] = o
		}
	case changeInsert:
		s.put(c.entry)
	case changeRemove:
		for _, r := range c.ranges {
			s.drop(r)
		}
	case changeTruncate:
		s.truncateEntries(c.at)
		s.nextSeq = c.at
	case changeSkip:
		s.nextSeq = max(s.nextSeq, c.at)
	case changeDelivered:
		for _, r := range c.ranges {
			for i, _ := slices.BinarySearch(s.seqs, r.First); i < len(s.seqs) && s.seqs[i] <= r.Last; i++ {
				e := s.entries[s.seqs[i]]
				e.Delivered = true
				s.entries[s.seqs[i]] = e
			}
		}
	case changeOrigin:
		s.origins[c.origin.Ref] = c.origin
	case changeCloseOrigin:
		delete(s.origins, c.at)
	case changeMeta:
		s.meta = c.meta
	}
}

func (s *memState) count(e Entry, sign int) {
	n := int64(sign * len(e.Message.Body))
	s.total.Messages += sign
	s.total.Bytes += n
	if e.Message.Persistent {
		s.total.Persistent += sign
		s.total.PersistBytes += n
	}
}

func (s *memState) put(e Entry) {
	s.count(e, 1)
	s.entries[e.Seq] = e
	if n := len(s.seqs); n == 0 || s.seqs[n-1] < e.Seq {
		s.seqs = append(s.seqs, e.Seq)
		return
	}
	i, _ := slices.BinarySearch(s.seqs, e.Seq)
	s.seqs = slices.Insert(s.seqs, i, e.Seq)
}

func (s *memState) drop(r Range) {
	if r.Last < r.First {
		return
	}
	i, _ := slices.BinarySearch(s.seqs, r.First)
	j := i
	for j < len(s.seqs) && s.seqs[j] <= r.Last {
		s.count(s.entries[s.seqs[j]], -1)
		delete(s.entries, s.seqs[j])
		j++
	}
	if i == 0 {
		s.seqs = s.seqs[j:]
		return
	}
	s.seqs = slices.Delete(s.seqs, i, j)
}

func (s *memState) truncateEntries(seq uint64) { s.drop(Range{First: seq, Last: ^uint64(0)}) }

func (s *memState) dropTransient() {
	for _, seq := range slices.Clone(s.seqs) {
		if !s.entries[seq].Message.Persistent {
			s.drop(Range{First: seq, Last: seq})
		}
	}
}

func (s *memState) next(from uint64) (uint64, bool) {
	i, _ := slices.BinarySearch(s.seqs, from)
	if i == len(s.seqs) {
		return 0, false
	}
	return s.seqs[i], true
}

func (s *memState) originList() []Origin {
	os := make([]Origin, 0, len(s.origins))
	for _, ref := range slices.Sorted(maps.Keys(s.origins)) {
		os = append(os, s.origins[ref])
	}
	return os
}

func (s *memState) stats() Stats {
	st := s.total
	st.NextSeq, st.MessagesRAM = s.nextSeq, st.Messages
	st.BytesRAM = st.Bytes
	if len(s.seqs) > 0 {
		st.FirstSeq, st.LastSeq = s.seqs[0], s.seqs[len(s.seqs)-1]
	}
	return st
}
