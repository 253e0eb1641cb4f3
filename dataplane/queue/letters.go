package queue

import (
	"warren/dataplane/backingqueue"
	"warren/dataplane/message"
	"warren/dataplane/queue/protocol"
)

// Dead letters. A message that dies while there is a dead letter exchange stays where it is, neither ready nor outstanding,
// until its Letter is stable in all targets; its Remove follows, and when that is stable as well the targets may forget
// where the letter came from. So a failover of either side repeats the letter, which the targets recognise by its source,
// or the death, and nothing is lost or doubled (mirroring.md, Origins).
//
// At most a window of letters is under way. What is rejected beyond it waits as a position; what expired or is too much
// stays at the head, and the publishers wait in the end (field report B56).

// Letter is a message that died and is to be published to the dead letter exchange.
type Letter struct {
	Position protocol.Position
	Reason   Reason
	Message  message.Message
}

// ID is the origin under which a letter of the queue is published.
func (l *Letter) ID(queue backingqueue.ID) backingqueue.OriginID {
	return backingqueue.OriginID{Incarnation: uint64(queue), Connection: l.Position.Epoch, Channel: l.Position.Seq}
}

// IsLetter tells whether an origin is the source of a dead letter.
func IsLetter(id backingqueue.OriginID) bool { return id.Node == "" }

// dying is a message whose letter is not stable yet.
type dying struct {
	reason Reason
	size   int64 // body
	sent   bool
	// The Ack that rejected it, if any: it is stable only when the message is removed.
	node    *node
	session uint64
	ack     uint64
}

// buried are letters whose Remove is op.
type buried struct {
	op        Op
	positions []protocol.Position
}

const (
	// letterCount and letterBytes are how much may be under way to the dead letter exchange.
	letterCount = 512
	letterBytes = 4 << 20
)

// mayBury tells whether messages may be dropped from the head: without a dead letter exchange always.
func (p *Process) mayBury() bool {
	return !p.set.DeadLetter || len(p.dying) < p.opt.Letters && p.dyingBytes < letterBytes
}

// bury ends a message that was taken off the head: it is added to what is to be removed, or becomes a letter.
func (p *Process) bury(rs []backingqueue.Range, e *backingqueue.Entry, reason Reason) []backingqueue.Range {
	if !p.set.DeadLetter {
		return addRange(rs, e.Seq)
	}
	p.doom(e.Seq, dying{reason: reason, size: int64(len(e.Message.Body))})
	return rs
}

// doom makes a message dying.
func (p *Process) doom(seq uint64, d dying) {
	if _, again := p.dying[seq]; again {
		return
	}
	if d.ack != 0 {
		d.node.acks.At(int(d.ack-d.node.firstAck)).missing++
	}
	p.dying[seq] = &d
	p.dyingBytes += d.size
	p.doomed.Push(seq)
}

// doomRejected makes letters of what n rejected with the Ack ack.
func (p *Process) doomRejected(rs []backingqueue.Range, n *node, session, ack uint64) {
	for _, r := range rs {
		for seq := r.First; seq <= r.Last; seq++ {
			p.doom(seq, dying{reason: ReasonRejected, size: p.sizeOf(seq), node: n, session: session, ack: ack})
		}
	}
}

// sizeOf is the size of a body where it matters.
func (p *Process) sizeOf(seq uint64) int64 {
	if !p.set.MaxBytes.Set {
		return 0
	}
	e, _, err := p.b.Get(seq)
	if err != nil {
		p.fail("read a message", err)
	}
	return int64(len(e.Message.Body))
}

// sendLetters gives letters to the owner as far as the window allows, once everything that was broadcast before they died is
// stable: else a failover might lose the message here alone, and its publisher's repeat would die again at another position.
func (p *Process) sendLetters() {
	if p.barred == 0 && p.doomed.Len() > 0 {
		p.barred = p.doomed.Len()
		p.remove(nowhere(), ReasonDropped)
		p.barrier = p.lastOp
	}
	for p.active() && p.lettersDue() {
		seq := p.doomed.Pop()
		p.barred--
		d := p.dying[seq]
		if d == nil || d.sent {
			continue
		}
		e, ok, err := p.b.Get(seq)
		if err != nil {
			p.fail("read a message", err)
			return
		}
		if !ok { // somebody else acknowledged it
			p.survived(seq, d)
			continue
		}
		d.sent = true
		p.letterBytes += d.size
		p.lettersOut++
		p.outs = append(p.outs, Output{Kind: DeadLetter, Letter: Letter{
			Position: protocol.Position{Epoch: p.b.EpochOf(seq), Seq: seq}, Reason: d.reason, Message: e.Message,
		}})
	}
}

