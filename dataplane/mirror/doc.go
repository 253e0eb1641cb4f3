// Package mirror is the replicated life of one queue's copy on one node: slave, master and coordinator
// (design/mirroring.md).
//
// # The machine
//
// Replica is a deterministic state machine: inputs come as method calls on one goroutine, effects leave through Env, Ring
// and the backing queue. It knows no clock, starts no goroutine and draws no random number, so the same code runs in the
// queue's actor and in the simulation of this package. The owner calls
//
//	New(Config) (*Replica, error)          the copy, over an open backing queue
//	Assign(Assignment) error               each change of the queue's record in the metadata, in log order
//	Output(gm.Output) error                each output of the ring member but Send and ResetLink
//	DurableMoved()                         the backing queue's watermark has moved (Options.OnDurable)
//	GrantsClear(viewVersion) error         every member of that view has told that it has no unexpired grant left to any
//	                                       incarnation that was declared down unfenced
//	ProposalFailed(Command) error          a proposal was refused or got no answer
//	NodeDown(node, incarnation) error      its channels are gone
//	SyncMessage(node, incarnation, payload) error   what a member sent with Env.SendSync
//	SyncStep() (more bool, error)          the next piece of a synchronisation; again, between other inputs, while more
//	SyncTick() error                       each second while SyncPending
//	LinkDown(node, incarnation) error      what was under way there is lost
//	SyncQueue(), CancelSync(), Syncing()   an operator's wishes; Blocked() tells whether the queue must stand still
//	HandOver(to) error, HandOverTimeout()  a planned move, and its second without a commit
//	Flush() error                          the end of a batch of the above and of Backing calls: asks the disk for a sync,
//	                                       checks the leases and gives events. Nothing is confirmed without it.
//	Backing() queue.Backing                the master's face to the queue process
//	Close, Delete                          the end
//
// An error means that the copy has failed (disk, or a defect) and has stopped; its node must report it as lost. The errors
// that are not so are named at the method (ErrNotActing, ErrUnknownOrigin, ErrNoTarget).
//
// Reading order: api.go (what it asks and tells), replica.go (inputs and roles), slave.go (applying the stream), master.go
// (the queue process's operations, and what becomes stable when), promote.go (who may act, and what a term begins with),
// coordinator.go (mirrors that are not synchronised, planned moves), sync.go, sync_master.go, sync_mirror.go, origins.go, persist.go, meta.go, ops.go.
//
// # A mirror's part of the queue
//
// A member that joins drops everything that the ring delivers until a Position names it. That operation carries the master's
// epoch table, floor and next position, and behind Origins messages comes its table of origins: from there on, the baseline,
// the mirror follows the stream (it is anchored). Of what it had from an earlier life it keeps what stands in the history that
// both share, found from the two epoch tables; the rest is dropped, or set aside if a loss was counted in its absence.
// The master proposes MirrorSynchronised once the mirror has what it holds below the baseline and both facts are durable there.
// A copy that misses a part of the stream stops following, takes back what it vouched for, and asks for another Position
// (NeedPosition).
//
// # Synchronisation
//
// For each mirror that is not synchronised the master broadcasts SyncStart. The mirror offers, in parts, the positions that it
// holds below its baseline, and remembers until SyncEnd what the stream removes. The master compares each part with what it
// holds itself, and sends in batches what the mirror lacks and which positions it must drop; several mirrors share one walk.
// The mirror answers each batch, and says how far its disk has come, so that neither the link nor the disk holds much of it
// before what other queues want there. When the last is answered SyncEnd names the mirror: at that point
// of the stream it has exactly what the master has. Where consumers have drained all that is below the baseline, SyncEnd says so
// without any of this. Whatever breaks a synchronisation, the next one finds by the offer what has arrived. A mirror that has
// nothing to offer and whose queue is not synchronised automatically is left alone until SyncQueue.
//
// Offers are made to each master anew: what one master removed, or sent, another may not have heard of.
//
// A message of a synchronisation is a msgpack array: version (1), kind, epoch, SyncStart's number, and
//
//	1 Offer  came with content of an earlier life, from, to, the positions held as a roaring64 bitmap
//	2 Batch  number, to (all below is the same then), ranges to drop, entries [seq, ref, number, delivered, message]…
//	3 Ack    number of the newest that was taken, number of the newest that is on disk with all before it
//
// # Operations on the ring
//
// A payload is msgpack: a version (1), then operations up to its end, each an array [code, fields…]. A reader skips fields
// that it does not know. Ranges are an array [first, last-first, …]; an origin's identity is the four fields node,
// incarnation, connection, channel; ref is the short name of an origin, which no other origin of the queue ever has.
//
//	code name          class    fields
//	 1   NewMaster     Barrier  epoch, firstSeq, flags (1: lossy); if the queue has lost messages: how many are known of, whether more
//	 2   MasterEnds    Control  epoch
//	 3   Position      Barrier  epoch, nextSeq, oldestSeq, messages held, next ref, [[node, incarnation, joinIndex]…] whom it
//	                            concerns, [epoch, firstSeq, …], [floor epoch, floor seq, known]; as NewMaster: what was lost
//	 4   Publish       Bulk     seq, ref, number, message (package message)
//	 5   Refused       Bulk     ref, number
//	 6   Remove        Barrier  reason, how many messages the master dropped, ranges (Control if nothing of it is to be durable)
//	 7   Delivered     Control  ranges
//	 8   OriginOpened  Control  ref, lowest number still kept - 1, identity
//	 9   OriginClosed  Control  ref
//	10   Origins       Control  true in the first chunk, [[ref, number, identity, loss, refused ranges]…]
//	11   NeedPosition  Control
//	12   SyncStart     Control  number, whom it concerns (as in Position)
//	13   SyncEnd       Barrier  number, flags (1: over for all, 2: the master holds nothing below the baselines of those that are
//	                            named), who is synchronised (Control if nobody)
//
// Publish costs 40 bytes at most beside the body and the names.
//
// What a copy keeps in backingqueue's Meta is in meta.go: the epoch table, the floor, the mark "unreconciled" with the
// baseline, the next ref, the losses and the refusals.
//
// # Losses
//
// A master that was promoted without being synchronised (Assignment.LastLossEpoch) does not know what it lacks: repeats at or
// below the number that its table of origins had then are nacked unless the message is held. NewMaster says so, and its
// mirrors remember the numbers as well, so that a second failover does not confirm what the first one lost. How many messages a
// queue has lost in its life goes from master to master with NewMaster and Position (Losses).
//
// # Unmirrored queues
//
// While Assignment.Mirrored is false there is no ring: what the local disk has is what all have. The change either way
// happens in place on a living queue.
package mirror
