package mirror

import (
	"errors"
	"iter"

	"warren/dataplane/backingqueue"
	"warren/dataplane/gm"
	"warren/dataplane/queue"
)

// Ring is a member of the queue's group, as a Replica uses it: the gm driver's member, or a gm.Group in a simulation. Its
// outputs (all kinds but gm.Send and gm.ResetLink) come back through Replica.Output, in order and never from within a call of Ring.
type Ring interface {
	// Install hands over the next view. Views come in order, each once; a Broadcast after it belongs to it.
	Install(v gm.View) error
	// Broadcast sends payload, which the ring keeps, to all members and returns the number that it was given.
	// gm.ErrWindowFull: Bulk does not fit now; a gm.WindowOpen follows.
	Broadcast(class gm.Class, payload []byte) (number uint64, err error)
	// Lazy says that nobody waits for the newest own message: it may leave a few milliseconds later, with others.
	Lazy(number uint64)
	// Awaited says that sender waits for the receipt of its message number by all, whatever of it is durable.
	Awaited(sender gm.Member, number uint64)
	// Persisted says that everything of sender up to number is durable here. Senders that have left are ignored.
	Persisted(sender gm.Member, number uint64)
	// Leave ends the membership; no output follows.
	Leave()
}

// Env is what a Replica asks of and tells its node. It is called on the goroutine that called the Replica; apart from
// Acting, whose result is used for later events, none of its methods may call the Replica back.
type Env interface {
	// JoinRing makes this node's member of the queue's group; the first Install follows.
	JoinRing(self gm.Member) (Ring, error)
	// Propose sends a command to the metadata leader and does not wait. A success shows in the next Assign; a failure, a
	// refusal included, is told with Replica.ProposalFailed.
	Propose(c Command)
	// LeasesHeld: this node holds an unexpired lease from the node of every other member of the queue's view, and of each
	// joiner for which MirrorReady was proposed (metadata.md, never two masters). Asked once per Flush.
	LeasesHeld() bool
	// IncarnationUp: the metadata that this node applied counts that incarnation of the node as up.
	IncarnationUp(node string, incarnation uint64) bool
	// SetAside closes the queue's store after a final sync, keeps what it holds where an operator can find it, and
	// opens an empty one in its place.
	SetAside(why string) (backingqueue.Queue, error)
	// SetAsidePart keeps those entries, which the copy is about to drop, where an operator can find them; it returns when
	// they are on disk.
	SetAsidePart(why string, entries iter.Seq2[backingqueue.Entry, error]) error
	// SendSync sends a message, head and then rest, to another member, beside the ring and in order. Head is kept; rest, which
	// may go to several, is changed once the receiver has answered. The Replica there gets it with SyncMessage as one piece. False: there is no way
	// to it now. What is lost with a link is told with LinkDown.
	SendSync(to gm.Member, head, rest []byte) bool
	// Acting: this node's copy is the master from here on; Backing may be used, and events go to what it returns.
	Acting(t Term) queue.Events
	// Resigned: it is not any more (or does not take operations for now); no event follows. Every Backing call fails with
	// ErrNotActing until the next Acting.
	Resigned(r Resignation)
	// Report is something that an operator may want to read in the log; each is told once.
	Report(e Event)
}

// Status of a queue in the metadata.
type Status uint8

const (
	Running Status = iota + 1
	// Down: no copy is fit to be master (metadata.md, promotion).
	Down
	Deleted
)

// Assignment is what the metadata say of the queue. Each change of the view, master, epoch, status or who is synchronised
// is handed to Replica.Assign, in the order of the Raft log.
type Assignment struct {
	// Mirrored: a policy mirrors the queue. False: View holds the master alone and no group is used.
	Mirrored bool
	Status   Status
	// View is the members that are up, in age order.
	View gm.View
	// Synchronised[i] tells of View.Members[i]; missing: false.
	Synchronised []bool
	// Master is one of View.Members while Status is Running.
	Master gm.Member
	Epoch  uint64
	// LastLossEpoch is the epoch of the last promotion that counted a loss, 0: none. Equal to Epoch: this one did.
	LastLossEpoch uint64
	// Recovering: the master was named by RecoverQueue and MasterActing is not committed yet.
	Recovering bool
	Sync       SyncPolicy
}

// Command is a proposal to the metadata; the broker translates it.
type Command interface{ isCommand() }

// MirrorSynchronised: the member holds all that the master holds.
type MirrorSynchronised struct {
	Member gm.Member
	View   uint64
}

// MirrorUnsynchronised: the member, this one, lost or lacks what the record vouches for.
type MirrorUnsynchronised struct {
	Member gm.Member
	Reason string
}

// MasterActing: the master named by RecoverQueue is about to act; it waits until this is committed.
type MasterActing struct {
	Epoch uint64
	Self  gm.Member
}

