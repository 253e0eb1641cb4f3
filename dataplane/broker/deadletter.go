package broker

import (
	"fmt"
	"time"

	"warren/dataplane/amqp"
	"warren/dataplane/backingqueue"
	"warren/dataplane/exchange"
	"warren/dataplane/message"
	"warren/dataplane/origin"
	"warren/dataplane/queue"
	"warren/dataplane/queue/protocol"
	"warren/metadata/state"
)

// letters are the dead letters of one queue that are on their way from its master here to their targets. Of the copy's actor.
type letters struct {
	scratch  exchange.Scratch
	under    map[backingqueue.OriginID]*letterUnderWay
	gone     []protocol.Position // to be told to the process after this Flush: nobody takes them
	retrying *time.Timer
}

type letterUnderWay struct {
	at      protocol.Position
	message message.Message
	targets []*attachment
	missing map[*attachment]bool
	again   []*attachment // down at present
}

// retryLetters is how long a letter to a queue that is down waits before it is tried again.
const retryLetters = time.Second

// lettered is told by an attachment what became of a letter; the letter's source is here.
func (l *life) lettered(by *attachment, id backingqueue.OriginID, code protocol.Code) {
	l.mu.RLock()
	c := l.copies[backingqueue.ID(id.Incarnation)]
	l.mu.RUnlock()
	if c != nil {
		c.post(evLettered{by, id, code})
	}
}

func (c *queueCopy) aboutLetters(ev any) error {
	switch ev := ev.(type) {
	case evLettered:
		return c.lettered(ev)
	case evRetryLetters:
		c.retryLetters()
	case evSources:
		ev.answer <- c.process.Sources()
	case evForgotten:
		gone, ok := c.process.Forgotten(ev.positions)
		if !ok || !c.master.Load() || !c.LeasesHeld() {
			gone = nil
		}
		ev.answer <- gone
	case evForget:
		return c.process.ForgetSources(ev.ids)
	}
	return nil
}

// sendLetter publishes a letter to where the queue's dead letters go now.
func (c *queueCopy) sendLetter(l *queue.Letter) {
	m, targets := c.addressed(l)
	if len(targets) == 0 {
		c.letters.gone = append(c.letters.gone, l.Position)
		return
	}
	id := l.ID(c.id)
	u := &letterUnderWay{at: l.Position, message: m, missing: map[*attachment]bool{}}
	for _, q := range targets {
		a := c.life.attachment(backingqueue.ID(q.ID))
		u.targets = append(u.targets, a)
		u.missing[a] = true
	}
	if c.letters.under == nil {
		c.letters.under = map[backingqueue.OriginID]*letterUnderWay{}
	}
	c.letters.under[id] = u
	for _, a := range u.targets {
		a.do(func(core *origin.Attachment) { core.PublishLetter(id, m) })
	}
}

// addressed is the letter as it is published, and the queues that it goes to: none if there is no such exchange any more.
func (c *queueCopy) addressed(l *queue.Letter) (message.Message, []*state.Queue) {
	if !c.dead.on {
		return message.Message{}, nil
	}
	reason := map[queue.Reason]string{
		queue.ReasonRejected: "rejected", queue.ReasonExpired: "expired", queue.ReasonDropped: "maxlen",
	}[l.Reason]
	m, err := amqp.DeadLetter(&l.Message, amqp.Death{
		Queue: c.q.Name, Reason: reason, Time: amqp.Timestamp(time.Now().Unix()),
		Exchange: c.dead.exchange, HasKey: c.dead.hasKey, Key: c.dead.key,
	})
	if err != nil {
		c.log.Error("a message that died cannot be dead-lettered and is dropped", "error", err)
		return m, nil
	}
	headers, _ := amqp.HeadersOf(m.Properties)
	var targets []*state.Queue
	err = c.life.routes.route(c.q.Vhost, &m, &c.letters.scratch, func(q *state.Queue) {
		if l.Reason != queue.ReasonRejected && amqp.Cycles(headers, q.Name) {
			c.log.Debug("a message dies in a circle and is dropped", "reason", reason, "target", q.Name)
			return
		}
		targets = append(targets, q)
	})
	if err != nil {
		c.log.Debug("a dead letter goes nowhere", "exchange", c.dead.exchange, "error", err)
	}
	return m, targets
}

// lettered: a target has the letter or will never take it; one that is down is tried again.
func (c *queueCopy) lettered(ev evLettered) error {
	u := c.letters.under[ev.id]
	if u == nil || !u.missing[ev.by] {
		return nil
	}
	if ev.code == protocol.ErrDown {
		u.again = append(u.again, ev.by)
		if c.letters.retrying == nil {
			c.letters.retrying = time.AfterFunc(retryLetters, func() { c.post(evRetryLetters{}) })
		}
		return nil
	}
	if delete(u.missing, ev.by); len(u.missing) > 0 {
		return nil
	}
	u.message = message.Message{}
	return c.process.LettersDone([]protocol.Position{u.at})
}

func (c *queueCopy) retryLetters() {
	c.letters.retrying = nil
	for id, u := range c.letters.under {
		again := u.again
		u.again = nil
		for _, a := range again {
			a.do(func(core *origin.Attachment) { core.PublishLetter(id, u.message) })
		}
	}
}

// lettersGone tells the process of letters that nobody takes.
func (c *queueCopy) lettersGone() error {
	gone := c.letters.gone
	if c.letters.gone = nil; len(gone) == 0 {
		return nil
	}
	c.flushAgain = true
	if err := c.process.LettersDone(gone); err != nil {
		return fmt.Errorf("drop dead letters: %w", err)
	}
	return nil
}

// buried: the letters will never be sent again.
func (c *queueCopy) buried(positions []protocol.Position) {
	for _, at := range positions {
		l := queue.Letter{Position: at}
		id := l.ID(c.id)
		if u := c.letters.under[id]; u != nil {
			for _, a := range u.targets {
				a.do(func(core *origin.Attachment) { core.CloseLetter(id) })
			}
			delete(c.letters.under, id)
		}
	}
}

// forgetLetters: the term is over; who is master next sends again what is not settled.
func (c *queueCopy) forgetLetters() {
	for id, u := range c.letters.under {
		for _, a := range u.targets {
			a.do(func(core *origin.Attachment) { core.ForgetLetter(id) })
		}
	}
	c.letters.under, c.letters.gone = nil, nil
	if c.letters.retrying != nil {
		c.letters.retrying.Stop()
		c.letters.retrying = nil
	}
}

// resign ends the queue process's term.
func (c *queueCopy) resign() {
	c.process.Resign()
	c.forgetLetters()
}