// lettersDue tells whether a letter may be sent now.
func (p *Process) lettersDue() bool {
	return p.barred > 0 && p.barrier <= p.stable && p.lettersOut < p.opt.Letters && p.letterBytes < letterBytes
}

// nowhere is no message's place: its removal changes nothing, and is stable with all that was broadcast before.
func nowhere() []backingqueue.Range { return []backingqueue.Range{{}} }

// survived forgets a dying message; the Ack that waits for it is stable with everything removed so far.
func (p *Process) survived(seq uint64, d *dying) {
	delete(p.dying, seq)
	p.dyingBytes -= d.size
	if d.sent {
		p.letterBytes -= d.size
		p.lettersOut--
	}
	if d.ack != 0 && d.session == d.node.session && p.nodes[d.node.id] == d.node {
		b := d.node.acks.At(int(d.ack - d.node.firstAck))
		b.missing--
		b.op = p.lastOp
		p.releaseAcks(d.node)
	}
}

// LettersDone says that letters of this term are stable in all their targets, or have none. LettersBuried follows for each.
func (p *Process) LettersDone(positions []protocol.Position) error {
	if !p.active() {
		return p.err
	}
	byReason := map[Reason][]backingqueue.Range{}
	for _, at := range positions {
		if d := p.dying[at.Seq]; d != nil && d.sent {
			byReason[d.reason] = addRange(byReason[d.reason], at.Seq)
		}
	}
	for _, reason := range []Reason{ReasonRejected, ReasonExpired, ReasonDropped} {
		p.remove(byReason[reason], reason)
	}
	for _, at := range positions {
		if d := p.dying[at.Seq]; d != nil && d.sent {
			p.survived(at.Seq, d)
		}
	}
	if p.lastOp > p.stable {
		p.graves.Push(buried{p.lastOp, positions})
	} else {
		p.outs = append(p.outs, Output{Kind: LettersBuried, Positions: positions})
	}
	return p.settled()
}

// closeGraves tells which letters nobody will ever send again.
func (p *Process) closeGraves() {
	for p.graves.Len() > 0 && p.graves.At(0).op <= p.stable {
		p.outs = append(p.outs, Output{Kind: LettersBuried, Positions: p.graves.At(0).positions})
		p.graves.Pop()
	}
}

// Forgotten tells, of positions of letters that a target remembers, which this master does not hold any more and so never
// sends again. ok is false if it cannot tell now.
func (p *Process) Forgotten(positions []protocol.Position) (gone []protocol.Position, ok bool) {
	if p.state != serving || p.err != nil || p.stable < p.lastOp {
		return nil, false
	}
	for _, at := range positions {
		seq, held := p.b.Next(at.Seq)
		if !held || seq != at.Seq || p.b.EpochOf(seq) != at.Epoch {
			gone = append(gone, at)
		}
	}
	return gone, true
}

// Sources are the letters that this queue, as their target, remembers.
func (p *Process) Sources() (ids []backingqueue.OriginID) {
	if p.table == nil || p.state != serving || !p.sources {
		return nil
	}
	p.sources = false
	for _, line := range p.table.Origins() {
		if IsLetter(line.ID) {
			p.sources = true
			ids = append(ids, line.ID)
		}
	}
	return ids
}

// ForgetSources drops letters' origins that will never send again.
func (p *Process) ForgetSources(ids []backingqueue.OriginID) error {
	for _, id := range ids {
		if p.state != serving || p.err != nil || !IsLetter(id) {
			continue
		}
		if o := p.origins[id]; o != nil {
			p.detachOrigin(o)
		} else if p.mayClose(id) {
			p.fail("close an origin", p.b.CloseOrigin(id))
		}
	}
	return p.settled()
}
