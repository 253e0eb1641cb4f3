package mirror

import (
	"fmt"
	"maps"
	"slices"

	"warren/dataplane/backingqueue"
	"warren/dataplane/message/wire"
)

const metaVersion = 1

// metaFields is how many fields this version writes; the first had 9.
const metaFields = 13

// Limits of what Meta holds, which together stay below backingqueue.MaxMeta.
const (
	maxEpochs  = 256  // the newest; a message of an older one counts as of the oldest that is left
	maxLosses  = 2500 // origins that published before a loss and have not attached since
	maxRefused = 1000 // runs of refused publishes, all origins together; the oldest of the origin are forgotten
)

// epochStart is one line of the epoch table: epoch gave positions from first on.
type epochStart struct{ epoch, first uint64 }

// floor is what an unsynchronised promotion left behind (mirroring.md, delta): below seq, nothing of epochs before epoch is
// shared history; if seq is not known, nothing of them at all.
type floor struct {
	epoch, seq uint64
	known      bool
}

// meta is the state that a copy keeps durably beside its messages and its table of origins.
type meta struct {
	epochs []epochStart
	floor  floor
	// unreconciled: this copy joined a view and has not been synchronised since; baseline is where its part of the
	// queue begins, once it is known.
	unreconciled  bool
	baseline      uint64
	baselineKnown bool
	nextRef       uint64
	// losses: repeats of the origin up to that number are held or lost (mirroring.md, origins).
	losses map[uint64]uint64
	// refused: publishes of the origin that were nacked, ascending runs.
	refused map[uint64][]backingqueue.Range
	// lacks is how many messages below the baseline this copy did not have when this was written; what it was not told of, it
	// may lack without end.
	lacks shortfall
	// lost is what all promotions of unsynchronised copies have cost the queue.
	lost shortfall
}

// shortfall is a number of messages that are not there; more: and others, nobody knows how many.
type shortfall struct {
	messages uint64
	more     bool
}

// raise takes what another copy knows: it never becomes less.
func (s *shortfall) raise(other shortfall) {
	s.messages, s.more = max(s.messages, other.messages), s.more || other.more
}

func (m *meta) lastEpoch() uint64 {
	if len(m.epochs) == 0 {
		return 0
	}
	return m.epochs[len(m.epochs)-1].epoch
}

// begin notes that epoch gives positions from first on. Epochs that gave none beyond first never happened.
func (m *meta) begin(epoch, first uint64) {
	for n := len(m.epochs); n > 0 && m.epochs[n-1].first >= first; n-- {
		m.epochs = m.epochs[:n-1]
	}
	m.epochs = append(m.epochs, epochStart{epoch, first})
	if n := len(m.epochs) - maxEpochs; n > 0 {
		m.epochs = slices.Clone(m.epochs[n:])
	}
}

// again is where the positions begin that may hold a message which an earlier epoch delivered from another position: what
// only a master that died had was published again under the next one. ok is false if there was no next one.
func (m *meta) again() (from uint64, ok bool) {
	switch {
	case len(m.epochs) == 0:
		return 0, false
	case m.epochs[0].epoch > 1:
		return m.epochs[0].first, true
	case len(m.epochs) == 1:
		return 0, false
	}
	return m.epochs[1].first, true
}

// epochOf is the epoch that gave seq, 0 if that is not known.
func (m *meta) epochOf(seq uint64) uint64 {
	i, found := slices.BinarySearchFunc(m.epochs, seq, func(e epochStart, seq uint64) int {
		switch {
		case e.first < seq:
			return -1
		case e.first > seq:
			return 1
		}
		return 0
	})
	if !found {
		i--
	}
	if i < 0 {
		return 0
	}
	return m.epochs[i].epoch
}

// refuse notes that number was nacked.
func (m *meta) refuse(ref, number uint64) {
	rs := m.refused[ref]
	if n := len(rs); n > 0 && rs[n-1].Last+1 == number {
		rs[n-1].Last = number
		return
	}
	total := 0
	for _, o := range m.refused {
		total += len(o)
	}
	if total >= maxRefused && len(rs) > 0 {
		rs = slices.Delete(rs, 0, 1)
	}
	m.refused[ref] = append(rs, backingqueue.Range{First: number, Last: number})
}

func (m *meta) isRefused(ref, number uint64) bool {
	for _, r := range m.refused[ref] {
		if r.First <= number && number <= r.Last {
			return true
		}
	}
	return false
}

