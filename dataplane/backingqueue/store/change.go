package store

import (
	"encoding/binary"
	"fmt"
	"slices"

	"warren/dataplane/backingqueue"
	"warren/dataplane/backingqueue/record"
)

// do makes one change under the queue's lock.
func (h *handle) do(what string, f func(q *queue) error) (backingqueue.LSN, error) {
	q := h.q
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := h.check(what); err != nil {
		return 0, err
	}
	if err := f(q); err != nil {
		return 0, fmt.Errorf("%s queue %d: %w", what, q.id, err)
	}
	return backingqueue.LSN(q.lsn), nil
}

// Append implements backingqueue.Queue.
func (h *handle) Append(e backingqueue.Entry) (backingqueue.LSN, error) {
	q := h.q
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := h.check("append to"); err != nil {
		return 0, err
	}
	if e.Seq < q.nextSeq {
		return 0, fmt.Errorf("append to queue %d at %d, the next is %d: %w", q.id, e.Seq, q.nextSeq, backingqueue.ErrOrder)
	}
	if err := q.store(&e, record.TypeAppend); err != nil {
		return 0, fmt.Errorf("append to queue %d at %d: %w", q.id, e.Seq, err)
	}
	q.nextSeq = e.Seq + 1
	q.raise(e.Ref, e.Number)
	return backingqueue.LSN(q.lsn), nil
}

// Insert implements backingqueue.Queue.
func (h *handle) Insert(e backingqueue.Entry) (backingqueue.LSN, error) {
	q := h.q
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := h.check("insert into"); err != nil {
		return 0, err
	}
	if e.Seq >= q.nextSeq {
		return 0, fmt.Errorf("insert into queue %d at %d, the next is %d: %w", q.id, e.Seq, q.nextSeq, backingqueue.ErrOrder)
	}
	if _, _, held := q.idx.at(e.Seq); held {
		return 0, fmt.Errorf("insert into queue %d at %d: %w", q.id, e.Seq, backingqueue.ErrExists)
	}
	if err := q.store(&e, record.TypeInsert); err != nil {
		return 0, fmt.Errorf("insert into queue %d at %d: %w", q.id, e.Seq, err)
	}
	return backingqueue.LSN(q.lsn), nil
}

// store logs and holds an entry. Of a transient one only the number is logged.
func (q *queue) store(e *backingqueue.Entry, t record.Type) error {
	if len(e.Message.Body) > backingqueue.MaxMessage {
		return fmt.Errorf("body of %d bytes: %w", len(e.Message.Body), backingqueue.ErrTooLarge)
	}
	var s slot
	var err error
	switch {
	case q.durable && e.Message.Persistent:
		s, err = q.put(record.AppendEntry(q.begin(t), e), e.Message.Body, true)
	case t == record.TypeAppend:
		b := binary.AppendUvarint(q.begin(record.TypePassed), e.Seq)
		b = binary.AppendUvarint(b, e.Ref)
		_, err = q.put(binary.AppendUvarint(b, e.Number), nil, false)
	default:
		err = q.touch()
	}
	if err != nil {
		return err
	}
	q.hold(e, s, true)
	return nil
}

// Remove implements backingqueue.Queue.
func (h *handle) Remove(rs []backingqueue.Range) (backingqueue.LSN, error) {
	return h.do("remove from", func(q *queue) error {
		if err := q.st.j.Err(); err != nil {
			return err
		}
		onDisk := false
		for _, r := range rs {
			onDisk = q.release(r.First, r.Last) || onDisk
		}
		if !onDisk {
			return q.touch()
		}
		_, err := q.put(record.AppendRanges(q.begin(record.TypeRemove), valid(rs)), nil, false)
		return err
	})
}

// valid leaves out ranges that end before they begin.
func valid(rs []backingqueue.Range) []backingqueue.Range {
	if !slices.ContainsFunc(rs, func(r backingqueue.Range) bool { return r.Last < r.First }) {
		return rs
	}
	return slices.DeleteFunc(slices.Clone(rs), func(r backingqueue.Range) bool { return r.Last < r.First })
}

