package mirror

import (
	"errors"
	"fmt"
	"maps"
	"math"

	"warren/dataplane/backingqueue"
	"warren/dataplane/gm"
	"warren/dataplane/queue"
)

// Replica is one queue's copy on one node. See the package comment for who calls what; no method may be called from two
// goroutines at once.
type Replica struct {
	cfg    Config
	env    Env
	q      backingqueue.Queue
	meta   meta
	origin originTable
	next   uint64 // the position after the highest

	role     Role
	self     gm.Member
	a        Assignment
	lastLoss uint64 // the LastLossEpoch of assignments before this epoch
	ring     Ring
	view     gm.View // the newest that the ring was told
	fresh    bool    // the ring has not told where the stream begins
	persist  persistQueue

	stream    stream
	anchored  bool         // this copy follows the stream from meta.baseline on
	damaged   bool         // recovery lost something: what is here is not what was vouched for
	missing   int          // how many messages below the baseline the master holds and this copy does not
	unknown   bool         // it may be more than that
	lines     []originLine // of the Origins messages since the first one
	table     bool         // the first one was there
	joiners   map[gm.Member]joiner
	departed  map[gm.Member]bool // false: left the view and is not closed; true: closed
	awaitEnds stream             // a planned move: act only after these MasterEnds
	grants    uint64             // GrantsClear covers views up to this version
	contested bool               // MirrorUnsynchronised is proposed and not committed
	acting    bool               // MasterActing is proposed and not committed

	catchUp
	run  *syncRun
	runs uint64 // that this copy has begun
	size syncSize

	term term

	decoded op // of one deliver
}

// stream is where the operations on the ring stand: who is the sender, of which epoch, and whether it has ended it.
type stream struct {
	epoch  uint64
	master gm.Member
	ended  bool
}

// joiner is a mirror that is not synchronised: it follows the stream from baseline on.
type joiner struct {
	baseline uint64
	number   uint64 // what must be persisted by all before it can be synchronised
	whole    bool   // it was told that it has all that the master holds below the baseline
	proposed bool

	requested bool // an operator asks for it
	declined  bool // it has nothing to offer, and nobody asks for a copy
	cancelled bool
	paused    int // ticks until it is tried again
}

// New makes the copy over its open backing queue. It is Idle until the first Assign that holds this node. An error means
// that what the owner's state says cannot be read: the store must be set aside.
func New(c Config) (*Replica, error) {
	m, err := decodeMeta(c.Store.Meta())
	if err != nil {
		return nil, fmt.Errorf("open copy of queue %q in vhost %q: %w", c.Name, c.VHost, err)
	}
	r := &Replica{
		cfg: c, env: c.Env, q: c.Store, meta: m, damaged: c.Recovery.Damaged,
		joiners: map[gm.Member]joiner{}, departed: map[gm.Member]bool{}, size: syncSize{offerHeld, walkLength},
	}
	r.missing, r.unknown = int(m.lacks.messages), m.lacks.more || r.damaged
	r.next = max(1, r.q.Stats().NextSeq)
	r.origin.load(r.q.Origins())
	return r, nil
}

// Role is what this copy is at present.
func (r *Replica) Role() Role { return r.role }

// Self is this copy's place in the view, zero while Idle.
func (r *Replica) Self() gm.Member { return r.self }

// Store is the backing queue, for reading.
func (r *Replica) Store() backingqueue.Queue { return r.q }

// Synchronised tells whether this copy itself holds that it has all the queue's content: what it vouches for.
func (r *Replica) Synchronised() bool { return !r.damaged && !r.meta.unreconciled }

// Assign takes the next state of the queue's record in the metadata.
func (r *Replica) Assign(a Assignment) error {
	if r.role == Expelled {
		return nil
	}
	if a.Status == Deleted {
		r.stop("queue is deleted", false)
		if err := r.q.Delete(); err != nil {
			return r.failed("delete", err)
		}
		return nil
	}
	prev := r.a
	if a.LastLossEpoch < a.Epoch {
		r.lastLoss = max(r.lastLoss, a.LastLossEpoch)
	}
	self, in := r.find(a.View)
	if !in || r.role != Idle && self != r.self {
		if r.role != Idle {
			r.stop("the view does not hold this copy", true)
		}
		return nil
	}
	if a.Sync != prev.Sync {
		for m, j := range r.joiners {
			j.cancelled = false
			r.joiners[m] = j
		}
	}
	r.a, r.self = a, self
	if err := r.connect(); err != nil {
		return err
	}
	if err := r.reconcile(); err != nil {
		return err
	}
	r.appoint(prev)
	return r.settle()
}

