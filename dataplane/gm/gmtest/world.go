package gmtest

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"

	"warren/dataplane/gm"
	"warren/dataplane/gm/internal/mutation"
)

// Options of Run. The zero value is what TestSimulation uses.
type Options struct {
	Trace    io.Writer // one line per event, or nil
	Mutation mutation.Rule
	// KeepAside replaces Config.KeepAside if it is not 0: a narrow one makes members give links up (R5).
	KeepAside int
}

// Result tells what a run did: the same for the same seed.
type Result struct {
	Steps    int
	Messages int
	Covered  Coverage
}

// Coverage counts the situations that a schedule must reach now and then to be worth anything.
type Coverage struct {
	Crashes, TwoAtOnce, CloserClosing, JoinerPred, Expelled, Zombie                      int
	Lag2, Joins, JoinsWithFault, TwoJoiners, JoinBehindSender                            int
	Breaks, Raised, Closed, Fragments, Full, Rejoined, Alone, Blocked, Overflow, Batches int
}

// Add sums up.
func (c *Coverage) Add(d Coverage) {
	for i, p := range c.fields() {
		*p += *d.fields()[i]
	}
}

func (c *Coverage) fields() []*int {
	return []*int{
		&c.Crashes, &c.TwoAtOnce, &c.CloserClosing, &c.JoinerPred, &c.Expelled, &c.Zombie, &c.Lag2, &c.Joins,
		&c.JoinsWithFault, &c.TwoJoiners, &c.JoinBehindSender, &c.Breaks, &c.Raised, &c.Closed, &c.Fragments, &c.Full,
		&c.Rejoined, &c.Alone, &c.Blocked, &c.Overflow, &c.Batches,
	}
}

// Violation is a broken promise of design/gm.md.
type Violation struct{ Rule, Detail string }

func (v Violation) Error() string { return v.Rule + ": " + v.Detail }

// itemKind is what travels on a link: a frame, or what its end learns about the link itself.
type itemKind uint8

const (
	itemFrame itemKind = iota
	itemUp
	itemDown
)

type item struct {
	kind  itemKind
	inc   uint64 // the peer's
	gen   int
	frame []byte
}

// node is one machine: at most one process, with at most one instance of the group.
type node struct {
	slot    int
	name    string
	inc     uint64
	up      bool
	applied int // views of world.views that this node's metadata has applied
	inst    *inst
	aside   []asideItem // frames that came while there was no instance (the driver keeps them)
	known   []int       // generation of the link to each slot that this node knows, 0: none
	peer    []uint64    // and the incarnation at its other end
}

type asideItem struct {
	slot  int
	inc   uint64
	frame []byte
}

// world is the whole cluster, one event at a time.
type world struct {
	rng   *rand.Rand
	opt   Options
	plan  plan
	nodes []*node
	gen   [][]int             // generation of the link between two slots, 0: down
	queue [][][]item          // from, to
	wire  [][]map[string]bool // messages sent since the last Start or connection
	next  int                 // next generation
	views []gm.View
	insts []*inst // in order of joining: the index is the member's number
	ids   map[gm.Member]int
	buf   []gm.Output
	res   Result
	quiet bool // no more faults
}

// plan is what one seed varies besides the order of events.
type plan struct {
	members, slots    int
	steps             int
	config            gm.Config
	oneBulk           bool // one bulk sender and narrow windows, or all of them and wide ones (R10)
	maxBody           int
	react             int // percent of deliveries that the user answers with a broadcast
	lazy              int // percent of inputs whose outputs are not taken at once
	crash, change     int // weights
	breaks, persist   int
	broadcast, viewIn int
	arrive            int  // weight of arrivals: low ones fill the links
	ambush            int  // percent of first Starts whose link breaks, or whose sender dies, right behind them
	sudden            int  // one in how many outputs is a member's last, 0: none
	warm              bool // the first view starts before anything else happens
	slow              int  // slot whose metadata lags far behind, or -1
}

