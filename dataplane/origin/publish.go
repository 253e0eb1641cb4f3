package origin

import (
	"warren/dataplane/backingqueue"
	"warren/dataplane/queue/deque"
	"warren/dataplane/queue/protocol"
)

func (a *Attachment) newOrigin(ch *channel) *originState {
	a.nextRef++
	o := &originState{ref: a.nextRef, ch: ch, base: 1, id: backingqueue.OriginID{
		Node: a.cfg.Self.Name, Incarnation: a.cfg.Self.Incarnation,
		Connection: ch.key.Connection, Channel: ch.key.Channel,
	}}
	ch.origin = o
	a.origins = append(a.origins, o)
	a.byRef[o.ref] = o
	return o
}

// pump sends what credit allows, oldest first.
func (a *Attachment) pump() {
	if a.state != open {
		return
	}
	for a.unsent.Len() > 0 && a.credit.Count > 0 && a.credit.Bytes > 0 {
		o := a.unsent.Pop()
		if o.sent >= o.kept.Len() {
			continue // answered in the meantime
		}
		if !o.attached {
			o.attached = true
			a.seal()
			a.send(&protocol.Attach{Header: a.head(), Origins: []protocol.AttachOrigin{
				{Ref: o.ref, ID: o.id, Lowest: o.base + uint64(o.sent)},
			}})
		}
		k := o.kept.At(o.sent)
		if a.openPublish == nil || len(a.openPublish.Items) >= protocol.MaxItems || a.openBytes >= protocol.BatchBytes {
			a.openPublish, a.openBytes = &protocol.Publish{Header: a.head()}, 0
			a.send(a.openPublish)
		}
		item := protocol.PublishItem{Ref: o.ref, Number: o.base + uint64(o.sent), Void: k.void}
		if !k.void {
			item.Message = k.message
		}
		a.openPublish.Items = append(a.openPublish.Items, item)
		a.openBytes += k.size
		a.credit.Count--
		a.credit.Bytes -= k.size
		o.sent++
	}
}

// result takes the master's answer to publishes of one origin.
func (a *Attachment) result(r protocol.Result) {
	o := a.byRef[r.Ref]
	if o == nil {
		a.letterResult(r)
	}
	if o == nil || o.sent == 0 {
		return
	}
	last := min(r.Last, o.base+uint64(o.sent)-1)
	if r.Nack {
		a.nack(o, max(r.First, o.base), last)
	} else {
		a.confirm(o, last)
	}
	a.dropAnswered(o)
	a.unblock()
	a.closeOriginIfDone(o)
}

func (a *Attachment) confirm(o *originState, last uint64) {
	for o.base <= last {
		first := o.base
		for o.base <= last && !o.kept.At(0).void {
			a.popKept(o)
		}
		if o.base > first && o.ch != nil {
			a.outs = append(a.outs, Output{Kind: Confirmed, Channel: o.ch.key, First: first, Last: o.base - 1})
		}
		a.dropAnswered(o)
	}
}

func (a *Attachment) nack(o *originState, first, last uint64) {
	for n := first; n <= last; {
		for n <= last && o.kept.At(int(n-o.base)).void {
			n++
		}
		from := n
		for n <= last && !o.kept.At(int(n-o.base)).void {
			k := o.kept.At(int(n - o.base))
			a.keptBytes -= k.size - protocol.Overhead
			*k = keptPublish{size: protocol.Overhead, void: true}
			n++
		}
		if n > from && o.ch != nil {
			a.outs = append(a.outs, Output{Kind: Nacked, Channel: o.ch.key, First: from, Last: n - 1})
		}
	}
}

// dropAnswered forgets nacked publishes once nothing before them is kept.
func (a *Attachment) dropAnswered(o *originState) {
	for o.kept.Len() > 0 && o.kept.At(0).void {
		a.popKept(o)
	}
}

func (a *Attachment) popKept(o *originState) {
	k := o.kept.Pop()
	a.keptCount--
	a.keptBytes -= k.size
	o.base++
	o.sent = max(o.sent-1, 0)
}

func (a *Attachment) unblock() {
	low := a.keptCount <= a.cfg.Limits.Publishes*3/4 && a.keptBytes <= a.cfg.Limits.Bytes*3/4
	if len(a.blocked) == 0 || (!low && a.down == 0 && !a.closed) {
		return
	}
	for _, ch := range a.blocked {
		ch.waits = false
		if a.channels[ch.key] == ch {
			a.outs = append(a.outs, Output{Kind: Unblocked, Channel: ch.key})
		}
	}
	a.blocked = nil
}

// closeOriginIfDone ends the origin of a closed channel once nothing of it is kept. If the message is lost with the link,
// the next Attach does without the origin, which says the same.
func (a *Attachment) closeOriginIfDone(o *originState) {
	if o.ch != nil || o.kept.Len() > 0 {
		return
	}
	delete(a.byRef, o.ref)
	for i := range a.origins {
		if a.origins[i] == o {
			a.origins = append(a.origins[:i], a.origins[i+1:]...)
			break
		}
	}
	if a.state == open && o.attached {
		a.seal()
		a.send(&protocol.CloseOrigin{Header: a.head(), Ref: o.ref})
	}
}

// nackAll answers every publish that waits: the queue is down or deleted.
func (a *Attachment) nackAll() {
	a.unsent = deque.Deque[*originState]{}
	for _, o := range append([]*originState(nil), a.origins...) {
		if n := o.kept.Len(); n > 0 {
			a.nack(o, o.base, o.base+uint64(n)-1)
			a.dropAnswered(o)
		}
		a.closeOriginIfDone(o)
	}
	a.unblock()
}
