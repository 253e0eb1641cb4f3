package gm

import "math"

type senderState uint8

const (
	stateMember     senderState = iota
	stateClosing                // left the view, not closed yet (R8)
	stateRemembered             // closed, its SenderClosed is not known stable (R8)
	stateForgotten              // only entries and hist still point to it
)

// held is one message that must be made durable here, or whose credit the predecessor waits for.
type held struct {
	num    uint64
	credit int64 // bytes owed to the predecessor: none for own messages and for classes without credit
}

// sender is what a member knows of one sender: the row s of recv, stable, persisted and so on in design/gm.md.
type sender struct {
	id    Member
	index int // place in the view, -1 outside
	state senderState

	recv, stable, persisted uint64

	upKnown        bool // R3: heard from the predecessor in this view
	upRecv, upPers uint64
	told           bool // R3: what the successor was told last, in this view and since its Start
	toldRecv       uint64
	toldPers       uint64
	awaited        uint64 // its receipt is told without durability
	fwd            uint64 // the successor has, or needs not, what is up to here
	stableDirty    bool   // Stable is to be passed on
	stableSent     uint64
	userPersisted  uint64 // highest number given to Persisted
	queue          []held // in order of numbers; [0,owed) is done with, [owed,durable) is durable but not forwarded
	owed, durable  int
	first, last    *entry
	logged         int
	closer         *sender // stateRemembered: who broadcast its SenderClosed, and under which number
	closedAt       uint64
	token          bool // R8: the last token of this view
	tokMin, tokMax uint64
	tokOut         bool   // at the closer: it is under way
	tokStart       uint64 // at the closer: recv when it started
	listed         bool   // scratch of a Start
}

// refreshPersisted recomputes the contiguous watermark: a control message behind an unpersisted bulk one waits for it.
func (s *sender) refreshPersisted() bool {
	for s.durable < len(s.queue) && s.queue[s.durable].num <= s.userPersisted {
		s.durable++
	}
	p := s.recv
	if s.durable < len(s.queue) {
		p = s.queue[s.durable].num - 1
	}
	if p <= s.persisted {
		return false
	}
	s.persisted = p
	return true
}

// forwarded is the highest number that needs not be sent to the successor any more: sent, or no longer in the log.
func (s *sender) forwarded() uint64 {
	if s.first == nil {
		return math.MaxUint64
	}
	return max(s.fwd, s.first.num-1)
}

// settle returns the credit of what is now both forwarded and persisted (R10).
func (s *sender) settle() int64 {
	var n int64
	if s.owed < s.durable {
		f := s.forwarded()
		for s.owed < s.durable && s.queue[s.owed].num <= f {
			n += s.queue[s.owed].credit
			s.owed++
		}
	}
	switch {
	case s.owed == 0:
	case s.owed == len(s.queue):
		s.queue, s.owed, s.durable = s.queue[:0], 0, 0
	case s.owed >= 64 && s.owed*2 >= len(s.queue):
		k := copy(s.queue, s.queue[s.owed:])
		s.queue, s.durable, s.owed = s.queue[:k], s.durable-s.owed, 0
	}
	return n
}

// jump sets the baseline (R9).
func (s *sender) jump(to uint64) {
	s.recv, s.stable = to, to
	s.userPersisted = max(s.userPersisted, to)
	s.persisted = max(s.persisted, to)
	s.refreshPersisted()
}

// newView forgets what belongs to one view (R3, R8).
func (s *sender) newView(keepWatermarks, keepToken bool) {
	if !keepWatermarks {
		s.upKnown, s.upRecv, s.upPers = false, 0, 0
	}
	s.told = false
	if !keepToken {
		s.token = false
	}
	s.tokOut = false
}