// Truncate implements backingqueue.Queue.
func (h *handle) Truncate(seq uint64) (backingqueue.LSN, error) {
	return h.do("truncate", func(q *queue) error {
		if _, err := q.put(binary.AppendUvarint(q.begin(record.TypeTruncate), seq), nil, false); err != nil {
			return err
		}
		q.release(seq, ^uint64(0))
		q.nextSeq = seq
		return nil
	})
}

// SkipTo implements backingqueue.Queue.
func (h *handle) SkipTo(seq uint64) (backingqueue.LSN, error) {
	return h.do("skip in", func(q *queue) error {
		if seq <= q.nextSeq {
			return q.touch()
		}
		if _, err := q.put(binary.AppendUvarint(q.begin(record.TypeSkip), seq), nil, false); err != nil {
			return err
		}
		q.nextSeq = seq
		return nil
	})
}

// SetDelivered implements backingqueue.Queue.
func (h *handle) SetDelivered(rs []backingqueue.Range) (backingqueue.LSN, error) {
	return h.do("mark delivered in", func(q *queue) error {
		onDisk := false
		for _, r := range rs {
			q.idx.markDelivered(r.First, r.Last, func(it item) { onDisk = onDisk || it.persistent })
		}
		if !onDisk {
			return q.touch()
		}
		_, err := q.put(record.AppendRanges(q.begin(record.TypeDelivered), valid(rs)), nil, false)
		return err
	})
}

// SetOrigin implements backingqueue.Queue.
func (h *handle) SetOrigin(o backingqueue.Origin) (backingqueue.LSN, error) {
	return h.do("set origin of", func(q *queue) error {
		if _, err := q.put(record.AppendOrigin(q.begin(record.TypeOrigin), o), nil, false); err != nil {
			return err
		}
		q.origins[o.Ref] = o
		return nil
	})
}

// CloseOrigin implements backingqueue.Queue.
func (h *handle) CloseOrigin(ref uint64) (backingqueue.LSN, error) {
	return h.do("close origin of", func(q *queue) error {
		if _, ok := q.origins[ref]; !ok {
			return q.touch()
		}
		if _, err := q.put(binary.AppendUvarint(q.begin(record.TypeCloseOrigin), ref), nil, false); err != nil {
			return err
		}
		delete(q.origins, ref)
		return nil
	})
}

// SetMeta implements backingqueue.Queue.
func (h *handle) SetMeta(meta []byte) (backingqueue.LSN, error) {
	return h.do("set meta of", func(q *queue) error {
		if len(meta) > backingqueue.MaxMeta {
			return fmt.Errorf("%d bytes: %w", len(meta), backingqueue.ErrTooLarge)
		}
		b := binary.AppendUvarint(q.begin(record.TypeMeta), uint64(len(meta)))
		if _, err := q.put(append(b, meta...), nil, false); err != nil {
			return err
		}
		q.meta, q.damaged = slices.Clone(meta), ""
		return nil
	})
}

// Sync implements backingqueue.Queue.
func (h *handle) Sync() { h.q.st.j.Sync() }

// SyncSoon implements backingqueue.Queue.
func (h *handle) SyncSoon() { h.q.st.j.SyncSoon() }

// Durable implements backingqueue.Queue.
func (h *handle) Durable() backingqueue.LSN { return backingqueue.LSN(h.stream.Durable()) }

// Last implements backingqueue.Queue.
func (h *handle) Last() backingqueue.LSN {
	h.q.mu.Lock()
	defer h.q.mu.Unlock()
	return backingqueue.LSN(h.q.lsn)
}

// Close implements backingqueue.Queue. It waits for the final sync.
func (h *handle) Close() error {
	q, s := h.q, h.q.st
	q.mu.Lock()
	closed := h.closed
	h.closed = true
	q.mu.Unlock()
	if closed {
		return nil
	}
	err := s.j.Flush()
	s.mu.Lock()
	defer s.mu.Unlock()
	q.shut()
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.durable {
		q.dropTransient()
	} else {
		q.reset()
	}
	if err != nil {
		return fmt.Errorf("close queue %d: %w", q.id, err)
	}
	return nil
}

// Delete implements backingqueue.Queue. It does not wait: the store's janitor gives memory and disk back.
func (h *handle) Delete() error {
	s := h.q.st
	h.q.mu.Lock()
	err := h.check("delete")
	h.closed = true
	h.q.mu.Unlock()
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	h.q.shut()
	return s.forget(h.q)
}