// connect joins or leaves the ring as the policy has it, and hands over the view.
func (r *Replica) connect() error {
	switch {
	case r.a.Mirrored && r.ring == nil:
		ring, err := r.env.JoinRing(r.self)
		if err != nil {
			return r.failed("join the ring", err)
		}
		r.ring, r.view, r.fresh = ring, gm.View{}, true
	case !r.a.Mirrored && r.ring != nil:
		r.ring.Leave()
		r.ring, r.view, r.fresh = nil, gm.View{}, false
		r.persist.want(r.term.makeLocal(), needNow)
		r.persist.reset()
		r.run, r.incoming = nil, nil
		clear(r.joiners)
		clear(r.departed)
	}
	if r.ring == nil || r.a.View.Version <= r.view.Version {
		return nil
	}
	for _, m := range r.view.Members {
		if !holds(r.a.View, m) {
			if _, known := r.departed[m]; !known {
				r.departed[m] = false
			}
			delete(r.joiners, m)
		}
	}
	r.view = r.a.View
	if r.view.Members[0] == r.self {
		r.fresh = false
	}
	if err := r.ring.Install(r.a.View); err != nil {
		return r.failed("install view", err)
	}
	return nil
}

// reconcile compares what the record says of this copy with what it knows.
func (r *Replica) reconcile() error {
	for i, m := range r.a.View.Members {
		if i < len(r.a.Synchronised) && r.a.Synchronised[i] {
			delete(r.joiners, m)
		}
	}
	if !r.recorded(r.self) || r.lossy() {
		r.contested = false
		return nil
	}
	if r.role == Idle && !r.cfg.Recovery.Found && r.a.Epoch > 1 && r.a.Master == r.self {
		r.damaged, r.unknown = true, true // the disk is empty, and should not be
	}
	if r.role == Idle && r.ring != nil && len(r.meta.epochs) == 0 && r.next == 1 && !r.damaged {
		r.anchored = true // a new queue: it begins here as everywhere
	}
	if r.anchored && r.meta.unreconciled {
		r.meta.unreconciled, r.missing, r.unknown = false, 0, false
		return r.saveMeta()
	}
	return nil
}

// appoint changes the role as the record says.
func (r *Replica) appoint(prev Assignment) {
	if r.a.Epoch > prev.Epoch {
		r.acting = false
		switch {
		case r.role == Promoting && prev.Master == r.self: // named again before it acted: what it waited for still counts
		case r.ring != nil && prev.Status == Running && prev.Master != r.self && holds(r.view, prev.Master):
			r.awaitEnds = stream{prev.Epoch, prev.Master, true} // the old master lives: a planned move
		default:
			r.awaitEnds = stream{}
		}
	}
	if r.a.Status != Running || r.a.Master != r.self {
		if r.role != Slave {
			r.depose()
		}
		r.role = Slave
		return
	}
	switch {
	case r.role == Idle || r.role == Slave:
		r.role = Promoting
	case r.role != Promoting && r.a.Epoch > r.term.Epoch:
		if r.role == Master {
			r.env.Resigned(Suspended)
		}
		r.role = Promoting
		r.grants = max(r.grants, r.a.View.Version) // KeepMaster: nobody was master in between
	}
}

// depose ends a term because another member is master, or nobody.
func (r *Replica) depose() {
	if r.role == Master || r.role == Ending {
		r.env.Resigned(Deposed)
		r.env.Report(r.event(MasterStopped, r.a.Master, 0, "another member is master"))
	}
	r.run = nil
	r.term = term{received: r.term.received, persisted: r.term.persisted, last: r.term.last, Term: Term{Epoch: r.term.Epoch}}
}

// settle does what may have become possible after any input.
func (r *Replica) settle() error {
	switch r.role {
	case Promoting:
		return r.tryAct()
	case Master:
		if err := r.sendPosition(); err != nil {
			return err
		}
		return r.startRun()
	case Ending:
		r.tryTransfer()
	case Slave:
		if r.recorded(r.self) && r.ring != nil && (!r.anchored || r.meta.unreconciled || r.damaged) {
			r.contest("this copy does not follow the stream")
		}
	}
	return nil
}

