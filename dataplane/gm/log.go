package gm

// entry is a message in the log. It stands in two lists: the log, in the order of reception (I3 through a hand-over, R7),
// and its sender's, in the order of numbers.
type entry struct {
	s          *sender
	num        uint64
	pos        uint64 // grows along the log
	class      Class
	view       uint64   // the view that frame or frags are encoded for
	frame      []byte   // encoded; the payload aliases it. nil: to be encoded when it is sent
	lazy       bool     // an own one that nobody waits for
	at, of     uint16   // it is the at-th, from 0, of the messages in frame
	frags      [][]byte // a fragmented message as it came in, until it was forwarded once (R11)
	payload    []byte
	prev, next *entry
	after      *entry // the sender's next one
}

func (e *entry) size() int64 { return int64(len(e.payload)) + MessageOverhead }

// Entries kept for reuse: by a group at work, and by one that was cooled, for ten thousand groups may be idle.
const (
	maxFree  = 4096
	keptFree = 32
)

// messageLog is the log of R1–R4: what is received and not yet known stable, all senders together.
type messageLog struct {
	head, tail *entry
	pos        uint64
	count      int
	bytes      int64
	free       *entry
	nfree      int
}

func (l *messageLog) append(s *sender, num uint64, c Class) *entry {
	if l.free == nil {
		l.grow()
	}
	e := l.free
	l.free = e.next
	l.nfree--
	e.next = nil
	l.pos++
	e.s, e.num, e.class, e.pos = s, num, c, l.pos
	e.prev = l.tail
	if l.tail == nil {
		l.head = e
	} else {
		l.tail.next = e
	}
	l.tail = e
	if s.last == nil {
		s.first = e
	} else {
		s.last.after = e
	}
	s.last = e
	s.logged++
	l.count++
	return e
}

// grow makes as many entries as the log holds, within limits: a burst allocates seldom, a quiet group little.
func (l *messageLog) grow() {
	chunk := make([]entry, min(max(l.count, 4), 64))
	for i := range chunk {
		chunk[i].next = l.free
		l.free = &chunk[i]
	}
	l.nfree += len(chunk)
}

// remove takes out e, which must be its sender's first.
func (l *messageLog) remove(e *entry) {
	if e.prev == nil {
		l.head = e.next
	} else {
		e.prev.next = e.next
	}
	if e.next == nil {
		l.tail = e.prev
	} else {
		e.next.prev = e.prev
	}
	e.s.first = e.after
	if e.s.first == nil {
		e.s.last = nil
	}
	e.s.logged--
	l.count--
	l.bytes -= e.size()
	*e = entry{}
	if l.nfree < maxFree {
		e.next = l.free
		l.free = e
		l.nfree++
	}
}
