package driver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"warren/dataplane/gm"
	"warren/dataplane/link"
)

// What is handled before EndBatch at most, so that confirms do not wait for a long mailbox: events, and bytes of ring frames,
// each of which may carry many messages.
const (
	batchLimit = 512
	batchBytes = 256 << 10
)

// readyLimit is how many outputs may wait while ring frames are handed over.
const readyLimit = 512

// Output buffers: more outputs at once than burstOutputs are a burst; see trim.
const (
	burstOutputs = 64
	quietRuns    = 16
	maxWarm      = 128
)

// Errors of posting.
var (
	// ErrMailboxFull: the actor does not keep up; the event was not taken.
	ErrMailboxFull = errors.New("driver: mailbox full")
	// ErrClosed: the actor, the member or the host was closed.
	ErrClosed = errors.New("driver: closed")
)

// Handler is the user of an actor. All its methods are called on the actor's goroutine, one at a time.
type Handler interface {
	// HandleEvent handles what was posted.
	HandleEvent(ev any)
	// HandleOutput handles an output of the actor's member; gm.Send and gm.ResetLink never come here.
	HandleOutput(out gm.Output)
	// EndBatch is called after each batch: the place to sync and to flush. It may use the member.
	EndBatch()
}

// Actor is a mailbox and its handler. The zero value is not usable: see Host.NewActor. Post, PostAlways, Do and Close may
// be called from any goroutine.
type Actor struct {
	host    *Host
	handler Handler
	member  *Member // touched on the actor's goroutine only

	grown bool // the member's output buffers have grown in a burst
	burst bool // there was one since the actor last went idle
	warm  bool // grown, and kept within maxWarm
	quiet int  // times gone idle since the last burst

	closed  atomic.Bool // set under mu
	mu      sync.Mutex
	queue   []event
	bytes   int // of ring frames in queue
	running bool
	shut    []link.PeerID // links whose ring frames are dropped until the peer has answered a reset
}

type eventKind uint8

const (
	evPosted eventKind = iota
	evClosure
	evFrame
	evLinkUp
	evLinkDown
	evReset     // give the group's link up and ask the peer to start it afresh
	evPeerReset // the peer asks
	evResetDone // the peer did: what comes now is of the new start
	evLate      // what the member kept because nobody waits for it is to leave
)

// event is one entry of a mailbox; a struct, so that a frame costs no allocation.
type event struct {
	kind   eventKind
	ev     any
	member *Member // ring events: dropped if it is not the actor's member any more
	from   link.PeerID
	frame  []byte
}

// NewActor makes an actor that runs on the host's goroutines. It costs nothing while it has nothing to do.
func (h *Host) NewActor(handler Handler) *Actor { return &Actor{host: h, handler: handler} }

// Post puts ev into the mailbox and returns at once. Events of one poster keep their order. Errors: ErrMailboxFull once
// Config.MailboxEvents wait (the caller must slow down its source: promise 6), ErrClosed. An event that was taken is
// handled, unless the actor is closed before.
func (a *Actor) Post(ev any) error { return a.post(event{kind: evPosted, ev: ev}, true) }

// PostAlways is Post without the limit, for events that must not get lost and whose number is bounded by where they come
// from: views, changes of the metadata, ends of connections.
func (a *Actor) PostAlways(ev any) error { return a.post(event{kind: evPosted, ev: ev}, false) }

// Do runs f on the actor's goroutine, as an event, and waits for it. It must not be called from there. Errors: as Post, or
// ctx's, in which case f may still run; ErrClosed also when the actor closes before f ran.
func (a *Actor) Do(ctx context.Context, f func()) error {
	c := &closure{f: f, done: make(chan struct{})}
	if err := a.post(event{kind: evClosure, ev: c}, true); err != nil {
		return err
	}
	select {
	case <-c.done:
		if !c.ran {
			return ErrClosed
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("driver: wait for the actor: %w", ctx.Err())
	}
}

type closure struct {
	f    func()
	ran  bool
	done chan struct{}
}

// Close ends the actor: events that wait are dropped, the one being handled is finished, and its member leaves. It does
// not wait (Host.Close does); from inside the handler the batch ends with the present event, without EndBatch.
func (a *Actor) Close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.closed.Swap(true) {
		_ = a.start()
	}
}

func (a *Actor) post(e event, limited bool) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed.Load() {
		return ErrClosed
	}
	if limited && len(a.queue) >= a.host.cfg.MailboxEvents {
		return fmt.Errorf("%w: %d events wait", ErrMailboxFull, len(a.queue))
	}
	return a.push(e)
}

// postFrame takes a ring frame. When the mailbox is full, the group's link is given up, and starts afresh once the mailbox
// has been worked off. What arrives before the peer has answered is of the old start: it must not fill the mailbox again.
func (a *Actor) postFrame(m *Member, from link.PeerID, frame []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed.Load() {
		return
	}
	if slices.Contains(a.shut, from) {
		return
	}
	if len(a.queue) >= a.host.cfg.MailboxEvents || a.bytes+len(frame) > a.host.cfg.MailboxBytes {
		a.shut = append(a.shut, from)
		_ = a.push(event{kind: evReset, member: m, from: from})
		a.host.overflows.Add(1)
		return
	}
	a.bytes += len(frame)
	_ = a.push(event{kind: evFrame, member: m, from: from, frame: frame})
}

// push appends an event and starts the goroutine if there is none. a.mu is held.
func (a *Actor) push(e event) error {
	if err := a.start(); err != nil {
		return err
	}
	if a.queue == nil {
		a.queue = *a.host.queues.Get().(*[]event)
	}
	a.queue = append(a.queue, e)
	return nil
}