func newWorld(seed uint64, opt Options) *world {
	w := &world{rng: rand.New(rand.NewPCG(seed, 0x6a09e667f3bcc908)), opt: opt, ids: map[gm.Member]int{}}
	w.plan = w.drawPlan()
	if opt.KeepAside > 0 {
		w.plan.config.KeepAside = opt.KeepAside
	}
	n := w.plan.slots
	w.gen = make([][]int, n)
	w.queue = make([][][]item, n)
	w.wire = make([][]map[string]bool, n)
	for i := range n {
		w.gen[i] = make([]int, n)
		w.queue[i] = make([][]item, n)
		w.wire[i] = make([]map[string]bool, n)
		w.nodes = append(w.nodes, &node{slot: i, name: string(rune('a' + i)), inc: 1, up: true, known: make([]int, n), peer: make([]uint64, n)})
	}
	for i := range n {
		for j := range i {
			w.connect(i, j)
		}
	}
	first := gm.View{Version: 1 + w.rng.Uint64N(3)}
	for i := range w.plan.members {
		first.Members = append(first.Members, gm.Member{Node: w.nodes[i].name, Incarnation: 1, JoinIndex: first.Version})
	}
	w.decide(first)
	for w.plan.warm && (w.someView() || w.someArrival() || w.drainAll()) {
	}
	return w
}

func (w *world) drawPlan() plan {
	r := w.rng
	p := plan{members: 2 + r.IntN(4), steps: 100 + r.IntN(300)}
	p.slots = min(8, p.members+r.IntN(4))
	p.oneBulk = r.IntN(2) == 0
	p.maxBody = []int{4, 40, 120}[r.IntN(3)]
	p.config = gm.Config{Window: 1 << 20, KeepAside: 1 << 20, Fragment: []int{16, 1 << 17}[r.IntN(2)], MaxMessage: 1 << 12}
	if p.oneBulk {
		p.config.Window = []int{100, 300, 900, 1 << 20}[r.IntN(4)]
	}
	p.react = []int{0, 10, 30}[r.IntN(3)]
	p.lazy = []int{0, 20, 60}[r.IntN(3)]
	p.crash = r.IntN(4)
	p.change = []int{1, 1, 2, 4}[r.IntN(4)]
	p.breaks = r.IntN(5)
	p.persist = 1 + r.IntN(12)
	p.broadcast = 4 + r.IntN(16)
	p.viewIn = 1 + r.IntN(12)
	p.arrive = []int{20, 40, 60, 100}[r.IntN(4)]
	p.ambush = []int{0, 20, 60}[r.IntN(3)]
	if p.crash > 0 {
		p.sudden = []int{300, 2500}[r.IntN(2)]
	}
	p.warm = r.IntN(4) > 0
	p.slow = r.IntN(2*p.members) - p.members
	return p
}

func (w *world) chance(percent int) bool { return w.rng.IntN(100) < percent }

func (w *world) tracef(format string, args ...any) {
	if w.opt.Trace != nil {
		fmt.Fprintf(w.opt.Trace, "%5d "+format+"\n", append([]any{w.res.Steps}, args...)...)
	}
}

func (w *world) fail(rule, format string, args ...any) {
	panic(Violation{rule, fmt.Sprintf(format, args...)})
}

// connect makes a new connection between two processes; both ends learn of it behind what is still on its way to them.
func (w *world) connect(i, j int) {
	w.next++
	w.gen[i][j], w.gen[j][i] = w.next, w.next
	for _, p := range [][2]int{{i, j}, {j, i}} {
		w.wire[p[0]][p[1]] = nil
		q := &w.queue[p[0]][p[1]]
		if n := len(*q); n > 0 && (*q)[n-1].kind == itemDown && w.chance(30) {
			*q = (*q)[:n-1] // a link that comes again before its loss was told: LinkUp counts as both
		}
		*q = append(*q, item{kind: itemUp, inc: w.nodes[p[0]].inc, gen: w.next})
	}
}

// cut breaks a connection: of the frames under way to each end, some first ones still arrive.
func (w *world) cut(i, j int) {
	if w.gen[i][j] == 0 {
		return
	}
	w.gen[i][j], w.gen[j][i] = 0, 0
	for _, p := range [][2]int{{i, j}, {j, i}} {
		q := w.queue[p[0]][p[1]]
		keep := w.rng.IntN(len(q) + 1)
		kept := q[:keep:keep]
		for _, it := range q[keep:] {
			if it.kind != itemFrame {
				kept = append(kept, it)
			}
		}
		w.queue[p[0]][p[1]] = append(kept, item{kind: itemDown, inc: w.nodes[p[0]].inc})
	}
}

// send puts a frame on the connection that its sender knows; one that is gone swallows it.
func (w *world) send(from *node, to gm.Member, frame []byte) {
	j := int(to.Node[0] - 'a')
	g := w.gen[from.slot][j]
	if g == 0 || from.known[j] != g || w.nodes[j].inc != to.Incarnation {
		return
	}
	w.once(from.slot, j, frame)
	w.queue[from.slot][j] = append(w.queue[from.slot][j], item{kind: itemFrame, inc: from.inc, frame: frame})
}

