package mirror

import (
	"encoding/binary"
	"fmt"
	"reflect"
	"slices"

	"warren/dataplane/backingqueue"
)

// truth is what the clients know; the checks are against it.
type truth struct {
	lastID    uint64
	channels  uint64
	published map[uint64]pubKey
	confirmed map[uint64]uint64      // id → index of the metadata at that time
	acked     map[uint64]incarnation // id → whose consumer acknowledged it
	refused   map[uint64]bool
	lastLossy uint64 // ids up to it may be lost, or come back
	lostTrans uint64 // transient ids up to it may be lost
	server    uint64 // the highest epoch that served
	truthCounts
}

type pubKey struct {
	origin     backingqueue.OriginID
	number     uint64
	persistent bool
}

type truthCounts struct {
	Confirmed, Acked, Promoted, Lossy, Recovered, Moves, Repeats, Refused, Vouched, Contested, Stuck int
	Synced, Copied, Gone, Cancelled, Interrupted, Aside                                              int
}

func (c *truthCounts) add(o truthCounts) {
	a, b := reflect.ValueOf(c).Elem(), reflect.ValueOf(o)
	for i := range a.NumField() {
		a.Field(i).SetInt(a.Field(i).Int() + b.Field(i).Int())
	}
}

func newTruth() truth {
	return truth{
		published: map[uint64]pubKey{}, confirmed: map[uint64]uint64{}, acked: map[uint64]incarnation{},
		refused: map[uint64]bool{},
	}
}

func encodeID(id uint64) []byte { return binary.BigEndian.AppendUint64(make([]byte, 0, 64), id)[:64] }
func decodeID(b []byte) uint64  { return binary.BigEndian.Uint64(b) }

func (s *sim) lossy(uint64) { s.Lossy++; s.lastLossy = s.lastID }
func (s *sim) recovered()   { s.lostTrans = s.lastID }

func (s *sim) confirm(id uint64) {
	s.tracef("id %d is confirmed", id)
	s.Confirmed++
	if s.refused[id] {
		s.fail("id %d was refused and is confirmed", id)
	}
	s.confirmed[id] = s.rec().index
}

// nacked: the client was told so. What was refused is not stored, nor will it be.
func (s *sim) nacked(id uint64, refused bool) {
	s.tracef("id %d is nacked, refused %v", id, refused)
	if refused {
		s.refused[id] = true
	}
}

func (s *sim) acknowledge(id uint64, n *simNode) {
	s.tracef("id %d is acknowledged at %s", id, n.name)
	s.Acked++
	s.acked[id] = incarnation{n.id, n.inc}
}

// delivered: what was acknowledged does not come back while the node that acknowledged lives (mirroring.md).
func (s *sim) delivered(id uint64, to *simNode) {
	s.tracef("id %d is delivered to %s", id, to.name)
	if s.refused[id] {
		s.fail("id %d was refused and is delivered", id)
	}
	if a, ok := s.acked[id]; ok && id > s.lastLossy && s.nodes[a.node].alive && s.rec().ups[a.node] == a.inc {
		s.fail("id %d was acknowledged and is delivered again", id)
	}
}

// served: never two masters at work.
func (s *sim) served(n *simNode, epoch uint64) {
	if epoch < s.server {
		s.fail("%s serves under epoch %d after epoch %d did", n.name, epoch, s.server)
	}
	s.server = epoch
}

// content is what a copy holds: position, origin, number and message, and the tables beside it.
func (r *Replica) content() string {
	var b []byte
	for seq, ok := r.q.Next(0); ok; seq, ok = r.q.Next(seq + 1) {
		e, _, _ := r.q.Get(seq)
		b = fmt.Appendf(b, "%d=%d:%d:%d(%d) ", seq, e.Ref, e.Number, decodeID(e.Message.Body), r.meta.epochOf(seq))
	}
	b = fmt.Appendf(b, "next %d origins", r.next)
	for _, o := range r.q.Origins() {
		b = fmt.Appendf(b, " %v", o)
		if m := r.origin.byRef[o.Ref]; m == nil || m.Origin != o {
			b = fmt.Appendf(b, " (in memory %+v)", m)
		}
	}
	return string(fmt.Appendf(b, " losses %v refused %v", r.meta.losses, r.meta.refused))
}

