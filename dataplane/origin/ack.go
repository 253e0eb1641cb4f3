package origin

import (
	"warren/dataplane/backingqueue"
	"warren/dataplane/queue/protocol"
)

// keptAck is an acknowledgement that is not stable yet; batch is the Number of the Ack that carried it in this session, 0
// before it was sent.
type keptAck struct {
	protocol.Named
	batch   uint64
	outcome protocol.Outcome
}

func (a *Attachment) settle(ch *channel, ids []uint64, outcome protocol.Outcome) {
	if ch == nil || a.closed {
		return
	}
	for _, id := range ids {
		d, ok := ch.outstanding[id]
		if !ok {
			continue
		}
		delete(ch.outstanding, id)
		var batch uint64
		if a.state == open {
			batch = a.sendAck(d.Named, outcome, d.epoch == a.epoch)
		}
		if outcome != protocol.Requeued { // a requeue needs no keeping: what nobody has outstanding is ready
			a.keptAcks.Push(keptAck{Named: d.Named, batch: batch, outcome: outcome})
		}
	}
}

// sendAck adds to the newest Ack or begins another, and returns its number. bySeq: the master of the session delivered it.
func (a *Attachment) sendAck(n protocol.Named, outcome protocol.Outcome, bySeq bool) uint64 {
	ack := a.openAck
	if ack == nil || ack.Outcome != outcome || a.openCovered >= protocol.MaxItems {
		ack = &protocol.Ack{Header: a.head(), Outcome: outcome}
		if outcome != protocol.Requeued {
			a.ackNumber++
			ack.Number = a.ackNumber
		}
		a.openAck, a.openCovered = ack, 0
		a.send(ack)
	}
	a.openCovered++
	if !bySeq {
		ack.Named = append(ack.Named, n)
		return ack.Number
	}
	if k := len(ack.Seqs); k > 0 && ack.Seqs[k-1].Last+1 == n.Seq {
		ack.Seqs[k-1].Last = n.Seq
	} else {
		ack.Seqs = append(ack.Seqs, backingqueue.Range{First: n.Seq, Last: n.Seq})
	}
	return ack.Number
}

// acksStable forgets what needs no repeat any more.
func (a *Attachment) acksStable(upTo uint64) {
	for a.keptAcks.Len() > 0 {
		if b := a.keptAcks.At(0).batch; b == 0 || b > upTo {
			return
		}
		a.keptAcks.Pop()
	}
}