// settle forgets what concerns publishes of ref up to number, which never come again. It reports whether there was any.
func (m *meta) settle(ref, number uint64) bool {
	changed := false
	if l, ok := m.losses[ref]; ok && l <= number {
		delete(m.losses, ref)
		changed = true
	}
	rs := m.refused[ref]
	for len(rs) > 0 && rs[0].Last <= number {
		rs, changed = rs[1:], true
	}
	if len(rs) == 0 {
		delete(m.refused, ref)
	} else {
		m.refused[ref] = rs
	}
	return changed
}

func (m *meta) encode() []byte {
	b := wire.AppendArray(make([]byte, 0, 128), metaFields)
	b = appendFloor(appendEpochs(wire.AppendUint(b, metaVersion), m.epochs), m.floor)
	b = wire.AppendBool(wire.AppendUint(wire.AppendBool(b, m.unreconciled), m.baseline), m.baselineKnown)
	b = wire.AppendUint(b, m.nextRef)
	refs := slices.Sorted(maps.Keys(m.losses))
	refs = refs[max(0, len(refs)-maxLosses):]
	b = wire.AppendArray(b, 2*len(refs))
	for _, ref := range refs {
		b = wire.AppendUint(wire.AppendUint(b, ref), m.losses[ref])
	}
	refs = slices.Sorted(maps.Keys(m.refused))
	refs = refs[max(0, len(refs)-maxRefused):]
	b = wire.AppendArray(b, 2*len(refs))
	for _, ref := range refs {
		b = appendRanges(wire.AppendUint(b, ref), m.refused[ref])
	}
	return appendShortfall(appendShortfall(b, m.lacks), m.lost)
}

func decodeMeta(b []byte) (meta, error) {
	m := meta{losses: map[uint64]uint64{}, refused: map[uint64][]backingqueue.Range{}}
	if len(b) == 0 {
		return m, nil
	}
	r := wire.NewReader(b)
	n := r.Array()
	if v := r.Uint(); r.Err() == nil && (v != metaVersion || n < 9) {
		return m, fmt.Errorf("meta of version %d with %d fields: %w", v, n, ErrDefect)
	}
	m.epochs, m.floor = readEpochs(&r), readFloor(&r)
	m.unreconciled, m.baseline, m.baselineKnown = r.Bool(), r.Uint(), r.Bool()
	m.nextRef = r.Uint()
	for k := r.Array(); k > 1 && r.Err() == nil; k -= 2 {
		ref := r.Uint()
		m.losses[ref] = r.Uint()
	}
	for k := r.Array(); k > 1 && r.Err() == nil; k -= 2 {
		ref := r.Uint()
		m.refused[ref] = readRanges(&r)
	}
	rest := n - 9
	if n >= metaFields {
		m.lacks, m.lost = readShortfall(&r), readShortfall(&r)
		rest = n - metaFields
	} else {
		m.lacks.more = m.unreconciled // an earlier version did not say
	}
	r.SkipN(rest)
	if err := r.Err(); err != nil {
		return m, fmt.Errorf("decode meta: %w", err)
	}
	return m, nil
}

func appendEpochs(b []byte, es []epochStart) []byte {
	b = wire.AppendArray(b, 2*len(es))
	for _, e := range es {
		b = wire.AppendUint(wire.AppendUint(b, e.epoch), e.first)
	}
	return b
}

func readEpochs(r *wire.Reader) []epochStart {
	var es []epochStart
	for n := r.Array(); n > 1 && r.Err() == nil; n -= 2 {
		es = append(es, epochStart{r.Uint(), r.Uint()})
	}
	return es
}

// appendShortfall adds two fields; readShortfall reads them.
func appendShortfall(b []byte, s shortfall) []byte {
	return wire.AppendBool(wire.AppendUint(b, s.messages), s.more)
}

func readShortfall(r *wire.Reader) shortfall { return shortfall{messages: r.Uint(), more: r.Bool()} }

// appendFloor adds one array of three; readFloor reads it.
func appendFloor(b []byte, f floor) []byte {
	b = wire.AppendUint(wire.AppendUint(wire.AppendArray(b, 3), f.epoch), f.seq)
	return wire.AppendBool(b, f.known)
}

func readFloor(r *wire.Reader) floor {
	n := r.Array()
	f := floor{epoch: r.Uint(), seq: r.Uint(), known: r.Bool()}
	r.SkipN(n - 3)
	return f
}