// Output takes the next output of the ring member; Send and ResetLink are the driver's.
func (r *Replica) Output(o gm.Output) error {
	if r.role == Expelled || r.ring == nil {
		return nil
	}
	var err error
	switch o.Kind {
	case gm.Deliver:
		if o.Sender != r.self {
			err = r.deliver(o)
		}
	case gm.Progress:
		r.term.received = max(r.term.received, o.Received)
		r.term.persisted = max(r.term.persisted, o.Persisted)
	case gm.SenderClosed:
		r.closed(o.Sender)
		if holds(r.view, o.Sender) {
			return r.failed("take SenderClosed", fmt.Errorf("%w: of %v, which is in the view", ErrDefect, o.Sender))
		}
	case gm.Joined:
		err = r.joined(o.Baselines)
	case gm.BaselineRaised:
		r.table = false
		if r.anchored {
			err = r.lose(fmt.Sprintf("baseline of %s raised from %d to %d", o.Sender.Node, o.From, o.Number))
		}
	case gm.Expelled:
		r.stop("expelled from the ring", true)
	case gm.WindowOpen:
		err = r.windowOpen()
	}
	if err != nil {
		return err
	}
	return r.settle()
}

// closed notes that no message of m will come any more. While the ring is fresh it may say so of one whose leaving this
// copy did not see, before it names it in its baselines.
func (r *Replica) closed(m gm.Member) {
	if r.fresh {
		r.departed[m] = true
		return
	}
	delete(r.departed, m)
}

// joined notes where the stream begins, and that what an earlier life left is not part of the queue yet.
func (r *Replica) joined(bs []gm.Baseline) error {
	r.fresh = false
	for _, b := range bs {
		if _, known := r.departed[b.Sender]; !known && !holds(r.view, b.Sender) {
			r.departed[b.Sender] = false
		}
	}
	maps.DeleteFunc(r.departed, func(_ gm.Member, closed bool) bool { return closed })
	if r.anchored || r.role == Promoting || r.view.Members[0] == r.self || r.meta.unreconciled && !r.meta.baselineKnown {
		return nil
	}
	r.meta.unreconciled, r.meta.baselineKnown, r.meta.baseline = true, false, 0
	r.unknown = true
	return r.saveMeta()
}

// DurableMoved says that the backing queue's watermark has risen. It takes effect at the next Flush.
func (r *Replica) DurableMoved() {
	r.drain()
	if r.role != Expelled && r.batchesStored() {
		r.ackBatches()
	}
}

// GrantsClear says that every member of the view of that version has told that it has no unexpired grant left to any
// incarnation that was declared down unfenced (metadata.md). A promoted master waits for it.
func (r *Replica) GrantsClear(version uint64) error {
	r.grants = max(r.grants, version)
	return r.settle()
}

// ProposalFailed says that nothing came, or will come, of a command. It is made again at a later Flush where it is still
// wanted, so the caller should wait a little before it tells.
func (r *Replica) ProposalFailed(c Command) error {
	switch c := c.(type) {
	case MirrorSynchronised:
		if j, ok := r.joiners[c.Member]; ok {
			j.proposed = false
			r.joiners[c.Member] = j
		}
	case MirrorUnsynchronised:
		r.contested = false
	case MasterActing:
		r.acting = false
	case TransferMaster:
		if c.Epoch == r.term.Epoch {
			r.HandOverTimeout()
		}
	}
	return nil
}

// Flush ends a batch: it asks the disk for a sync if something waits for it, tells the ring what is durable, and, if this
// is a master that holds its leases, gives the events that are due.
func (r *Replica) Flush() error {
	if r.role == Expelled {
		return nil
	}
	if err := r.settle(); err != nil {
		return err
	}
	r.drain()
	r.sync()
	if r.role != Master || r.ring != nil && !r.env.LeasesHeld() {
		return nil
	}
	if err := r.vouch(); err != nil {
		return err
	}
	r.emit()
	r.drain() // what the queue process did with the events
	r.sync()
	return nil
}

// Close ends the copy and keeps what it has on disk.
func (r *Replica) Close() error {
	if r.role != Expelled {
		r.stop("closed", false)
	}
	if err := r.q.Close(); err != nil {
		return fmt.Errorf("close copy of queue %q: %w", r.cfg.Name, err)
	}
	return nil
}

// Delete ends the copy and gives its space back.
func (r *Replica) Delete() error {
	if r.role != Expelled {
		r.stop("deleted", false)
	}
	if err := r.q.Delete(); err != nil {
		return fmt.Errorf("delete copy of queue %q: %w", r.cfg.Name, err)
	}
	return nil
}

// stop ends this copy's part in the queue for good.
func (r *Replica) stop(why string, expelled bool) {
	if r.role == Master || r.role == Ending {
		r.env.Resigned(Stopped)
	}
	if r.ring != nil {
		r.ring.Leave()
		r.ring = nil
	}
	r.role = Expelled
	if expelled {
		r.env.Report(r.event(WasExpelled, r.self, 0, why))
	}
}

