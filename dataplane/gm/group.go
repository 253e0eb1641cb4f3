package gm

import "warren/dataplane/gm/internal/mutation"

// Group is one member's part in one group: a pure state machine (design/gm.md, "Shape of the code"). It has no goroutine
// and no lock: one caller at a time. Every method may append outputs; the caller drains them with Take or Outputs after
// each call, or after several, and carries them out in order. It may call any method while it handles an output.
type Group struct {
	cfg      Config
	rule     mutation.Rule
	view     View
	ring     []*sender // the members of view; sender.index is the place here
	senders  []*sender // ring, closing and remembered, in a fixed order
	ghosts   []*sender // forgotten, but their user has not persisted all of it: their credit is still owed
	me       *sender
	pred     *sender // nil when alone
	succ     *sender
	fresh    bool
	expelled bool

	links []linkID
	in    inLink
	out   outLink
	hist  []viewNames
	aside asideFrames

	log      messageLog
	unstable int64 // own bulk in the log
	control  int64 // own other messages in the log
	held     int64 // predecessor's credit in use

	outputs   []Output
	spare     []Output
	small     int // calls of Take in a row that needed little of a large buffer
	rx        parsed
	scratch   []byte
	wantOpen  bool // somebody got ErrWindowFull
	userDirty bool // the user is to be told of progress
	userRecv  uint64
	userPers  uint64

	forwards, repeats, discarded, raised uint64
	defects                              Defects
}

// linkID names a link that is up.
type linkID struct {
	node        string
	incarnation uint64
}

// viewNames is what the indexes of an older view mean.
type viewNames struct {
	version uint64
	ring    []*sender
}

// maxHist limits how many views a predecessor may lag behind before its frames cannot be read any more.
const maxHist = 256

// New makes a member that has no view yet. Tell it LinkUp for every link that is up already, then Install every view from
// the one that brought it, in order.
func New(cfg Config) *Group { return NewMutated(cfg, mutation.Mutation{}) }

// NewMutated is New with one rule broken. It serves the simulator, which proves with it that it can fail.
func NewMutated(cfg Config, m mutation.Mutation) *Group {
	return &Group{cfg: cfg.withDefaults(), rule: m.Rule, fresh: true}
}

// Install makes v the view of this member (R6). Views come from the metadata log, in order and without omission; one that is
// not newer than the present one, or older than this member, is ignored. Without Config.Self in it, the member is expelled.
func (g *Group) Install(v View) {
	if g.expelled || v.Version <= g.view.Version || v.Version < g.cfg.Self.JoinIndex {
		return
	}
	g.flush()
	if g.in.started {
		g.hist = append(g.hist, viewNames{g.view.Version, g.ring})
		if len(g.hist) > maxHist {
			g.hist = g.hist[1:]
		}
	}
	if !g.newRing(v) {
		g.expel()
		return
	}
	for _, s := range g.senders {
		s.newView(g.rule == mutation.KeepWatermarks, g.rule == mutation.OldToken)
	}
	if g.rule != mutation.OldToken {
		g.out.dropTokens()
	}
	g.out.pending.session = 0 // it was of an older view
	g.emit(Output{Kind: ViewInstalled, View: g.view, Number: g.me.stable})
	if g.fresh && g.me.index == 0 {
		g.grow()
	}
	switch {
	case len(g.ring) == 1:
		g.alone()
	case g.me.index == 0:
		g.startTokens()
	}
	if g.rule == mutation.KeepWatermarks {
		g.complete()
	}
	g.sendResume()
	g.replayAside()
	g.check()
}

// newRing replaces the ring by v's and says whether this member is in it.
func (g *Group) newRing(v View) bool {
	old := g.ring
	g.view = View{Version: v.Version, Members: append([]Member(nil), v.Members...)}
	for _, s := range old {
		s.index, s.state = -1, stateClosing
	}
	g.ring = make([]*sender, 0, len(v.Members))
	g.me = nil
	for i, m := range g.view.Members {
		s := g.find(m)
		if s == nil {
			s = &sender{id: m}
			g.senders = append(g.senders, s)
		}
		s.index, s.state = i, stateMember
		g.ring = append(g.ring, s)
		if m == g.cfg.Self {
			g.me = s
		}
	}
	if g.me == nil {
		return false
	}
	var pred, succ *sender
	if n := len(g.ring); n > 1 {
		pred, succ = g.ring[(g.me.index+n-1)%n], g.ring[(g.me.index+1)%n]
	}
	if pred != g.pred {
		g.pred = pred
		if g.rule != mutation.KeepStarted || pred == nil {
			g.stopIn()
		}
	}
	if succ != g.succ {
		g.succ = succ
		g.stopOut()
	}
	return true
}

// expel ends this member (R6).
func (g *Group) expel() {
	*g = Group{
		cfg: g.cfg, rule: g.rule, view: g.view, expelled: true, outputs: g.outputs, spare: g.spare, aside: g.aside,
		discarded: g.discarded, defects: g.defects,
	}
	g.emit(Output{Kind: Expelled})
}

// alone applies what holds in a view of one member: its own numbers are the numbers, at once (R4), and senders close (R8).
func (g *Group) alone() {
	for i := 0; i < len(g.senders); {
		s := g.senders[i]
		if s == g.me {
			i++
			continue
		}
		if s.state == stateClosing {
			g.emit(Output{Kind: SenderClosed, Sender: s.id, Number: s.recv})
		}
		s.stable = s.recv
		g.dropStable(s)
		g.forget(s)
	}
	g.complete()
}

