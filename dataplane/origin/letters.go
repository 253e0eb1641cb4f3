package origin

import (
	"sort"

	"warren/dataplane/backingqueue"
	"warren/dataplane/message"
	"warren/dataplane/queue/protocol"
)

// Dead letters of a queue whose master is on this node, on their way to this attachment's queue. Each has an origin of its own,
// which names the source's position, so that the target knows it again whichever node sends it (mirroring.md, Origins). They
// use no credit: their source has a window of its own, and two full queues that dead-letter into each other must not wait
// for each other.

// letter is one of them.
type letter struct {
	ref     uint64
	id      backingqueue.OriginID
	message message.Message
	done    bool // answered; its origin stays open until CloseLetter
}

// PublishLetter takes a dead letter; a Lettered answers it once, however often the master changes.
func (a *Attachment) PublishLetter(id backingqueue.OriginID, m message.Message) {
	code := a.down
	if a.closed {
		code = protocol.ErrDeleted
	}
	if code != 0 {
		a.outs = append(a.outs, Output{Kind: Lettered, Letter: id, Code: code})
		return
	}
	l := a.letters[id]
	if l == nil {
		a.nextRef++
		l = &letter{ref: a.nextRef, id: id}
		a.letters[id] = l
		a.letterRefs[l.ref] = l
	}
	l.message, l.done = m, false
	if a.state == open {
		a.sendLetter(l, true)
	}
}

// CloseLetter says that the letter will never be sent again.
func (a *Attachment) CloseLetter(id backingqueue.OriginID) {
	if l := a.letters[id]; l != nil {
		if a.state == open {
			a.seal()
			a.send(&protocol.CloseOrigin{Header: a.head(), Ref: l.ref})
		}
		a.ForgetLetter(id)
	}
}

// ForgetLetter drops the letter without a word: its source is master elsewhere, or will send it again.
func (a *Attachment) ForgetLetter(id backingqueue.OriginID) {
	if l := a.letters[id]; l != nil {
		delete(a.letters, id)
		delete(a.letterRefs, l.ref)
	}
}

func (a *Attachment) sendLetter(l *letter, attach bool) {
	if attach {
		if at := a.openLetters; at == nil || len(at.Origins) >= protocol.MaxItems {
			a.openLetters = &protocol.Attach{Header: a.head()}
			a.send(a.openLetters)
			a.openLetterItems = nil
		}
		a.openLetters.Origins = append(a.openLetters.Origins, protocol.AttachOrigin{Ref: l.ref, ID: l.id, Lowest: 1})
	}
	p := a.openLetterItems
	if p == nil || len(p.Items) >= protocol.MaxItems || a.openLetterBytes >= protocol.BatchBytes {
		p = &protocol.Publish{Header: a.head()}
		a.openLetterItems, a.openLetterBytes = p, 0
		a.send(p)
	}
	p.Items = append(p.Items, protocol.PublishItem{Ref: l.ref, Number: 1, Message: l.message})
	a.openLetterBytes += protocol.Size(&l.message)
}

// letterResult takes the master's answer.
func (a *Attachment) letterResult(r protocol.Result) {
	l := a.letterRefs[r.Ref]
	if l == nil || l.done {
		return
	}
	l.done, l.message = true, message.Message{}
	a.outs = append(a.outs, Output{Kind: Lettered, Letter: l.id})
}

func (a *Attachment) sortedLetters() []*letter {
	ls := make([]*letter, 0, len(a.letters))
	for _, l := range a.letters {
		ls = append(ls, l)
	}
	sort.Slice(ls, func(i, j int) bool { return ls[i].ref < ls[j].ref })
	return ls
}

// attachLetters names the origins of all letters, with those of the channels.
func (a *Attachment) attachLetters() {
	var at *protocol.Attach
	for _, l := range a.sortedLetters() {
		if at == nil || len(at.Origins) >= protocol.MaxItems {
			at = &protocol.Attach{Header: a.head()}
			a.send(at)
		}
		at.Origins = append(at.Origins, protocol.AttachOrigin{Ref: l.ref, ID: l.id, Lowest: 1})
	}
}

// resendLetters sends those again that were not answered.
func (a *Attachment) resendLetters() {
	a.openLetterItems = nil
	for _, l := range a.sortedLetters() {
		if !l.done {
			a.sendLetter(l, false)
		}
	}
}

// failLetters answers all that wait: the queue is down or deleted.
func (a *Attachment) failLetters(code protocol.Code) {
	for _, l := range a.sortedLetters() {
		a.ForgetLetter(l.id)
		if !l.done {
			a.outs = append(a.outs, Output{Kind: Lettered, Letter: l.id, Code: code})
		}
	}
}
