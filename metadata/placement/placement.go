package placement

import (
	"slices"
	"sort"
)

// Modes of a Rule; "" is not mirrored.
const (
	ModeAll     = "all"
	ModeExactly = "exactly"
	ModeNodes   = "nodes"
)

// Rule is the mirroring policy of a queue.
type Rule struct {
	Mode  string
	Count int      // ModeExactly: the master included, at least 1
	Nodes []string // ModeNodes
}

// Node is a node of the cluster as placement sees it. Lists of nodes stand in ascending order of their names.
type Node struct {
	Name     string
	Up       bool
	Draining bool
	Witness  bool
	Replicas int // queue copies that it has a place for, masters included
	Masters  int
}

// takes says whether the node may be given a new copy.
func (n Node) takes() bool { return n.Up && !n.Draining && !n.Witness }

// Copy is one place of an existing queue, the master's included.
type Copy struct {
	Node         string
	InView       bool
	Away         bool // its node is down
	Synchronised bool // the master always is
	JoinIndex    uint64
	// StandInFor names the member that this one replaces while that is away.
	StandInFor string
}

// fresh: it was never in a view, so it holds nothing.
func (c Copy) fresh() bool { return !c.InView && c.JoinIndex == 0 }

// Locators of Master.
const (
	ClientLocal = "client-local"
	MinMasters  = "min-masters"
	Random      = "random"
)

// Master places the master of a new queue. client is the node that the declaring client is connected to. Under ModeNodes a
// listed node is taken if one is up. ok is false if no node can carry the queue.
func Master(rule Rule, locator, client string, seed uint64, nodes []Node) (node string, ok bool) {
	var fit []Node
	for _, n := range nodes {
		if n.Up && !n.Witness && (n.Name == client || !n.Draining) {
			fit = append(fit, n)
		}
	}
	if rule.Mode == ModeNodes {
		if listed := inListOrder(fit, rule.Nodes); len(listed) > 0 {
			fit = listed
		}
	}
	if len(fit) == 0 {
		return "", false
	}
	switch locator {
	case MinMasters:
		return fewest(fit, func(n Node) int { return n.Masters }), true
	case Random:
		return fit[seed%uint64(len(fit))].Name, true
	}
	for _, n := range fit {
		if n.Name == client {
			return client, true
		}
	}
	if rule.Mode == ModeNodes {
		return fit[0].Name, true // the first of the list that is up
	}
	return fewest(fit, func(n Node) int { return n.Masters }), true
}

func inListOrder(fit []Node, list []string) []Node {
	var out []Node
	for _, name := range list {
		for _, n := range fit {
			if n.Name == name && !slices.ContainsFunc(out, func(o Node) bool { return o.Name == name }) {
				out = append(out, n)
			}
		}
	}
	return out
}

// fewest is the node with the smallest load, ties by name.
func fewest(nodes []Node, load func(Node) int) string {
	best := nodes[0]
	for _, n := range nodes[1:] {
		if load(n) < load(best) || (load(n) == load(best) && n.Name < best.Name) {
			best = n
		}
	}
	return best.Name
}

// Mirrors are the nodes of a new queue's first mirrors.
func Mirrors(rule Rule, master string, nodes []Node) []string {
	add, _ := Adjust(rule, master, []Copy{{Node: master, InView: true, Synchronised: true, JoinIndex: 1}}, nodes)
	return add
}

// Adjust compares a queue's copies with its rule: add are nodes that shall get a mirror, drop are places to give up. The
// master is never dropped. A copy that holds something is dropped only while as many synchronised copies as the rule wants are
// in the view; of the surplus the unsynchronised go first, then the youngest. A stand-in that is not yet synchronised goes when
// the one whom it replaces is back.
func Adjust(rule Rule, master string, copies []Copy, nodes []Node) (add, drop []string) {
	drop = overtaken(copies)
	copies = slices.DeleteFunc(slices.Clone(copies), func(c Copy) bool { return slices.Contains(drop, c.Node) })
	switch rule.Mode {
	case ModeAll:
		for _, n := range nodes {
			if n.takes() && !has(copies, n.Name) {
				add = append(add, n.Name)
			}
		}
	case ModeNodes:
		a, d := adjustNodes(rule.Nodes, master, copies, nodes)
		add, drop = a, append(drop, d...)
	case ModeExactly:
		a, d := adjustCount(max(rule.Count, 1), master, copies, nodes)
		add, drop = a, append(drop, d...)
	default:
		_, d := adjustCount(1, master, copies, nodes)
		drop = append(drop, d...)
	}
	return add, drop
}

// overtaken are the stand-ins whose originals came back before they were synchronised.
func overtaken(copies []Copy) (drop []string) {
	for _, c := range copies {
		if c.StandInFor == "" || c.Synchronised {
			continue
		}
		for _, o := range copies {
			if o.Node == c.StandInFor && !o.Away {
				drop = append(drop, c.Node)
			}
		}
	}
	return drop
}