// grow ends freshness at the oldest member of a view (R9): its baseline is what it has.
func (g *Group) grow() {
	g.fresh = false
	base := make([]Baseline, 0, len(g.senders))
	for _, s := range g.senders {
		base = append(base, Baseline{s.id, s.recv})
	}
	g.emit(Output{Kind: Joined, Baselines: base})
}

func (g *Group) emit(o Output) { g.outputs = append(g.outputs, o) }

func (g *Group) find(m Member) *sender {
	for _, s := range g.senders {
		if s.id == m {
			return s
		}
	}
	return nil
}

func (g *Group) findRef(r ref) *sender {
	for _, s := range g.senders {
		if r.is(s.id) {
			return s
		}
	}
	return nil
}

// forget drops what is known of a sender that left (R8).
func (g *Group) forget(s *sender) {
	for i, t := range g.senders {
		if t == s {
			g.senders = append(g.senders[:i], g.senders[i+1:]...)
			break
		}
	}
	s.state, s.token, s.closer = stateForgotten, false, nil
	g.settle(s)
	if len(s.queue) > 0 {
		g.ghosts = append(g.ghosts, s)
	}
}

// forgetClosedBy forgets the senders whose SenderClosed by c is stable, or all of c's if c itself is closed (R8).
func (g *Group) forgetClosedBy(c *sender) {
	for i := 0; i < len(g.senders); {
		s := g.senders[i]
		if s.state == stateRemembered && s.closer == c && (c.state != stateMember && c.state != stateClosing || s.closedAt <= c.stable) {
			g.forget(s)
			i = 0
			continue
		}
		i++
	}
}

// View is the newest view that this member has installed; its Members must not be changed.
func (g *Group) View() View { return g.view }

// Received is the highest message number received from sender, 0 for one that is unknown or forgotten.
func (g *Group) Received(m Member) uint64 {
	if s := g.find(m); s != nil {
		return s.recv
	}
	return 0
}

// Stable is the highest message number of sender that this member knows received by all, 0 for an unknown one.
func (g *Group) Stable(m Member) uint64 {
	if s := g.find(m); s != nil {
		return s.stable
	}
	return 0
}

// Fresh tells whether this member still waits for its first Start (R9).
func (g *Group) Fresh() bool { return g.fresh && !g.expelled }

// Expelled tells whether a view without this member was installed (R6).
func (g *Group) Expelled() bool { return g.expelled }

// Idle tells whether this member is at rest: both links started, nothing in the log, closing, kept aside or waiting. Messages
// that its user has not persisted do not count.
func (g *Group) Idle() bool {
	if g.expelled {
		return true
	}
	if g.view.Version == 0 || g.fresh || g.log.count > 0 || len(g.aside.frames) > 0 || len(g.outputs) > 0 {
		return false
	}
	if len(g.senders) > len(g.ring) || g.in.partial.s != nil {
		return false
	}
	return len(g.ring) == 1 || g.in.started && g.out.started && g.out.cursor == nil && len(g.out.marks) == 0
}

// Take appends the outputs since the last call to dst and returns it. Progress, Stable and credit that arose since then
// are coalesced, so it pays to hand over several frames before each Take.
func (g *Group) Take(dst []Output) []Output {
	g.flush()
	dst = append(dst, g.outputs...)
	if cap(g.outputs) <= keptOutputs || len(g.outputs) > cap(g.outputs)/4 {
		g.small = 0
	} else if g.small++; g.small == 4 {
		g.outputs, g.small = nil, 0 // a burst is over
		return dst
	}
	clear(g.outputs)
	g.outputs = g.outputs[:0]
	return dst
}

// Capacities that an idle group keeps: for outputs, and for a sender's messages that are to be made durable.
const (
	keptOutputs = 64
	keptQueue   = 64
)

// Outputs is Take into a buffer of the group's own, valid until the next call of Outputs or Ready.
func (g *Group) Outputs() []Output {
	g.flush()
	return g.Ready()
}

// Burst tells whether buffers grew beyond what an idle group should keep.
func (g *Group) Burst() bool {
	if g.log.nfree > keptFree || cap(g.outputs) > keptOutputs || cap(g.spare) > keptOutputs {
		return true
	}
	for _, s := range g.senders {
		if cap(s.queue) > keptQueue {
			return true
		}
	}
	return false
}

// Cool gives the buffers of a burst back, as far as nothing stands in them. It ends what Ready or Outputs returned.
func (g *Group) Cool() {
	if g.log.nfree > keptFree {
		g.log.free, g.log.nfree = nil, 0
	}
	if g.spare = nil; len(g.outputs) == 0 {
		g.outputs = nil
	}
	for _, s := range g.senders {
		if cap(s.queue) > keptQueue && len(s.queue) == 0 {
			s.queue = nil
		}
	}
}

// Waiting is the number of outputs that Ready would return.
func (g *Group) Waiting() int { return len(g.outputs) }

// Ready is Outputs without what is gathered until the next Take or Outputs: messages on their way to the successor,
// Progress, Stable, credit, and what the own user is told of progress and windows. The result is valid until the next call of
// Ready or Outputs.
func (g *Group) Ready() []Output {
	o := g.outputs
	clear(g.spare)
	g.outputs, g.spare = g.spare[:0], o
	return o
}