func (a *Actor) start() error {
	if a.running {
		return nil
	}
	if !a.host.begin() {
		return ErrClosed
	}
	a.running = true
	go a.run()
	return nil
}

// ended: nothing more is to be handled.
func (a *Actor) ended() bool { return a.closed.Load() || a.host.closing.Load() }

// run handles batches until the mailbox is empty.
func (a *Actor) run() {
	defer a.host.wg.Done()
	for {
		a.mu.Lock()
		batch := a.queue
		a.queue, a.bytes = nil, 0
		// Asked once: after running is false another goroutine may handle the member, unless the actor had ended by then.
		if ended := a.ended(); ended || len(batch) == 0 {
			a.trim()
			a.running = false
			a.mu.Unlock()
			if ended {
				a.end(batch)
			}
			return
		}
		a.mu.Unlock()
		for rest := batch; len(rest) > 0 && !a.ended(); {
			n := batchOf(rest)
			a.batch(rest[:n])
			rest = rest[n:]
		}
		if a.ended() {
			a.end(batch)
		}
		clear(batch)
		if cap(batch) <= 1024 {
			batch = batch[:0]
			a.host.queues.Put(&batch)
		}
	}
}

// batchOf is how many of the events make a batch.
func batchOf(events []event) int {
	bytes := 0
	for i := range events {
		if i == batchLimit || bytes >= batchBytes {
			return i
		}
		bytes += len(events[i].frame)
	}
	return len(events)
}

// end releases who waits for closures that will not run, and leaves the group.
func (a *Actor) end(batch []event) {
	for _, e := range batch {
		if c, ok := e.ev.(*closure); ok && e.kind == evClosure && !c.ran {
			close(c.done)
		}
	}
	if a.member != nil {
		a.member.Leave()
	}
	a.cool()
}

func (a *Actor) batch(events []event) {
	for i := range events {
		e := &events[i]
		if e.kind == evPosted || e.kind == evClosure {
			a.drainReady()
			a.user(e)
			if a.ended() {
				return
			}
			continue
		}
		if m := a.member; m != nil && m == e.member {
			m.ring(a, e)
			if m.group.Waiting() >= readyLimit {
				a.drainReady()
			}
		}
	}
	for again := true; again && !a.ended(); {
		a.drain()
		if a.member != nil {
			a.member.flush()
		}
		a.handler.EndBatch()
		again = a.drain()
	}
	if a.member != nil {
		a.member.flush()
	}
}

func (a *Actor) user(e *event) {
	if e.kind == evPosted {
		a.handler.HandleEvent(e.ev)
		return
	}
	c := e.ev.(*closure)
	c.f()
	c.ran = true
	close(c.done)
}

// drain carries out the member's outputs until there are none, and says whether the handler saw any. What the group gathers
// leaves it, too: messages for the successor, progress and credit.
//
// Outputs and not Take: it does not give up its buffer on each empty answer, and copies nothing.
func (a *Actor) drain() bool { return a.carry((*gm.Group).Outputs) }

// drainReady leaves what the group gathers for the end of the batch.
func (a *Actor) drainReady() { a.carry((*gm.Group).Ready) }

func (a *Actor) carry(outputs func(*gm.Group) []gm.Output) bool {
	seen := false
	for a.member != nil {
		m := a.member
		outs := outputs(m.group)
		if len(outs) == 0 {
			break
		}
		if len(outs) > burstOutputs {
			a.grown, a.burst = true, true
		}
		for i := range outs {
			if a.member != m {
				break // the handler left the group
			}
			switch outs[i].Kind {
			case gm.Send:
				m.send(&outs[i])
			case gm.ResetLink:
				m.resetLink(outs[i].To)
			default:
				seen = true
				a.handler.HandleOutput(outs[i])
			}
		}
	}
	return seen
}

// trim is called when the actor goes idle. A member's buffers that grew in a burst are kept for the next one, on at most
// maxWarm actors, until the actor has gone idle quietRuns times without a burst. There are no outputs.
func (a *Actor) trim() {
	if a.grown = a.grown || a.member != nil && a.member.group.Burst(); !a.grown {
		return
	}
	if a.quiet++; a.burst {
		a.burst, a.quiet = false, 0
	}
	if a.member != nil && a.quiet < quietRuns {
		if !a.warm && a.host.warm.Add(1) > maxWarm {
			a.host.warm.Add(-1)
		} else {
			a.warm = true
			return
		}
	}
	if a.member != nil {
		a.member.group.Cool()
	}
	a.cool()
}

func (a *Actor) cool() {
	if a.grown = false; a.warm {
		a.warm = false
		a.host.warm.Add(-1)
	}
}

// shutOut drops ring frames of a link from now on.
func (a *Actor) shutOut(id link.PeerID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !slices.Contains(a.shut, id) {
		a.shut = append(a.shut, id)
	}
}

// reopen lets ring frames of a link in again.
func (a *Actor) reopen(id link.PeerID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.letIn(id)
}

// postResetDone lets ring frames in again, behind the event.
func (a *Actor) postResetDone(m *Member, id link.PeerID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.closed.Load() && slices.Contains(a.shut, id) {
		a.letIn(id)
		_ = a.push(event{kind: evResetDone, member: m, from: id})
	}
}

func (a *Actor) letIn(id link.PeerID) {
	a.shut = slices.DeleteFunc(a.shut, func(s link.PeerID) bool { return s == id })
}