// once checks the cost of R2: between two Starts a message goes over a link once, since repeats are not forwarded.
func (w *world) once(i, j int, frame []byte) {
	const data, fragment, start, batch = 1, 2, 7, 9
	switch frame[1] {
	case start:
		if !bytes.Contains([]byte(gm.Describe(frame)), []byte("again true")) {
			w.wire[i][j] = nil
		}
	case data, fragment, batch:
		if w.wire[i][j] == nil {
			w.wire[i][j] = map[string]bool{}
		}
		for _, name := range w.carried(frame) {
			if w.wire[i][j][name] {
				w.fail("cost", "%s sends %s twice: %s in %s", w.nodes[i].name, w.nodes[j].name, name, gm.Describe(frame))
			}
			w.wire[i][j][name] = true
		}
	}
}

// carried names what a frame carries: each message of a batch, a single one, or a fragment.
func (w *world) carried(frame []byte) []string {
	var view, from, n uint64
	var sender string
	kind, rest, _ := strings.Cut(strings.NewReplacer(":", " ", "+", " ").Replace(gm.Describe(frame)), " ")
	if k, _ := fmt.Sscanf(rest, "v%d %s %d %d", &view, &sender, &from, &n); kind == "batch" && k == 4 {
		w.res.Covered.Batches++
		var names []string
		for i := range n {
			names = append(names, fmt.Sprint(view, sender, from+i))
		}
		return names
	}
	if kind == "data" {
		return []string{fmt.Sprint(view, sender, from)}
	}
	return []string{string(frame)}
}

// arrive hands the first item from one slot to another.
func (w *world) arrive(i, j int) {
	q := w.queue[i][j]
	it := q[0]
	w.queue[i][j] = q[1:]
	to := w.nodes[j]
	from := w.nodes[i]
	switch it.kind {
	case itemUp:
		to.known[i], to.peer[i] = it.gen, it.inc
		to.dropAside(i)
		if to.inst != nil {
			w.tracef("%s: link to %s/%d up", to.name, from.name, it.inc)
			to.inst.g.LinkUp(from.name, it.inc)
		}
	case itemDown:
		to.known[i] = 0
		to.dropAside(i)
		if to.inst != nil {
			w.tracef("%s: link to %s/%d down", to.name, from.name, it.inc)
			to.inst.g.LinkDown(from.name, it.inc)
		}
	case itemFrame:
		fresh := to.inst != nil && to.inst.g.Fresh()
		w.frame(to, i, it.inc, it.frame)
		if fresh && !w.quiet && !to.inst.g.Fresh() && from.up && from.inc == it.inc && w.chance(w.plan.ambush) {
			w.ambush(from, to)
		}
	}
	w.after(to)
}

// ambush loses what follows a joiner's first Start: what became stable just then can only reach it as a raised baseline.
func (w *world) ambush(from, to *node) {
	w.tracef("ambush behind the Start from %s to %s", from.name, to.name)
	if w.plan.crash > 0 && w.alive() > 2 && w.chance(30) {
		w.crash(from)
		return
	}
	w.cut(from.slot, to.slot)
	for _, p := range [][2]int{{from.slot, to.slot}, {to.slot, from.slot}} {
		q := &w.queue[p[0]][p[1]]
		*q = slices.DeleteFunc(*q, func(it item) bool { return it.kind == itemFrame })
	}
	if w.chance(80) {
		for c := w.rng.IntN(60); c > 0 && w.gen[from.slot][to.slot] == 0; c-- {
			w.someArrival()
		}
	}
	if from.up && to.up && w.gen[from.slot][to.slot] == 0 && w.chance(80) {
		w.connect(from.slot, to.slot)
	}
}

func (n *node) dropAside(slot int) {
	k := n.aside[:0]
	for _, a := range n.aside {
		if a.slot != slot {
			k = append(k, a)
		}
	}
	n.aside = k
}

func (w *world) frame(to *node, slot int, inc uint64, frame []byte) {
	if to.inst == nil {
		to.aside = append(to.aside, asideItem{slot, inc, frame})
		return
	}
	w.tracef("%s: frame from %s: %s", to.name, w.nodes[slot].name, gm.Describe(frame))
	from := gm.Member{Node: w.nodes[slot].name, Incarnation: inc}
	if err := to.inst.g.Receive(from, frame); err != nil {
		w.fail("frame", "%s: %v", to.name, err)
	}
}