// checkRest is asked when nothing is under way.
func (s *sim) checkRest() {
	r := s.rec()
	if r.status != Running {
		s.Stuck++
		if !s.mode.whenSync && len(r.lastSync) > 0 {
			s.fail("the queue is down at rest: %+v", *r)
		}
		return
	}
	master := s.nodes[r.master].rep
	if master == nil || master.Role() != Master {
		s.fail("no acting master at rest")
		return
	}
	want := master.content()
	for _, m := range r.members {
		rep := s.nodes[m.node].rep
		if j, ok := master.joiners[s.gmMember(m)]; m.up && !m.synced && !(ok && (j.cancelled || j.declined && !r.auto)) {
			s.fail("n%d is up and not synchronised at rest: %+v", m.node, j)
		}
		if m.up && m.synced && rep.content() != want {
			s.fail("synchronised n%d differs from the master n%d:\n%s\n%s", m.node, r.master, rep.content(), want)
		}
	}
	s.checkContent(master)
	for _, n := range s.nodes {
		if n.channel != nil && len(n.channel.kept) > 0 {
			s.fail("%s still keeps publishes: %+v", n.name, n.channel.kept)
		}
		if n.group != nil && !n.group.Idle() {
			s.fail("%s: the ring is not idle: %+v", n.name, n.group.Stats())
		}
	}
}

// checkContent: nothing confirmed is lost, nothing is there twice, and each origin's messages are in order.
func (s *sim) checkContent(master *Replica) {
	seen := map[uint64]bool{}
	last := map[backingqueue.OriginID]uint64{}
	for seq, ok := master.q.Next(0); ok; seq, ok = master.q.Next(seq + 1) {
		e, _, _ := master.q.Get(seq)
		id := decodeID(e.Message.Body)
		k := s.published[id]
		if seen[id] {
			s.fail("id %d is in the queue twice", id)
		}
		if s.refused[id] {
			s.fail("id %d was refused and is in the queue", id)
		}
		if k.number <= last[k.origin] {
			s.fail("id %d is out of order", id)
		}
		seen[id], last[k.origin] = true, k.number
	}
	ids := make([]uint64, 0, len(s.confirmed))
	for id := range s.confirmed {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		_, acked := s.acked[id]
		excused := id <= s.lastLossy || !s.published[id].persistent && id <= s.lostTrans
		if !seen[id] && !acked && !excused {
			s.fail("id %d was confirmed and is lost", id)
		}
	}
}

// run plays a history: faults, then rest, then the consumers drain the queue.
func (s *sim) run() {
	if s.chance(85) {
		s.rest() // all mirrors have joined, and are synchronised with an empty queue
	}
	for range 3 {
		if s.mode.backlog && s.err == nil {
			for range 8 {
				for _, n := range s.nodes {
					n.publish()
				}
			}
			s.rest()
		}
	}
	steps := 200 + s.rng.IntN(400)
	for range steps {
		s.step()
		if s.err != nil {
			return
		}
	}
	s.tracef("--- rest")
	for _, n := range s.nodes {
		n.paused, n.late = false, false
	}
	s.rest()
	if s.err == nil {
		s.checkRest()
	}
	if s.err != nil || s.rec().status != Running {
		return
	}
	s.tracef("--- drain")
	for range 10 * len(s.published) {
		if t := s.nodes[s.rec().master].term; t == nil || !t.deliver() && !s.ackAll() {
			break
		}
		s.rest()
	}
	for s.ackAll() {
		s.rest()
	}
	if s.err == nil {
		s.checkDrained()
	}
}

func (s *sim) ackAll() bool {
	did := false
	for _, n := range s.nodes {
		for len(n.unacked) > 0 {
			n.ack()
			did = true
		}
	}
	return did
}

// checkDrained: the missing part has shrunk until it is gone.
func (s *sim) checkDrained() {
	r := s.rec()
	if n := s.nodes[r.master].rep.q.Stats().Messages; n != 0 {
		s.fail("%d messages are left after all was acknowledged", n)
	}
	for _, m := range r.members {
		if r.mirrored && (!m.up || !m.synced) {
			s.fail("n%d is not synchronised with an empty queue", m.node)
		}
	}
	s.checkRest()
}

