package mirror

import (
	"maps"
	"slices"

	"warren/dataplane/backingqueue"
	"warren/dataplane/gm"
)

// member is a node's place in the queue.
type member struct {
	node      int
	inc, join uint64
	synced    bool
	up        bool // in the view; else away or joining
}

// record is the queue's record after one log entry (metadata.md).
type record struct {
	index      uint64
	status     Status
	mirrored   bool
	auto       bool // ha-sync-mode: automatic
	master     int
	epoch      uint64
	view       uint64
	members    []member
	lastLoss   uint64
	lastSync   map[int]bool
	recovering bool
	ups        map[int]uint64 // node → incarnation that counts as up
	down       []downEntry    // declared by this entry
}

type downEntry struct {
	incarnation
	fenced bool
}

type proposal struct {
	node int
	inc  uint64
	c    Command
}

func (s *sim) rec() *record { return &s.log[len(s.log)-1] }

// next is a copy of the record for the next log entry.
func (s *sim) next() *record {
	r := *s.rec()
	s.index++
	r.index, r.down = s.index, nil
	r.members = slices.Clone(r.members)
	r.lastSync, r.ups = maps.Clone(r.lastSync), maps.Clone(r.ups)
	return &r
}

func (s *sim) commit(r *record) {
	slices.SortStableFunc(r.members, func(a, b member) int {
		if a.join != b.join {
			return int(a.join) - int(b.join)
		}
		return a.node - b.node
	})
	s.log = append(s.log, *r)
	s.tracef("#%d status=%d master=n%d epoch=%d view=%d loss=%d recovering=%v members=%+v", len(s.log), r.status, r.master, r.epoch,
		r.view, r.lastLoss, r.recovering, r.members)
}

func (r *record) member(node int) *member {
	for i := range r.members {
		if r.members[i].node == node {
			return &r.members[i]
		}
	}
	return nil
}

func (s *sim) declare() {
	r := record{index: s.index, status: Running, mirrored: !s.mode.policies, auto: s.chance(50), epoch: 1, view: s.index, lastSync: map[int]bool{}, ups: map[int]uint64{}}
	for i := range s.mode.nodes {
		r.members = append(r.members, member{node: i})
	}
	*r.member(0) = member{node: 0, inc: 1, join: s.index, synced: true, up: true}
	r.ups[0] = 1
	s.commit(&r)
}

func (s *sim) nodeUp(node int, inc uint64) {
	r := s.next()
	if old := r.ups[node]; old != 0 && old != inc {
		s.close(r, []downEntry{{incarnation{node, old}, true}})
	}
	r.ups[node] = inc
	if m := r.member(node); !m.up {
		m.inc = inc
	}
	s.commit(r)
}

func (s *sim) nodesDown(ds []downEntry) {
	r := s.next()
	s.close(r, ds)
	s.commit(r)
}

// close is NodesDown: for all that are gone together.
func (s *sim) close(r *record, ds []downEntry) {
	before := s.synced(r)
	gone := false
	for _, d := range ds {
		if r.ups[d.node] != d.inc {
			continue
		}
		delete(r.ups, d.node)
		r.down = append(r.down, d)
		if m := r.member(d.node); m.up && m.inc == d.inc {
			m.up, m.synced, gone = false, false, true
		}
	}
	if !gone {
		return
	}
	r.view = r.index
	if r.status == Running && !r.member(r.master).up {
		s.promote(r, before)
	}
}

func (s *sim) synced(r *record) map[int]bool {
	set := map[int]bool{}
	for _, m := range r.members {
		if m.up && m.synced {
			set[m.node] = true
		}
	}
	return set
}

// promote is the promotion table, for reason failure.
func (s *sim) promote(r *record, before map[int]bool) {
	var oldest, fit *member
	for i := range r.members {
		m := &r.members[i]
		if m.up && oldest == nil {
			oldest = m
		}
		if m.up && m.synced && fit == nil {
			fit = m
		}
	}
	if fit == nil && (oldest == nil || s.mode.whenSync) {
		if !r.recovering || len(r.lastSync) == 0 {
			r.lastSync = before
		}
		r.takeDown()
		return
	}
	if fit == nil {
		fit = oldest
		r.lastLoss = r.epoch + 1
		s.lossy(r.index)
	}
	s.Promoted++
	r.epoch++
	r.master, r.recovering = fit.node, false
	fit.synced = true // the master is what the others are measured by
}