// TransferMaster: name To master in place of the one that ended Epoch.
type TransferMaster struct {
	Epoch uint64
	To    gm.Member
}

// KeepMaster: nothing came of the transfer; the old master goes on under Epoch, which is one above the present one.
type KeepMaster struct {
	Epoch uint64
	Self  gm.Member
}

func (MirrorSynchronised) isCommand()   {}
func (MirrorUnsynchronised) isCommand() {}
func (MasterActing) isCommand()         {}
func (TransferMaster) isCommand()       {}
func (KeepMaster) isCommand()           {}

// Term is a master's time in office.
type Term struct {
	Epoch    uint64
	FirstSeq uint64 // the first position that it gives
	// Lossy: promoted without being synchronised.
	Lossy bool
	// Lost is how many messages of the old master this copy is known to lack (an estimate: what was in flight is not in it); -1: it
	// does not know.
	Lost int
	// New: there was no earlier epoch: nobody can have been given a message of this queue.
	New bool
}

// Resignation says why a term ended.
type Resignation uint8

const (
	// Suspended: a planned move is under way. Acting follows if it fails (with a new epoch), Deposed otherwise.
	Suspended Resignation = iota + 1
	// Deposed: another member is master; this one stays as a mirror.
	Deposed
	// Stopped: expelled, deleted or closed. Pending publishes are to be nacked if the queue is deleted.
	Stopped
)

func (r Resignation) String() string {
	switch r {
	case Suspended:
		return "suspended"
	case Deposed:
		return "deposed"
	case Stopped:
		return "stopped"
	}
	return "unknown"
}

// Role is what a copy is at present.
type Role uint8

const (
	// Idle: not in a view yet.
	Idle Role = iota
	Slave
	// Promoting: named master, not acting yet: logs of departed senders, grants, MasterEnds or a commit are outstanding.
	Promoting
	// Master: acting.
	Master
	// Ending: has broadcast MasterEnds and takes no operation.
	Ending
	// Expelled: not in the newest view, deleted, or failed. Final.
	Expelled
)

func (r Role) String() string {
	return [...]string{"idle", "slave", "promoting", "master", "ending", "expelled"}[r]
}

// EventKind names an Event.
type EventKind uint8

const (
	// Promoted: this copy acts as master under Epoch. Messages: what it holds.
	Promoted EventKind = iota + 1
	// PromotedWithLoss: as Promoted, but it was not synchronised. Messages: how many are known to be lost; -1: nobody knows.
	PromotedWithLoss
	// MasterStopped: the term of Epoch ended in good order; Member is the successor.
	MasterStopped
	// Discarded: Messages of an earlier life of this copy were dropped because the master vouches for the queue.
	Discarded
	// SetAside: as Discarded, but a loss was counted while this copy was away: they are kept on disk.
	SetAside
	// BaselineKnown: this mirror's part of the stream begins (Messages: what the master holds below it).
	BaselineKnown
	// Defect: something that the rules exclude was seen; the copy protects itself. Detail says what.
	Defect
	// SyncStarted: this master brings Member, and perhaps others, up to date; Messages: what it holds below its baseline
	// (an estimate).
	SyncStarted
	// SyncDone: Member has all; Messages: how many were sent in all.
	SyncDone
	// SyncCancelled: somebody asked that it end.
	SyncCancelled
	// SyncInterrupted: it goes on without Member, which is tried again later. Detail says why.
	SyncInterrupted
	// WasExpelled: the copy stopped because the view does not hold it any more.
	WasExpelled
)

// Event is told to Env.Report.
type Event struct {
	Kind     EventKind
	Epoch    uint64
	View     uint64
	Member   gm.Member
	Messages int
	Detail   string
}

// What a caller may decide by.
var (
	// ErrNotActing: this copy is not an acting master: the operation was not taken.
	ErrNotActing = errors.New("not the acting master")
	// ErrUnknownOrigin: AttachOrigin has not been called, or CloseOrigin has.
	ErrUnknownOrigin = errors.New("origin is not attached")
	// ErrStopped: the copy was expelled, deleted, closed or has failed.
	ErrStopped = errors.New("queue copy has stopped")
	// ErrNoTarget: the member to hand over to is not a synchronised mirror of the view.
	ErrNoTarget = errors.New("not a synchronised mirror")
	// ErrDefect: a ring message that cannot be understood or that the rules exclude.
	ErrDefect = errors.New("protocol defect")
)

// Config makes a Replica.
type Config struct {
	Queue       backingqueue.ID
	VHost, Name string // for errors
	Node        string
	Incarnation uint64
	// Durable: the queue survives a restart, so persistent messages are confirmed when they are on disk.
	Durable bool
	// Store is this node's copy, open; Recovery is what Open said of it. The Replica closes it.
	Store    backingqueue.Queue
	Recovery backingqueue.Recovery
	Env      Env
}
