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
//	GrantsClear(viewVersion)               every member of that view has told that it has no unexpired grant left to any
//	                                       incarnation that was declared down unfenced
//	ProposalFailed(Command)                a proposal was refused or got no answer
//	NodeDown(node, incarnation)            its channels are gone
//	HandOver(to), HandOverTimeout()        a planned move, and its second without a commit
//	Flush() error                          the end of a batch of the above and of Backing calls: asks the disk for a sync,
//	                                       checks the leases and gives events. Nothing is confirmed without it.
//	Backing() queue.Backing                the master's face to the queue process
//	Close, Delete                          the end
//
// An error from any of them means that the copy has failed (disk, or a defect) and has stopped; its node must report it
// as lost. The errors of Backing calls that are not so are named at Backing.
//
// # Unmirrored queues
//
// While Assignment.Mirrored is false there is no ring: what the local disk has is what all have. The change either way
// happens in place on a living queue.
package mirror