func (r *record) takeDown() {
	r.status, r.recovering = Down, false
	for i := range r.members {
		r.members[i].up, r.members[i].synced = false, false
	}
}

func (s *sim) ready(node int) bool {
	r := s.next()
	m := r.member(node)
	if r.status != Running || !r.mirrored || m.up || r.ups[node] == 0 || r.ups[node] != m.inc || r.recovering {
		return false
	}
	m.join, m.up, m.synced = r.index, true, false
	r.view = r.index
	s.commit(r)
	return true
}

func (s *sim) recover(node int) {
	r := s.next()
	m := r.member(node)
	if r.status != Down || !r.lastSync[node] || m.up || r.ups[node] == 0 || r.ups[node] != m.inc {
		return
	}
	for i := range r.members {
		r.members[i].up, r.members[i].synced = false, false
	}
	m.up, m.synced, m.join = true, true, r.index
	r.status, r.master, r.recovering = Running, node, true
	r.epoch++
	r.view = r.index
	s.Recovered++
	s.recovered()
	s.commit(r)
}

// setPolicy makes the queue mirrored, or not: then only the master keeps a copy.
func (s *sim) setPolicy(mirrored bool) {
	r := s.next()
	if r.mirrored == mirrored || r.status != Running || r.recovering {
		return
	}
	r.mirrored = mirrored
	if !mirrored {
		for i := range r.members {
			if m := &r.members[i]; m.node != r.master {
				m.up, m.synced = false, false
			}
		}
		if !r.member(r.master).synced {
			return
		}
		r.view = r.index
	}
	s.commit(r)
}

// setSync changes ha-sync-mode.
func (s *sim) setSync(auto bool) {
	r := s.next()
	if r.auto != auto && r.status == Running {
		r.auto = auto
		s.commit(r)
	}
}

// decide applies the proposal; false: refused.
func (s *sim) decide(p proposal) bool {
	r := s.next()
	self := r.member(p.node)
	ok := false
	switch c := p.c.(type) {
	case MirrorSynchronised:
		m := s.place(r, c.Member)
		if ok = m != nil && m.up && r.view == c.View && r.status == Running; ok {
			m.synced = true
			s.Vouched++
		}
	case MirrorUnsynchronised:
		m := s.place(r, c.Member)
		if ok = m != nil && m.up && m.synced; ok {
			m.synced = false
			if r.master == m.node {
				s.chooseAgain(r, m)
			}
		}
	case MasterActing:
		if ok = r.recovering && r.master == p.node && r.epoch == c.Epoch; ok {
			r.recovering, r.lastSync = false, map[int]bool{}
		}
	case TransferMaster:
		m := s.place(r, c.To)
		if ok = r.status == Running && r.epoch == c.Epoch && m != nil && m.up && m.synced; ok {
			r.epoch++
			r.master = m.node
			s.Moves++
		}
	case KeepMaster:
		if ok = r.status == Running && r.epoch+1 == c.Epoch && r.master == p.node && self.up; ok {
			r.epoch++
		}
	}
	if ok {
		s.commit(r)
	}
	return ok
}

// chooseAgain: the named master has not acted and knows that it lacks something.
func (s *sim) chooseAgain(r *record, m *member) {
	s.Contested++
	r.view = r.index
	node := m.node
	delete(r.lastSync, node)
	if r.recovering && len(r.lastSync) > 0 {
		r.takeDown()
		return
	}
	s.promote(r, map[int]bool{})
	if r.master != node {
		r.member(node).up = false
	}
}

func (s *sim) place(r *record, g gm.Member) *member {
	for i := range r.members {
		if m := &r.members[i]; s.nodes[m.node].name == g.Node && m.inc == g.Incarnation && m.join == g.JoinIndex {
			return m
		}
	}
	return nil
}

func (s *sim) view(r *record) (v gm.View, synced []bool) {
	v.Version = r.view
	for _, m := range r.members {
		if m.up {
			v.Members = append(v.Members, s.gmMember(m))
			synced = append(synced, m.synced)
		}
	}
	return v, synced
}

func (s *sim) gmMember(m member) gm.Member {
	return gm.Member{Node: s.nodes[m.node].name, Incarnation: m.inc, JoinIndex: m.join}
}