func has(copies []Copy, node string) bool {
	return slices.ContainsFunc(copies, func(c Copy) bool { return c.Node == node })
}

func adjustCount(n int, master string, copies []Copy, nodes []Node) (add, drop []string) {
	replaced := 0 // away, with a stand-in: they hold no seat
	for _, c := range copies {
		if c.Away && slices.ContainsFunc(copies, func(o Copy) bool { return o.StandInFor == c.Node }) {
			replaced++
		}
	}
	seats := len(copies) - replaced
	for ; seats < n; seats++ {
		var fit []Node
		for _, x := range nodes {
			if x.takes() && !has(copies, x.Name) && !slices.Contains(add, x.Name) {
				fit = append(fit, x)
			}
		}
		if len(fit) == 0 {
			return add, nil
		}
		add = append(add, fewest(fit, func(x Node) int { return x.Replicas }))
	}
	return add, surplus(n, seats, master, copies)
}

// surplus chooses the places to give up. seats are those that are taken: one away and its stand-in have one together.
func surplus(n, seats int, master string, copies []Copy) (drop []string) {
	synchronised := 0
	var victims []Copy
	for _, c := range copies {
		if c.InView && c.Synchronised {
			synchronised++
		}
		if c.Node != master {
			victims = append(victims, c)
		}
	}
	excess := seats - n
	if synchronised >= n {
		excess = len(copies) - n
	}
	sort.SliceStable(victims, func(i, j int) bool { return lessWorth(victims[i], victims[j]) })
	for _, c := range victims {
		if len(drop) >= excess {
			break
		}
		if c.fresh() && !c.Away || synchronised >= n {
			drop = append(drop, c.Node)
		}
	}
	return drop
}

// lessWorth: fresh ones first, then unsynchronised ones, then the youngest (the latest to join; ties by name, last first).
func lessWorth(a, b Copy) bool {
	if a.fresh() != b.fresh() {
		return a.fresh()
	}
	if a.Synchronised != b.Synchronised {
		return !a.Synchronised
	}
	if a.JoinIndex != b.JoinIndex {
		return a.JoinIndex > b.JoinIndex
	}
	return a.Node > b.Node
}

func adjustNodes(list []string, master string, copies []Copy, nodes []Node) (add, drop []string) {
	wanted, synchronised := 0, 0
	for _, n := range nodes {
		if !slices.Contains(list, n.Name) || !n.Up || n.Witness {
			continue
		}
		i := slices.IndexFunc(copies, func(c Copy) bool { return c.Node == n.Name })
		switch {
		case i >= 0:
			wanted++
			if copies[i].InView && copies[i].Synchronised {
				synchronised++
			}
		case n.takes():
			wanted++
			add = append(add, n.Name)
		}
	}
	for _, c := range copies {
		if c.Node == master || slices.Contains(list, c.Node) {
			continue
		}
		if wanted > 0 && (synchronised >= wanted || c.fresh() && !c.Away) {
			drop = append(drop, c.Node)
		}
	}
	return add, drop
}

// MoveTo is the node to which the master shall be moved because the rule does not list its own (ModeNodes): the first listed
// one that is synchronised and in the view. ok is false if it shall stay.
func MoveTo(rule Rule, master string, copies []Copy) (node string, ok bool) {
	if rule.Mode != ModeNodes || slices.Contains(rule.Nodes, master) {
		return "", false
	}
	for _, name := range rule.Nodes {
		for _, c := range copies {
			if c.Node == name && c.InView && c.Synchronised {
				return name, true
			}
		}
	}
	return "", false
}

// StandIn is the node for a replacement of a member that is away: the one with the fewest replicas among those without a
// copy. ok is false if there is none.
func StandIn(copies []Copy, nodes []Node) (node string, ok bool) {
	var fit []Node
	for _, n := range nodes {
		if n.takes() && !has(copies, n.Name) {
			fit = append(fit, n)
		}
	}
	if len(fit) == 0 {
		return "", false
	}
	return fewest(fit, func(n Node) int { return n.Replicas }), true
}

// Candidate is a member that could be promoted. Lists of candidates stand in age order, oldest first.
type Candidate struct {
	Node         string
	Synchronised bool
}

// Promote applies the promotion table (metadata.md, Promotion): the oldest synchronised candidate; else, if always, the
// oldest, which loses messages; else nobody.
func Promote(candidates []Candidate, always bool) (node string, loss, ok bool) {
	for _, c := range candidates {
		if c.Synchronised {
			return c.Node, false, true
		}
	}
	if always && len(candidates) > 0 {
		return candidates[0].Node, true, true
	}
	return "", false, false
}
