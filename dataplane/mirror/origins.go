package mirror

import (
	"slices"

	"warren/dataplane/backingqueue"
)

// originTable is the table of origins in memory; the backing queue keeps it durably.
type originTable struct {
	byRef map[uint64]*originState
	byID  map[backingqueue.OriginID]*originState
}

// originState is one origin. number is the highest publish number taken; the rest is the present term's.
type originState struct {
	backingqueue.Origin
	attached  bool
	confirmed uint64 // told to the queue process
	due       uint64 // about to be told
}

func (t *originTable) load(os []backingqueue.Origin) {
	t.byRef, t.byID = map[uint64]*originState{}, map[backingqueue.OriginID]*originState{}
	for _, o := range os {
		t.put(o)
	}
}

func (t *originTable) put(o backingqueue.Origin) *originState {
	s := &originState{Origin: o}
	t.byRef[o.Ref], t.byID[o.ID] = s, s
	return s
}

func (t *originTable) drop(s *originState) {
	delete(t.byRef, s.Ref)
	if t.byID[s.ID] == s {
		delete(t.byID, s.ID)
	}
}

// refs are the refs of all origins, ascending.
func (t *originTable) refs() []uint64 {
	refs := make([]uint64, 0, len(t.byRef))
	for ref := range t.byRef {
		refs = append(refs, ref)
	}
	slices.Sort(refs)
	return refs
}

// open applies OriginOpened: the origin is known as ref, and its publishes up to number will not come again.
func (r *Replica) open(ref, number uint64, id backingqueue.OriginID) error {
	s := r.origin.byRef[ref]
	changed := false
	if s == nil {
		s = r.origin.put(backingqueue.Origin{Ref: ref, ID: id, Number: number})
		changed = true
	}
	if number > s.Number {
		s.Number, changed = number, true
	}
	if settled := r.meta.settle(ref, number); settled || ref >= r.meta.nextRef {
		r.meta.nextRef = max(r.meta.nextRef, ref+1)
		if err := r.saveMeta(); err != nil {
			return err
		}
	}
	if !changed {
		return nil
	}
	if _, err := r.q.SetOrigin(s.Origin); err != nil {
		return r.failed("log an origin", err)
	}
	return nil
}

// refuse applies Refused. What is refused is durable before the number that covers it is.
func (r *Replica) refuse(s *originState, number uint64) error {
	r.meta.refuse(s.Ref, number)
	if err := r.saveMeta(); err != nil {
		return err
	}
	s.Number = number
	if _, err := r.q.SetOrigin(s.Origin); err != nil {
		return r.failed("log a refused publish", err)
	}
	return nil
}

// close applies OriginClosed.
func (r *Replica) close(s *originState) error {
	r.origin.drop(s)
	if r.meta.settle(s.Ref, ^uint64(0)) {
		if err := r.saveMeta(); err != nil {
			return err
		}
	}
	if _, err := r.q.CloseOrigin(s.Ref); err != nil {
		return r.failed("close an origin", err)
	}
	return nil
}

// replaceOrigins takes a master's table in place of this copy's.
func (r *Replica) replaceOrigins(lines []originLine) error {
	for _, ref := range r.origin.refs() {
		if _, err := r.q.CloseOrigin(ref); err != nil {
			return r.failed("replace the table of origins", err)
		}
	}
	r.origin.load(nil)
	clear(r.meta.losses)
	clear(r.meta.refused)
	for _, l := range lines {
		r.origin.put(l.origin)
		if l.loss > 0 {
			r.meta.losses[l.origin.Ref] = l.loss
		}
		if len(l.refused) > 0 {
			r.meta.refused[l.origin.Ref] = l.refused
		}
	}
	return r.writeOrigins()
}

// writeOrigins logs the whole table.
func (r *Replica) writeOrigins() error {
	for _, ref := range r.origin.refs() {
		if _, err := r.q.SetOrigin(r.origin.byRef[ref].Origin); err != nil {
			return r.failed("log the table of origins", err)
		}
	}
	return nil
}

// markLoss applies the NewMaster of a promotion that counted a loss: what each origin has published so far is held or lost.
func (r *Replica) markLoss() {
	for ref, s := range r.origin.byRef {
		if s.Number > 0 {
			r.meta.losses[ref] = s.Number
		}
	}
}

// originLines are the table as it goes over the ring.
func (r *Replica) originLines() []originLine {
	refs := r.origin.refs()
	lines := make([]originLine, 0, len(refs))
	for _, ref := range refs {
		lines = append(lines, originLine{
			origin: r.origin.byRef[ref].Origin, loss: r.meta.losses[ref], refused: r.meta.refused[ref],
		})
	}
	return lines
}
