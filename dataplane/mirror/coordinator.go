package mirror

import (
	"fmt"

	"warren/dataplane/gm"
)

// originsPerMessage limits the lines of the table of origins in one ring message.
const originsPerMessage = 256

// sendPosition tells the mirrors that do not follow the stream where they begin, with the tables that they need. It comes
// when a view brings a member, when the record says that one is not synchronised any more, and when a mirror asks.
func (r *Replica) sendPosition() error {
	if r.ring == nil {
		return nil
	}
	var to []gm.Member
	for _, m := range r.a.View.Members {
		if _, ok := r.joiners[m]; !ok && m != r.self && !r.recorded(m) {
			to = append(to, m)
		}
	}
	if len(to) == 0 {
		return nil
	}
	lines := r.originLines()
	for first := true; first || len(lines) > 0; first = false {
		n := min(len(lines), originsPerMessage)
		if err := r.cast(gm.Control, encodeOrigins(first, lines[:n]), needNothing); err != nil {
			return err
		}
		lines = lines[n:]
	}
	st := r.q.Stats()
	p := &op{
		epoch: r.term.Epoch, seq: r.next, oldest: st.FirstSeq, count: st.Messages, ref: r.meta.nextRef, members: to,
		epochs: r.meta.epochs, floor: r.meta.floor, lost: r.meta.lost,
	}
	if err := r.cast(gm.Barrier, encodePosition(p), needNow); err != nil {
		return err
	}
	for _, m := range to {
		r.joiners[m] = joiner{baseline: r.next, number: r.newest(), whole: st.Messages == 0}
	}
	return nil
}

// vouch proposes the mirrors that have become synchronised: everything from the baseline on reaches them, and they have all
// that the master holds below, whether it was sent or has been consumed ("the missing part shrinks until it is gone"). Their
// disks know both, so that a mirror that the record counts as synchronised finds itself reconciled after a power failure.
func (r *Replica) vouch() error {
	if len(r.joiners) == 0 {
		return nil
	}
	st := r.q.Stats()
	var gone []gm.Member
	for _, m := range r.a.View.Members {
		if j, ok := r.joiners[m]; ok && !j.whole && drained(st, j) {
			gone = append(gone, m)
		}
	}
	if len(gone) > 0 {
		if err := r.endRun(gone, flagDrained); err != nil {
			return err
		}
	}
	for _, m := range r.a.View.Members {
		j, ok := r.joiners[m]
		if ok && j.whole && !j.proposed && j.number <= r.term.persisted {
			j.proposed = true
			r.joiners[m] = j
			r.env.Propose(MirrorSynchronised{Member: m, View: r.a.View.Version})
		}
	}
	return nil
}

// move is a planned move under way (mirroring.md, planned moves).
type move struct {
	to       gm.Member
	number   uint64 // of MasterEnds
	proposed bool
}

// HandOver starts a planned move of the master to a synchronised mirror: this copy takes no more operations, and once all
// members have received what it did it proposes TransferMaster. ErrNoTarget if to is not fit, ErrNotActing if this copy is
// not an acting master; nothing has changed then. It ends with Resigned(Deposed), or, after HandOverTimeout, with Acting under a new
// epoch.
func (r *Replica) HandOver(to gm.Member) error {
	if r.role != Master || r.ring == nil {
		return fmt.Errorf("hand over queue %q, epoch %d: %w", r.cfg.Name, r.a.Epoch, ErrNotActing)
	}
	if to == r.self || !r.recorded(to) {
		return fmt.Errorf("hand over queue %q to %s: %w", r.cfg.Name, to.Node, ErrNoTarget)
	}
	r.role, r.run = Ending, nil
	r.stream.ended = true
	r.env.Resigned(Suspended)
	if err := r.tell(encodeMasterEnds(r.term.Epoch)); err != nil {
		return err
	}
	r.term.move = move{to: to, number: r.newest()}
	r.tryTransfer()
	return nil
}

// tryTransfer proposes the transfer once all members have received MasterEnds, and all before it.
func (r *Replica) tryTransfer() {
	m := &r.term.move
	if m.proposed || r.term.received < m.number {
		return
	}
	m.proposed = true
	r.env.Propose(TransferMaster{Epoch: r.term.Epoch, To: m.to})
}

// HandOverTimeout says that nothing was committed within a second. The old master asks to go on; whichever of the two proposals
// commits first makes the other stale. The caller tells it again each second until Role is no longer Ending.
func (r *Replica) HandOverTimeout() {
	if r.role != Ending {
		return
	}
	r.term.move.proposed = true
	r.env.Propose(KeepMaster{Epoch: r.term.Epoch + 1, Self: r.self})
}
