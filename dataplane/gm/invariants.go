//go:build warren_invariants || race

package gm

import "fmt"

// check panics if the state contradicts itself. It runs after every input of builds with the tag warren_invariants, which
// race builds are too.
func (g *Group) check() {
	if g.expelled || g.view.Version == 0 {
		return
	}
	n, own, ctl, bytes, pos := 0, int64(0), int64(0), int64(0), uint64(0)
	unsent := g.out.cursor == nil
	for e := g.log.head; e != nil; e = e.next {
		unsent = unsent || e == g.out.cursor
		if e.pos <= pos {
			panic("gm: log out of order")
		}
		if e.num > e.s.recv || e.num <= e.s.stable && !(g.out.started && g.out.cursor != nil && e.pos >= g.out.cursor.pos) {
			panic(fmt.Sprintf("gm: %v number %d in the log, stable %d, received %d", e.s.id, e.num, e.s.stable, e.s.recv))
		}
		if e.s == g.me && e.class == Bulk {
			own += e.size()
		} else if e.s == g.me {
			ctl += e.size()
		}
		pos = e.pos
		bytes += e.size()
		n++
	}
	if !unsent || n != g.log.count || bytes != g.log.bytes || own != g.unstable || ctl != g.control {
		panic("gm: sums of the log")
	}
	held := int64(0)
	for _, list := range [][]*sender{g.senders, g.ghosts} {
		for _, s := range list {
			held += g.checkSender(s)
		}
	}
	if held != g.held {
		panic(fmt.Sprintf("gm: credit held %d, counted %d", g.held, held))
	}
	if g.out.started && g.succ == nil || g.in.started && g.pred == nil || g.out.started && g.fresh && g.rule == 0 {
		panic("gm: a link is started that cannot be")
	}
}

func (g *Group) checkSender(s *sender) (held int64) {
	if s.stable > s.recv && s.state != stateRemembered || s.persisted > s.recv {
		panic(fmt.Sprintf("gm: %v received %d, stable %d, persisted %d", s.id, s.recv, s.stable, s.persisted))
	}
	if s.state == stateMember && (s.index < 0 || g.ring[s.index] != s) {
		panic("gm: index of a member")
	}
	for _, h := range s.queue[s.owed:] {
		held += h.credit
	}
	return held
}
