package gmtest

import (
	"warren/dataplane/gm"
	"warren/dataplane/gm/internal/mutation"
)

// Run plays one seed. The error is a Violation; everything about a run follows from its seed.
func Run(seed uint64, opt Options) (res Result, err error) {
	w := newWorld(seed, opt)
	defer func() {
		res = w.res
		if p := recover(); p != nil {
			v, ok := p.(Violation)
			if !ok {
				panic(p)
			}
			w.tracef("VIOLATION %v", v)
			err = v
		}
	}()
	for w.res.Steps < w.plan.steps && w.alive() > 0 {
		w.step()
	}
	w.settle()
	return w.res, nil
}

func (w *world) alive() int {
	n := 0
	for _, m := range w.latest().Members {
		if w.lives(m) {
			n++
		}
	}
	return n
}

func (w *world) latest() gm.View { return w.views[len(w.views)-1] }

// lives tells whether the process of a member is still there.
func (w *world) lives(m gm.Member) bool {
	n := w.nodes[m.Node[0]-'a']
	return n.up && n.inc == m.Incarnation
}

// step does one random event that is possible.
func (w *world) step() {
	w.res.Steps++
	p := &w.plan
	weights := [...]int{p.arrive, p.viewIn, p.broadcast, p.persist, p.change, p.crash, p.breaks, 10}
	total := 0
	if w.quiet {
		weights = [...]int{60, p.viewIn, 0, p.persist, 0, 0, 0, 10}
	}
	for _, x := range weights {
		total += x
	}
	at := w.rng.IntN(total)
	k := 0
	for at >= weights[k] {
		at -= weights[k]
		k++
	}
	switch k {
	case 0:
		w.someArrival()
	case 1:
		w.someView()
	case 2:
		if n := w.someNode(); n != nil {
			w.broadcast(n)
			w.after(n)
		}
	case 3:
		w.somePersist()
	case 4:
		w.someChange()
	case 5:
		w.someCrash()
	case 6:
		w.someBreak()
	case 7:
		if n := w.someNode(); n != nil {
			w.drain(n)
		}
	}
	w.checkStep()
}

func (w *world) someArrival() bool {
	n := len(w.nodes)
	at := w.rng.IntN(n * n)
	for d := range n * n {
		i, j := (at+d)/n%n, (at+d)%n
		if len(w.queue[i][j]) > 0 {
			// A run of arrivals lets one link be fast and another slow.
			for c := 1 + w.rng.IntN(4); c > 0 && len(w.queue[i][j]) > 0 && w.nodes[j].up; c-- {
				w.arrive(i, j)
			}
			return true
		}
	}
	return false
}

// someNode picks a node with an instance.
func (w *world) someNode() *node {
	at := w.rng.IntN(len(w.nodes))
	for d := range w.nodes {
		if n := w.nodes[(at+d)%len(w.nodes)]; n.up && n.inst != nil {
			return n
		}
	}
	return nil
}

func (w *world) someView() bool {
	at := w.rng.IntN(len(w.nodes))
	for d := range w.nodes {
		n := w.nodes[(at+d)%len(w.nodes)]
		if n.up && n.applied < len(w.views) {
			if n.slot == w.plan.slow && !w.quiet && !w.chance(10) {
				continue
			}
			if len(w.views)-n.applied >= 2 {
				w.res.Covered.Lag2++
			}
			for c := 1 + w.rng.IntN(2); c > 0 && n.up && n.applied < len(w.views); c-- {
				w.apply(n)
			}
			return true
		}
	}
	return false
}

// apply lets a node's metadata take in the next view: it makes the instance that the view brings, or installs it.
func (w *world) apply(n *node) {
	v := w.views[n.applied]
	n.applied++
	if n.inst == nil {
		for _, m := range v.Members {
			if m.Node == n.name && m.Incarnation == n.inc && m.JoinIndex == v.Version {
				w.instance(n, m, v)
			}
		}
		return
	}
	w.tracef("%s: installs %d", n.name, v.Version)
	n.inst.g.Install(v)
	w.after(n)
	if in := n.inst; in != nil && in.g.Expelled() {
		w.drain(n)
		if n.inst == nil {
			return
		}
		for _, k := range in.g.Leftover() {
			n.aside = append(n.aside, asideItem{int(k.From.Node[0] - 'a'), k.From.Incarnation, k.Frame})
		}
		n.inst = nil
		// The metadata may bring the node back in the very view that expelled its older instance.
		n.applied--
		w.apply(n)
	}
}