// step does one random thing.
func (s *sim) step() {
	n := s.nodes[s.rng.IntN(len(s.nodes))]
	switch k := s.rng.IntN(1000); {
	case k < 12:
		s.fault(n)
	case k < 80:
		s.admin(n)
	case k < 170:
		if n.alive && !n.paused {
			n.publish()
		}
	case k < 230:
		if n.alive && !n.paused && (!s.mode.backlog || s.chance(30)) {
			n.ack()
		}
	case k < 236:
		if n.alive {
			n.closeChannel()
		}
	default:
		for range 1 + s.rng.IntN(6) {
			s.work(s.nodes[s.rng.IntN(len(s.nodes))], s.rng.IntN(workKinds))
		}
	}
}

// fault is a crash, a power failure, an expulsion or a broken link.
func (s *sim) fault(n *simNode) {
	if s.chance(40) {
		n = s.nodes[s.rec().master]
	}
	switch k := s.rng.IntN(10); {
	case k < 4 && n.alive:
		n.crash(false)
	case k < 5 && s.mode.power:
		for _, o := range s.nodes {
			if o.alive {
				o.crash(true)
			}
		}
	case k < 7 && s.mode.unfenced && n.alive && s.rec().ups[n.id] == n.inc:
		s.tracef("%s is declared down alive", n.name)
		n.paused, n.late = s.chance(40), s.chance(50)
		s.nodesDown([]downEntry{{incarnation{n.id, n.inc}, false}})
	case n.alive:
		if o := s.nodes[s.rng.IntN(len(s.nodes))]; o != n && o.alive && s.links[[2]int{n.id, o.id}].up {
			s.tracef("link %s-%s breaks", n.name, o.name)
			s.linkDown(n, o)
		}
	}
}

// admin is what the metadata leader and the operator do.
func (s *sim) admin(n *simNode) {
	switch s.rng.IntN(11) {
	case 9:
		if n.rep != nil {
			n.do("tick", func(r *Replica) error { return r.SyncTick() })
		}
		if s.chance(20) {
			s.setSync(s.chance(50))
		}
	case 10:
		s.operate()
	case 8:
		n.paused, n.late = s.chance(20), s.chance(20)
	case 0:
		if !n.alive {
			n.boot()
		}
	case 1, 2:
		s.declareDown()
	case 3:
		s.join(n)
	case 4:
		s.recoverOne(n, s.chance(10))
	case 5:
		if s.mode.moves && !n.paused && n.rep != nil && n.rep.Role() == Master {
			s.handOver(n)
		}
	case 6:
		if n.rep != nil {
			n.rep.HandOverTimeout()
		}
	case 7:
		if s.mode.policies && s.chance(50) {
			s.setPolicy(s.chance(80))
		}
	}
}

func (s *sim) handOver(n *simNode) {
	for _, m := range s.rec().members {
		if g := s.gmMember(m); m.up && m.synced && m.node != n.id && n.rep.recorded(g) {
			s.tracef("%s hands over to %s", n.name, g.Node)
			n.do("hand over", func(r *Replica) error { return r.HandOver(g) })
			return
		}
	}
}

// declareDown declares everybody down who is found dead.
func (s *sim) declareDown() bool {
	var ds []downEntry
	for _, n := range s.nodes {
		if inc := s.rec().ups[n.id]; inc != 0 && (!n.alive || n.inc != inc) {
			ds = append(ds, downEntry{incarnation{n.id, inc}, true})
		}
	}
	if len(ds) > 0 {
		s.nodesDown(ds)
	}
	return len(ds) > 0
}

// join lets the acting master propose MirrorReady for a mirror whose store is open. From then on it needs its lease.
func (s *sim) join(n *simNode) bool {
	m := s.nodes[s.rec().master]
	if n.rep == nil || n.rep.Role() != Idle || m.paused || m.rep == nil || m.rep.Role() != Master ||
		// A master that has yet to leave the ring and join it again would lose what the joiner sends it.
		s.mode.policies && m.applied < len(s.log) || !s.ready(n.id) {
		return false
	}
	m.joiners[n.id] = true
	return true
}

// recoverOne lets the last master, or after the wait another of the last synchronised set, recover the queue.
func (s *sim) recoverOne(n *simNode, waited bool) bool {
	if r := s.rec(); r.status == Down && n.alive && (n.id == r.master || waited) {
		before := len(s.log)
		s.recover(n.id)
		return len(s.log) > before
	}
	return false
}