// failed stops the copy because of err, which the caller returns.
func (r *Replica) failed(what string, err error) error {
	r.stop(what, false)
	return fmt.Errorf("%s for queue %q in vhost %q, epoch %d: %w", what, r.cfg.Name, r.cfg.VHost, r.a.Epoch, err)
}

func (r *Replica) event(k EventKind, m gm.Member, n int, detail string) Event {
	return Event{Kind: k, Epoch: r.a.Epoch, View: r.a.View.Version, Member: m, Messages: n, Detail: detail}
}

// find is this node's incarnation in v.
func (r *Replica) find(v gm.View) (gm.Member, bool) {
	for _, m := range v.Members {
		if m.Node == r.cfg.Node && m.Incarnation == r.cfg.Incarnation {
			return m, true
		}
	}
	return gm.Member{}, false
}

// recorded tells whether the metadata count m as synchronised.
func (r *Replica) recorded(m gm.Member) bool {
	for i, x := range r.a.View.Members {
		if x == m {
			return i < len(r.a.Synchronised) && r.a.Synchronised[i]
		}
	}
	return false
}

// lossy tells whether this copy is named master although it was not synchronised.
func (r *Replica) lossy() bool {
	return r.a.Status == Running && r.a.Master == r.self && (r.a.LastLossEpoch == r.a.Epoch || !r.recorded(r.self))
}

func holds(v gm.View, m gm.Member) bool {
	for _, x := range v.Members {
		if x == m {
			return true
		}
	}
	return false
}

// contest tells the metadata that the record is wrong about this copy.
func (r *Replica) contest(why string) {
	if !r.contested {
		r.contested = true
		r.env.Propose(MirrorUnsynchronised{Member: r.self, Reason: why})
	}
}

func (r *Replica) saveMeta() error {
	r.meta.lacks = shortfall{uint64(r.missing), r.unknown}
	if _, err := r.q.SetMeta(r.meta.encode()); err != nil {
		return r.failed("write meta", err)
	}
	return nil
}

// cast broadcasts an operation that was applied here and needs no credit; n: what must be durable
// before it counts as persisted. If even that does not fit now it waits, in order, for WindowOpen.
func (r *Replica) cast(class gm.Class, payload []byte, n need) error {
	return r.castDeferred(deferred{class: class, payload: payload, lsn: r.q.Last(), need: r.durable(n)})
}

func (r *Replica) castDeferred(d deferred) error {
	if len(r.term.outbox) == 0 {
		if full, err := r.send(d); err != nil || !full {
			return err
		}
	}
	if len(r.term.outbox) >= maxOutbox {
		return r.failed("broadcast", fmt.Errorf("%d operations wait: %w", maxOutbox, gm.ErrWindowFull))
	}
	r.term.outbox = append(r.term.outbox, d)
	return nil
}

func (r *Replica) send(d deferred) (full bool, err error) {
	n, err := r.ring.Broadcast(d.class, d.payload)
	switch {
	case errors.Is(err, gm.ErrWindowFull):
		return true, nil
	case err != nil:
		return false, r.failed("broadcast", err)
	}
	if d.lazy {
		r.ring.Lazy(n)
	}
	r.term.last = n
	r.persist.push(r.self, n, d.lsn, d.need)
	return false, nil
}

// windowOpen sends what waits, and then lets the queue process go on.
func (r *Replica) windowOpen() error {
	t := &r.term
	for len(t.outbox) > 0 {
		if full, err := r.send(t.outbox[0]); err != nil || full {
			return err
		}
		t.outbox = t.outbox[1:]
	}
	t.outbox = nil
	t.sent()
	for m, j := range r.joiners {
		if j.number == unsentNumber {
			j.number = t.last
			r.joiners[m] = j
		}
	}
	if r.role == Master {
		t.events.WindowOpen()
	}
	return nil
}

// unsentNumber stands for the number of an operation in the outbox.
const unsentNumber = math.MaxUint64

// maxOutbox limits the operations that wait because the ring takes not even control messages.
const maxOutbox = 1 << 16

// deferred is a broadcast that waits for the window.
type deferred struct {
	class   gm.Class
	payload []byte
	lsn     backingqueue.LSN
	need    need
	lazy    bool
}

// Backing is the master's face to the queue process; usable from Env.Acting until Env.Resigned.
func (r *Replica) Backing() queue.Backing { return backing{r} }

// Progress tells how far the ring has come with what this copy broadcast: the number of the newest own message, and those up
// to which every member of the view has received and persisted. ok is false where there is no ring.
func (r *Replica) Progress() (last, received, persisted uint64, ok bool) {
	return r.term.last, r.term.received, r.term.persisted, r.ring != nil
}
