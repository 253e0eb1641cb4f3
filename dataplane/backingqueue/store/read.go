package store

import (
	"errors"
	"fmt"
	"io"

	"warren/dataplane/backingqueue"
	"warren/dataplane/backingqueue/record"
	"warren/dataplane/backingqueue/segment"
)

const (
	// windowMin and windowMax bound what is read ahead while a backlog is read in order, in bytes.
	windowMin = 16 << 10
	windowMax = 256 << 10
)

// window is a piece of a file read ahead. Messages alias its buffer, which is never written again.
type window struct {
	file, off uint32
	b         []byte
	ahead     int
	end       uint32 // where the last record read ended
}

// Get implements backingqueue.Queue.
func (h *handle) Get(seq uint64) (backingqueue.Entry, bool, error) {
	var before slot
	for {
		h.q.mu.Lock()
		if err := h.check("get from"); err != nil {
			h.q.mu.Unlock()
			return backingqueue.Entry{}, false, err
		}
		it, ok := h.q.idx.get(seq)
		h.q.mu.Unlock()
		if !ok {
			return backingqueue.Entry{}, false, nil
		}
		if it.ram != nil {
			e := *it.ram
			e.Delivered = it.delivered
			h.read = window{}
			return e, true, nil
		}
		e, err := h.load(seq, it.slot)
		if err == nil {
			e.Delivered = it.delivered
			return e, true, nil
		}
		// The record may have been moved between the look-up and the read: only the same place twice is a failure.
		if it.slot == before {
			return backingqueue.Entry{}, false, fmt.Errorf("get %d from queue %d: %w", seq, h.q.id, err)
		}
		before = it.slot
		h.read = window{}
	}
}

// load reads an entry from its place on disk.
func (h *handle) load(seq uint64, s slot) (backingqueue.Entry, error) {
	w := &h.read
	if w.file != s.file || s.off < w.off || int(s.off-w.off)+int(s.size) > len(w.b) {
		n := int(s.size)
		if w.file == s.file && w.end == s.off {
			w.ahead = min(max(2*w.ahead, windowMin), windowMax)
			n = max(n, w.ahead)
		} else {
			w.ahead = 0
		}
		b := make([]byte, n)
		got, err := h.q.readAt(s.file, b, int64(s.off))
		if got < int(s.size) {
			return backingqueue.Entry{}, errors.Join(io.ErrUnexpectedEOF, err)
		}
		w.file, w.off, w.b = s.file, s.off, b[:got]
	}
	i := s.off - w.off
	w.end = s.off + s.size
	p, err := record.Payload(w.b[i : i+s.size : i+s.size])
	if err != nil {
		return backingqueue.Entry{}, fmt.Errorf("%s at %d: %w", h.q.path(s.file), s.off, err)
	}
	r, err := record.DecodeEntry(p, &h.names)
	if err != nil {
		return backingqueue.Entry{}, fmt.Errorf("%s at %d: %w", h.q.path(s.file), s.off, err)
	}
	if r.Queue != h.q.id || r.Entry.Seq != seq {
		return backingqueue.Entry{}, fmt.Errorf("%s at %d holds message %d of queue %d: %w",
			h.q.path(s.file), s.off, r.Entry.Seq, r.Queue, backingqueue.ErrDamaged)
	}
	return r.Entry, nil
}

func (q *queue) readAt(file uint32, b []byte, off int64) (int, error) {
	switch {
	case file&segment.Bit != 0:
		return q.segs.ReadAt(file, b, off)
	case file&segment.VolatileBit != 0:
		return q.spill.ReadAt(file, b, off)
	}
	return q.st.j.ReadAt(file, b, off)
}

func (q *queue) path(file uint32) string {
	switch {
	case file&segment.Bit != 0:
		return q.segs.Path(file)
	case file&segment.VolatileBit != 0:
		return q.spill.Path(file)
	}
	return q.st.j.Path(file)
}

// Has implements backingqueue.Queue.
func (h *handle) Has(seq uint64) bool {
	h.q.mu.Lock()
	defer h.q.mu.Unlock()
	_, _, ok := h.q.idx.at(seq)
	return ok && !h.closed
}

// Next implements backingqueue.Queue.
func (h *handle) Next(from uint64) (uint64, bool) {
	h.q.mu.Lock()
	defer h.q.mu.Unlock()
	if h.closed {
		return 0, false
	}
	return h.q.idx.next(from)
}

// Origins implements backingqueue.Queue.
func (h *handle) Origins() []backingqueue.Origin {
	h.q.mu.Lock()
	defer h.q.mu.Unlock()
	return h.q.originList()
}

// Meta implements backingqueue.Queue.
func (h *handle) Meta() []byte {
	h.q.mu.Lock()
	defer h.q.mu.Unlock()
	return append([]byte(nil), h.q.meta...)
}

// Stats implements backingqueue.Queue.
func (h *handle) Stats() backingqueue.Stats {
	h.q.mu.Lock()
	defer h.q.mu.Unlock()
	return h.q.stats()
}