const workKinds = 13

// work lets a node do one piece of what it has to do; false: it has none of that kind.
func (s *sim) work(n *simNode, kind int) bool {
	if kind == 0 && len(s.proposed) > 0 {
		s.commitProposal()
		return true
	}
	if !n.alive || n.paused {
		return false
	}
	did := false
	switch kind {
	case 1:
		if did = n.applied < len(s.log) && !n.late; did {
			n.apply()
		}
	case 2, 3:
		if did = len(n.inbox) > 0 && n.rep != nil; did {
			n.mail()
		}
	case 4, 5:
		did = s.carryAny(n)
	case 6:
		if did = n.store.FlushSynced() || s.chance(20) && n.store.FlushOne(simQueue); did && n.rep != nil {
			n.rep.DurableMoved()
		}
	case 7:
		did = n.connect() || n.expire() || n.grantsClear()
	case 8:
		if did = len(n.down) > 0; did {
			n.hear()
		}
	case 9:
		if t := n.term; t != nil {
			from := s.nodes[s.rng.IntN(len(s.nodes))]
			did = from.alive && !from.paused && t.take(from)
			if s.chance(30) {
				did = t.deliver() || did
			}
		}
	case 10:
		did = s.hurried() && n.hearSync()
	case 11, 12:
		if did = s.hurried() && n.syncStep(); did && s.chance(2) {
			s.operate()
		}
	}
	if n.alive && n.rep != nil && s.chance(70) {
		n.do("flush", func(r *Replica) error { return r.Flush() })
	}
	return did
}

func (s *sim) carryAny(to *simNode) bool {
	first := s.rng.IntN(len(s.nodes))
	for i := range s.nodes {
		from := (first + i) % len(s.nodes)
		if len(s.links[[2]int{from, to.id}].frames) > 0 {
			s.carry(from, to.id)
			return true
		}
	}
	return false
}

func (s *sim) commitProposal() {
	i := s.rng.IntN(len(s.proposed))
	p := s.proposed[i]
	s.proposed = slices.Delete(s.proposed, i, i+1)
	if !s.decide(p) {
		s.tracef("refused: %+v", p)
		if n := s.nodes[p.node]; n.alive && n.inc == p.inc {
			n.do("proposal failed", func(r *Replica) error { return r.ProposalFailed(p.c) })
		}
	}
}

// rest mends everything and works until nothing is left to do.
func (s *sim) rest() {
	s.resting = true
	defer func() { s.resting = false }()
	for idle, rounds := 0, 0; idle < 4; rounds++ {
		if s.err != nil {
			return
		}
		if rounds > 20000 {
			m := s.nodes[s.rec().master].rep
			s.fail("does not come to rest: joiners %+v, run %+v", m.joiners, m.run)
			for _, n := range s.nodes {
				s.tracef("%s: role %v anchored %v meta %+v incoming %+v, ring %+v", n.name, n.rep.role, n.rep.anchored, n.rep.meta, n.rep.incoming, n.group.Stats())
			}
			return
		}
		did := s.mend()
		for _, n := range s.nodes {
			for kind := range workKinds {
				did = s.work(n, kind) || did
			}
			if n.alive && n.rep != nil {
				n.do("flush", func(r *Replica) error { return r.Flush() })
				if n.term != nil {
					for _, from := range s.nodes {
						did = from.alive && n.term != nil && n.term.take(from) || did
					}
				}
				if n.rep.Role() == Ending && idle > 1 {
					n.rep.HandOverTimeout()
					did = true
				}
			}
		}
		did = did || s.tick()
		idle++
		if did {
			idle = 0
		}
	}
}

func (s *sim) mend() bool {
	did := s.declareDown()
	for i, n := range s.nodes {
		if !n.alive {
			n.boot()
			did = true
		}
		for _, o := range s.nodes[i+1:] {
			if n.alive && o.alive && !s.links[[2]int{n.id, o.id}].up {
				s.linkUp(n, o)
				did = true
			}
		}
		did = s.join(n) || did
	}
	for _, n := range s.nodes {
		did = s.recoverOne(n, !s.rec().lastSync[s.rec().master] || s.chance(50)) || did
	}
	return did
}