// instance does what a driver does when a view brings its node into the group.
func (w *world) instance(n *node, self gm.Member, v gm.View) {
	cfg := w.plan.config
	cfg.Self = self
	if w.plan.oneBulk && w.chance(50) {
		cfg.Window = 70 + w.rng.IntN(cfg.Window)
	}
	in := w.insts[w.ids[self]]
	in.g = gm.NewMutated(cfg, mutation.Mutation{Rule: w.opt.Mutation})
	n.inst = in
	w.tracef("%s: joins as %d in %d %v", n.name, in.id, v.Version, v.Members)
	for j, g := range n.known {
		if g != 0 {
			in.g.LinkUp(w.nodes[j].name, n.peer[j])
		}
	}
	aside := n.aside
	n.aside = nil
	first := w.chance(50)
	if first {
		in.g.Install(v)
	}
	for _, a := range aside {
		w.frame(n, a.slot, a.inc, a.frame)
	}
	if !first {
		in.g.Install(v)
	}
	w.after(n)
}

// after lets a node take its outputs, or leaves them for later.
func (w *world) after(n *node) {
	if !w.chance(w.plan.lazy) {
		w.drain(n)
	}
}

// drainAll lets every node take its outputs and says whether there were any under way then.
func (w *world) drainAll() bool {
	for _, n := range w.nodes {
		w.drain(n)
	}
	return w.someArrival()
}

// drain carries out a node's outputs, in order; a crash may come between any two.
func (w *world) drain(n *node) {
	for n.inst != nil && n.up {
		outs := n.inst.g.Take(w.buf[:0])
		w.buf = nil
		if len(outs) == 0 {
			w.buf = outs
			return
		}
		for _, o := range outs {
			if w.plan.sudden > 0 && !w.quiet && w.rng.IntN(w.plan.sudden) == 0 && w.alive() > 1 {
				w.crash(n)
				return
			}
			w.carry(n, o)
			if n.inst == nil {
				return
			}
		}
		w.buf = outs
	}
}

func (w *world) carry(n *node, o gm.Output) {
	in := n.inst
	switch o.Kind {
	case gm.Send:
		if !w.inLatest(in.self) {
			w.res.Covered.Zombie++
		}
		frame := o.Whole()
		w.tracef("%s: sends %s: %s", n.name, o.To.Node, gm.Describe(frame))
		w.send(n, o.To, frame)
	case gm.ResetLink:
		w.tracef("%s: resets link to %s", n.name, o.To.Node)
		j := int(o.To.Node[0] - 'a')
		if w.nodes[j].inc == o.To.Incarnation && w.nodes[j].up && w.gen[n.slot][j] != 0 {
			w.cut(n.slot, j)
			w.connect(n.slot, j)
		}
	default:
		w.observe(in, o)
		if o.Kind == gm.Deliver && !w.quiet && w.chance(w.plan.react) {
			w.broadcast(n)
		}
	}
}

// broadcast is the user of a member.
func (w *world) broadcast(n *node) {
	in := n.inst
	if in.expelled {
		return
	}
	c := gm.Class(w.rng.IntN(3))
	if w.chance(50) {
		c = gm.Bulk
	}
	if c == gm.Bulk && w.plan.oneBulk && !in.mayLead() {
		c = gm.Control
	}
	body := make([]byte, 4+w.rng.IntN(w.plan.maxBody))
	for i := range body {
		body[i] = byte(w.rng.Uint32())
	}
	if len(body) > w.plan.config.Fragment {
		w.res.Covered.Fragments++
	}
	m := &message{class: c, body: append([]byte(nil), body...), deps: in.deps()}
	num, err := in.g.Broadcast(body, c)
	if err != nil {
		if err == gm.ErrWindowFull {
			w.res.Covered.Full++
		}
		return
	}
	m.number = num
	in.sent = append(in.sent, m)
	w.res.Messages++
	w.tracef("%s: broadcasts %d class %d size %d", n.name, num, c, len(body))
}

func (w *world) somePersist() bool {
	at := w.rng.IntN(len(w.nodes))
	for d := range w.nodes {
		n := w.nodes[(at+d)%len(w.nodes)]
		if !n.up || n.inst == nil {
			continue
		}
		if w.persist(n) {
			w.after(n)
			return true
		}
	}
	return false
}

// persist makes durable some of what a member has delivered, of one sender.
func (w *world) persist(n *node) bool {
	in := n.inst
	start := 0
	if len(in.rows) > 0 {
		start = w.rng.IntN(len(in.rows))
	}
	for d := range in.rows {
		s := (start + d) % len(in.rows)
		row := &in.rows[s]
		if len(row.pending) == 0 {
			continue
		}
		k := w.rng.IntN(len(row.pending))
		row.durable = row.pending[k]
		row.pending = row.pending[k+1:]
		w.tracef("%s: persisted %d of member %d", n.name, row.durable, s)
		in.g.Persisted(w.insts[s].self, row.durable)
		return true
	}
	return false
}