func (s *sim) assignment(r *record) Assignment {
	v, synced := s.view(r)
	return Assignment{
		Mirrored: r.mirrored, Status: r.status, View: v, Synchronised: synced, Master: s.gmMember(*r.member(r.master)), Epoch: r.epoch,
		LastLossEpoch: r.lastLoss, Recovering: r.recovering, Sync: SyncPolicy{Automatic: r.auto, Batch: s.mode.batch},
	}
}

// apply lets a node apply its next log entry.
func (n *simNode) apply() {
	s := n.s
	r := &s.log[n.applied]
	n.applied++
	for _, d := range r.down {
		n.downs[d.incarnation] = true
		if d.node == n.id && d.inc == n.inc {
			s.tracef("%s learns that it was declared down", n.name)
			n.restart()
			return
		}
	}
	maps.DeleteFunc(n.joiners, func(j int, _ bool) bool { return r.member(j).up })
	m := r.member(n.id)
	wanted := m.inc == n.inc && (m.up || r.status == Running && r.mirrored)
	if n.rep != nil && (n.rep.Role() == Expelled || !wanted) {
		n.do("close", func(r *Replica) error { return r.Close() })
		n.rep, n.group, n.inbox, n.term = nil, nil, nil, nil
	}
	if n.rep == nil && wanted {
		n.open()
	}
	n.do("assign", func(rep *Replica) error { return rep.Assign(s.assignment(r)) })
	for _, d := range r.down {
		n.do("node down", func(rep *Replica) error { return rep.NodeDown(s.nodes[d.node].name, d.inc) })
	}
	if n.rep != nil && n.rep.Role() == Expelled {
		n.do("close", func(r *Replica) error { return r.Close() })
		n.rep, n.group, n.inbox, n.term = nil, nil, nil, nil
		if wanted {
			n.open()
		}
	}
}

func (n *simNode) open() {
	q, rec, err := n.store.Open(simQueue, backingqueue.Options{Durable: true})
	if err != nil {
		n.s.fail("%s: open: %v", n.name, err)
		return
	}
	n.rep, err = New(Config{Queue: simQueue, Name: "q", VHost: "/", Node: n.name, Incarnation: n.inc, Durable: true, Store: q, Recovery: rec, Env: n})
	if err != nil {
		n.s.fail("%s: new: %v", n.name, err)
		return
	}
	n.rep.size = syncSize{offer: 3, walk: 5}
}

// restart is what a process does that learns that it was declared down.
func (n *simNode) restart() {
	n.do("close", func(r *Replica) error { return r.Close() })
	for _, o := range n.s.nodes {
		if o != n && o.alive {
			n.s.linkDown(n, o)
		}
	}
	grants := n.grants
	n.boot()
	n.grants = grants // the process is the same
}

// leaseholders are the nodes from which n needs a lease.
func (s *sim) leaseholders(n *simNode) []int {
	var ids []int
	for _, m := range s.log[n.applied-1].members {
		if m.node != n.id && (m.up || n.joiners[m.node]) {
			ids = append(ids, m.node)
		}
	}
	return ids
}

// grantsClear tells a promoted master when its members have no grant left to an incarnation that was declared down unfenced.
func (n *simNode) grantsClear() bool {
	s := n.s
	if n.rep == nil || n.rep.Role() != Promoting {
		return false
	}
	view := n.rep.a.View
	for _, gmm := range view.Members {
		o := s.nodes[int(gmm.Node[1]-'0')]
		if !o.alive || o.paused || o.inc != gmm.Incarnation || s.log[o.applied-1].index < view.Version {
			return false
		}
		for g := range o.grants {
			if s.log[o.applied-1].ups[g.node] != g.inc {
				return false
			}
		}
	}
	if n.rep.grants >= view.Version {
		return false
	}
	n.do("grants", func(r *Replica) error { return r.GrantsClear(view.Version) })
	return true
}

// expire lets grants that are not renewed run out.
func (n *simNode) expire() bool {
	before := len(n.grants)
	maps.DeleteFunc(n.grants, func(g incarnation, _ bool) bool {
		o := n.s.nodes[g.node]
		return o.inc != g.inc || !n.renews(o)
	})
	return len(n.grants) < before
}
