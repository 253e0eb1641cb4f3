package gm

import "fmt"

// Stats is what an operator wants to know of one group's member. All sizes are in bytes.
type Stats struct {
	View        uint64 // version of the newest installed view, 0 before the first
	Members     int
	Fresh       bool // waits for its first Start (R9)
	Expelled    bool
	Closing     int // senders that left and are not closed yet (R8)
	Remembered  int // senders closed but not yet forgotten (R8)
	LogMessages int // messages not yet known to be stable
	LogBytes    int64
	Unstable    int64 // own bulk not yet received by all, against Window
	Window      int64

	Predecessor Neighbour
	Successor   Neighbour
	Unsent      int   // messages that wait for the successor's credit
	Credit      int64 // bytes of bulk that the successor still takes
	Held        int64 // bytes of bulk from the predecessor not yet forwarded and persisted here
	AsideFrames int   // frames of views not installed yet (R5)
	AsideBytes  int64

	Forwarded uint64 // messages sent to successors, repeats after a Start included
	Repeats   uint64 // messages dropped because they were here already (R2)
	Discarded uint64 // frames dropped by R5 or R7
	Raised    uint64 // baselines raised after the first (R9)
	Defects   Defects
}

// Neighbour is one side of the ring.
type Neighbour struct {
	Member  Member // zero if there is none
	Up      bool   // the link is up
	Started bool   // R7
}

// Defects count what the rules say cannot happen. Each one is a bug, here or in a peer; none of them delivers anything.
type Defects struct {
	Gaps        uint64 // R2: a message number was skipped, the link was reset
	StableAhead uint64 // Stable for a message not received, the link was reset
	UnknownView uint64 // a frame of a view that this member never installed, the link was reset
	Overflow    uint64 // KeepAside exceeded, the link was reset
	AfterClose  uint64 // a message of a closed sender (I5), dropped
	CloseAt     uint64 // SenderClosed with another last number than received
	BulkSenders uint64 // R10: two members broadcast bulk at the same time
}

// SenderStats is what this member knows of one sender.
type SenderStats struct {
	Sender    Member
	State     string // "member", "closing" or "closed"
	Received  uint64
	Persisted uint64
	Stable    uint64
	Logged    int // messages of it in the log
}

// Stats is a snapshot; it costs a walk over the senders and the unsent messages.
func (g *Group) Stats() Stats {
	st := Stats{
		View: g.view.Version, Members: len(g.view.Members), Fresh: g.Fresh(), Expelled: g.expelled,
		LogMessages: g.log.count, LogBytes: g.log.bytes, Unstable: g.unstable, Window: int64(g.cfg.Window),
		Predecessor: g.neighbour(g.pred, g.in.started), Successor: g.neighbour(g.succ, g.out.started),
		Credit: g.out.credit, Held: g.held, AsideFrames: len(g.aside.frames), AsideBytes: g.aside.bytes,
		Forwarded: g.forwards, Repeats: g.repeats, Discarded: g.discarded, Raised: g.raised, Defects: g.defects,
	}
	for _, s := range g.senders {
		switch s.state {
		case stateClosing:
			st.Closing++
		case stateRemembered:
			st.Remembered++
		}
	}
	for e := g.out.cursor; e != nil; e = e.next {
		st.Unsent++
	}
	return st
}

func (g *Group) neighbour(s *sender, started bool) Neighbour {
	if s == nil {
		return Neighbour{}
	}
	return Neighbour{Member: s.id, Up: g.linkUp(s.id.Node, s.id.Incarnation), Started: started}
}

// Senders tells the watermarks of every sender that this member knows: how far it lags behind.
func (g *Group) Senders() []SenderStats {
	list := make([]SenderStats, 0, len(g.senders))
	for _, s := range g.senders {
		list = append(list, SenderStats{
			Sender: s.id, State: [...]string{"member", "closing", "closed", "forgotten"}[s.state],
			Received: s.recv, Persisted: s.persisted, Stable: s.stable, Logged: s.logged,
		})
	}
	return list
}

// Describe names the content of a frame for traces, without its body. It never fails.
func Describe(frame []byte) string {
	var p parsed
	if why := p.parse(frame, len(frame)*2+DefaultMaxMessage); why != "" {
		return "malformed: " + why
	}
	name := [...]string{"", "data", "fragment", "progress", "stable", "credit", "resume", "start", "closing", "batch"}[p.typ]
	switch p.typ {
	case frameData:
		return fmt.Sprintf("%s v%d %v:%d class %d", name, p.view, p.ref, p.num, p.class)
	case frameBatch:
		return fmt.Sprintf("%s v%d %v:%d+%d", name, p.view, p.ref, p.num, p.count)
	case frameFragment:
		return fmt.Sprintf("%s v%d %v:%d class %d %d+%d/%d", name, p.view, p.ref, p.num, p.class, p.offset, len(p.body), p.total)
	case frameCredit:
		return fmt.Sprintf("%s v%d session %d returned %d", name, p.view, p.session, p.amount)
	case frameResume:
		name = fmt.Sprintf("%s v%d session %d fresh %v window %d", name, p.view, p.session, p.flag, p.amount)
	case frameStart:
		name = fmt.Sprintf("%s v%d session %d again %v", name, p.view, p.session, p.flag)
	default:
		name = fmt.Sprintf("%s v%d", name, p.view)
	}
	for _, it := range p.items {
		name += fmt.Sprintf(" %v:%d", it.ref, it.a)
		if p.typ == frameProgress || p.typ == frameClosing {
			name += fmt.Sprintf(",%d", it.b)
		}
	}
	return name
}

// String is for traces.
func (f ref) String() string {
	if f.index >= 0 {
		return fmt.Sprintf("#%d", f.index)
	}
	return fmt.Sprintf("%s/%d/%d", f.node, f.inc, f.join)
}
