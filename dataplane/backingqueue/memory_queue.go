package backingqueue

import "fmt"

// change checks, applies and logs one change of an open queue.
func (h *memHandle) change(what string, c change) (LSN, error) {
	h.q.store.mu.Lock()
	defer h.q.store.mu.Unlock()
	if h.closed {
		return 0, fmt.Errorf("%s queue %d: %w", what, h.q.id, ErrClosed)
	}
	if err := h.q.cur.check(c); err != nil {
		return 0, fmt.Errorf("%s queue %d seq %d: %w", what, h.q.id, c.seq(), err)
	}
	h.q.cur.apply(c)
	h.q.pending = append(h.q.pending, c)
	return h.q.last(), nil
}

func (h *memHandle) Append(e Entry) (LSN, error) {
	return h.change("append to", change{kind: changeAppend, entry: e})
}

func (h *memHandle) Insert(e Entry) (LSN, error) {
	return h.change("insert into", change{kind: changeInsert, entry: e})
}

func (h *memHandle) Remove(rs []Range) (LSN, error) {
	return h.change("remove from", change{kind: changeRemove, ranges: append([]Range(nil), rs...)})
}

func (h *memHandle) Truncate(seq uint64) (LSN, error) {
	return h.change("truncate", change{kind: changeTruncate, at: seq})
}

func (h *memHandle) SkipTo(seq uint64) (LSN, error) {
	return h.change("skip in", change{kind: changeSkip, at: seq})
}

func (h *memHandle) SetDelivered(rs []Range) (LSN, error) {
	return h.change("mark delivered in", change{kind: changeDelivered, ranges: append([]Range(nil), rs...)})
}

func (h *memHandle) SetOrigin(o Origin) (LSN, error) {
	return h.change("set origin of", change{kind: changeOrigin, origin: o})
}

func (h *memHandle) CloseOrigin(ref uint64) (LSN, error) {
	return h.change("close origin of", change{kind: changeCloseOrigin, at: ref})
}

func (h *memHandle) SetMeta(meta []byte) (LSN, error) {
	return h.change("set meta of", change{kind: changeMeta, meta: append([]byte(nil), meta...)})
}

func (h *memHandle) Get(seq uint64) (Entry, bool, error) {
	h.q.store.mu.Lock()
	defer h.q.store.mu.Unlock()
	if h.closed {
		return Entry{}, false, fmt.Errorf("get from queue %d: %w", h.q.id, ErrClosed)
	}
	e, ok := h.q.cur.entries[seq]
	return e, ok, nil
}

func (h *memHandle) Has(seq uint64) bool {
	h.q.store.mu.Lock()
	defer h.q.store.mu.Unlock()
	_, ok := h.q.cur.entries[seq]
	return ok && !h.closed
}

func (h *memHandle) Next(from uint64) (uint64, bool) {
	h.q.store.mu.Lock()
	defer h.q.store.mu.Unlock()
	if h.closed {
		return 0, false
	}
	return h.q.cur.next(from)
}

func (h *memHandle) Origins() []Origin {
	h.q.store.mu.Lock()
	defer h.q.store.mu.Unlock()
	return h.q.cur.originList()
}

func (h *memHandle) Meta() []byte {
	h.q.store.mu.Lock()
	defer h.q.store.mu.Unlock()
	return append([]byte(nil), h.q.cur.meta...)
}

func (h *memHandle) Stats() Stats {
	h.q.store.mu.Lock()
	defer h.q.store.mu.Unlock()
	return h.q.cur.stats()
}

// SyncSoon implements Queue: memory is never busy.
func (h *memHandle) SyncSoon() { h.Sync() }

func (h *memHandle) Sync() {
	h.q.store.mu.Lock()
	defer h.q.store.mu.Unlock()
	if h.closed {
		return
	}
	h.q.synced = h.q.last()
	if h.q.store.auto != nil {
		select {
		case h.q.store.auto <- struct{}{}:
		default:
		}
	}
}

func (h *memHandle) Durable() LSN {
	h.q.store.mu.Lock()
	defer h.q.store.mu.Unlock()
	return h.q.durable
}

func (h *memHandle) Last() LSN {
	h.q.store.mu.Lock()
	defer h.q.store.mu.Unlock()
	return h.q.last()
}

func (h *memHandle) Close() error {
	h.q.store.mu.Lock()
	defer h.q.store.mu.Unlock()
	if !h.closed {
		h.q.close()
	}
	return nil
}

func (h *memHandle) Delete() error {
	h.q.store.mu.Lock()
	defer h.q.store.mu.Unlock()
	if h.closed {
		return fmt.Errorf("delete queue %d: %w", h.q.id, ErrClosed)
	}
	h.closed = true
	delete(h.q.store.queues, h.q.id)
	return nil
}
