package gmtest

import (
	"cmp"
	"slices"

	"warren/dataplane/gm"
)

// decide appends a view to the metadata log.
func (w *world) decide(v gm.View) {
	slices.SortFunc(v.Members, func(a, b gm.Member) int {
		return cmp.Or(cmp.Compare(a.JoinIndex, b.JoinIndex), cmp.Compare(a.Node, b.Node))
	})
	w.views = append(w.views, v)
	for _, m := range v.Members {
		if _, ok := w.ids[m]; !ok {
			w.ids[m] = len(w.insts)
			w.insts = append(w.insts, &inst{id: len(w.insts), self: m, node: w.nodes[m.Node[0]-'a']})
		}
	}
	w.tracef("view %d decided: %v", v.Version, v.Members)
}

// someChange decides a new view: members that died leave, others may be expelled alive, nodes join.
func (w *world) someChange() {
	old := w.latest()
	v := gm.View{Version: old.Version + 1 + w.rng.Uint64N(3)}
	dead, expel := 0, -1
	if w.chance(15) && w.alive() > 1 {
		expel = w.rng.IntN(len(old.Members))
	}
	for i, m := range old.Members {
		switch {
		case !w.lives(m) && w.chance(80):
			dead++
		case i == expel && w.lives(m):
			w.res.Covered.Expelled++
		default:
			v.Members = append(v.Members, m)
		}
	}
	joins := 0
	if w.chance(50) {
		joins = 1 + w.rng.IntN(2)
	}
	joined := 0
	for ; joins > 0; joins-- {
		joined += w.join(&v)
	}
	if len(v.Members) == len(old.Members) && joined == 0 && dead == 0 || !slices.ContainsFunc(v.Members, w.lives) {
		return
	}
	w.decide(v)
	w.noteJoins(joined, dead)
}

func (w *world) noteJoins(joined, dead int) {
	c := &w.res.Covered
	c.Joins += joined
	if joined > 0 && (dead > 0 || w.alive() < len(w.latest().Members)) {
		c.JoinsWithFault++
	}
	fresh := 0
	for _, m := range w.latest().Members {
		in := w.insts[w.ids[m]]
		if !in.joined {
			fresh++
		} else if fresh = 0; joined > 0 && len(in.sent) > 0 {
			c.JoinBehindSender++
		}
	}
	if fresh > 1 {
		c.TwoJoiners++
	}
}

// join adds a node to a view: one that is not in it, with an incarnation that is its process's.
func (w *world) join(v *gm.View) int {
	n := w.nodes[w.rng.IntN(len(w.nodes))]
	if !n.up {
		if !w.chance(60) {
			return 0
		}
		w.restart(n)
	}
	for i, m := range v.Members {
		if m.Node != n.name {
			continue
		}
		if m.Incarnation == n.inc {
			return 0
		}
		v.Members = slices.Delete(v.Members, i, i+1) // its former process is dead: the join takes it out
		break
	}
	w.res.Covered.Rejoined += min(1, int(n.inc-1))
	v.Members = append(v.Members, gm.Member{Node: n.name, Incarnation: n.inc, JoinIndex: v.Version})
	return 1
}

func (w *world) restart(n *node) {
	n.inc++
	n.up, n.inst, n.aside = true, nil, nil
	n.applied = len(w.views)
	w.tracef("%s: restarts as incarnation %d", n.name, n.inc)
	for j := range w.nodes {
		n.known[j] = 0
		if j != n.slot {
			w.queue[j][n.slot] = nil
			if w.nodes[j].up {
				w.connect(n.slot, j)
			}
		}
	}
}

// someCrash kills a member: any, two at once, the closer while it closes, a joiner's predecessor.
func (w *world) someCrash() {
	if w.alive() < 2 {
		return
	}
	ms := w.latest().Members
	at := w.rng.IntN(len(ms))
	switch w.rng.IntN(4) {
	case 0:
		if in := w.insts[w.ids[ms[0]]]; in.g != nil && w.lives(in.self) && in.g.Stats().Closing > 0 {
			w.res.Covered.CloserClosing++
			at = 0
		}
	case 1:
		if last := w.insts[w.ids[ms[len(ms)-1]]]; len(ms) > 1 && (last.g == nil || last.g.Fresh() || w.chance(30)) {
			w.res.Covered.JoinerPred++
			at = len(ms) - 2
		}
	case 2:
		if w.alive() > 2 {
			w.res.Covered.TwoAtOnce++
			w.crashMember(ms[(at+1)%len(ms)])
		}
	}
	if w.alive() > 1 {
		w.crashMember(ms[at])
	}
}

func (w *world) crashMember(m gm.Member) {
	if w.lives(m) {
		w.crash(w.nodes[m.Node[0]-'a'])
	}
}

func (w *world) crash(n *node) {
	w.tracef("%s: CRASH", n.name)
	w.res.Covered.Crashes++
	n.up, n.inst, n.aside = false, nil, nil
	for j := range w.nodes {
		w.cut(n.slot, j)
		w.queue[j][n.slot] = nil
		n.known[j] = 0
	}
}

// someBreak cuts a link without any change of the view, or mends one.
func (w *world) someBreak() {
	i, j := w.rng.IntN(len(w.nodes)), w.rng.IntN(len(w.nodes))
	if ms := w.latest().Members; len(ms) > 1 && w.chance(40) { // the youngest and its predecessor
		i, j = int(ms[len(ms)-2].Node[0]-'a'), int(ms[len(ms)-1].Node[0]-'a')
	}
	if i == j || !w.nodes[i].up || !w.nodes[j].up {
		return
	}
	if w.gen[i][j] == 0 {
		w.connect(i, j)
		return
	}
	w.res.Covered.Breaks++
	w.tracef("link %s-%s breaks", w.nodes[i].name, w.nodes[j].name)
	w.cut(i, j)
	if w.chance(50) {
		w.connect(i, j)
	}
}

// settle mends everything, lets the metadata take out the dead, and plays until nothing moves any more.
func (w *world) settle() {
	w.quiet = true
	for i := range w.nodes {
		for j := range i {
			if w.nodes[i].up && w.nodes[j].up && w.gen[i][j] == 0 {
				w.connect(i, j)
			}
		}
	}
	old := w.latest()
	v := gm.View{Version: old.Version + 1}
	for _, m := range old.Members {
		if w.lives(m) {
			v.Members = append(v.Members, m)
		}
	}
	if len(v.Members) == 0 {
		return
	}
	if len(v.Members) < len(old.Members) {
		w.decide(v)
	}
	const limit = 50_000
	for end := w.res.Steps + limit; ; {
		if w.res.Steps > end {
			w.fail("rest", "no rest after %d steps", limit)
		}
		w.step()
		if w.atRest() {
			break
		}
	}
	w.checkRest()
}

// atRest: nothing under way, every output taken, every view applied, everything persisted.
func (w *world) atRest() bool {
	for i, n := range w.nodes {
		for j := range w.nodes {
			if len(w.queue[i][j]) > 0 {
				return false
			}
		}
		if !n.up {
			continue
		}
		if n.applied < len(w.views) {
			return false
		}
	}
	for _, n := range w.nodes {
		if !n.up || n.inst == nil {
			continue
		}
		outs := n.inst.g.Take(nil)
		for _, o := range outs {
			w.carry(n, o)
			if n.inst == nil {
				return false
			}
		}
		if len(outs) > 0 {
			return false
		}
		for _, r := range n.inst.rows {
			if len(r.pending) > 0 {
				return false
			}
		}
	}
	return true
}
