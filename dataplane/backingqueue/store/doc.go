// Package store keeps a node's queues on disk: backingqueue.Store as design/storage.md lays it out. Start with Open.
//
// # What happens to a message
//
// Append logs it in the journal that all queues share (package journal) and holds it in the queue's index (index.go), its
// body in memory. The committer makes it durable and tells the queue's owner. If it is removed soon, that was all: when
// its journal file gets old nothing in it is alive and the file is dropped. If not, the janitor (janitor.go, move.go)
// copies it to the queue's segments (package segment) before the file goes. When bodies take more than the budget the
// pager (pager.go) forgets those that the disk has, and writes transient ones to disk; Get (read.go) reads them back,
// ahead if a backlog is read in order.
//
// # Who runs
//
// The callers, the journal's committer, the janitor, the pager. Each queue has a lock, under which nobody waits for the
// disk; Store.mu guards the map of queues and is taken before a queue's lock; Store.work is held by who moves records.
//
// # On disk
//
//	LOCK FORMAT
//	journal/0000000001.journal     all queues, oldest first
//	queues/7/0000000001.segment    queue 7, what outlived the journal
//	queues/7/0000000001.transient  transient messages under memory pressure; deleted at start
//	aside/TIME-NAME                what was damaged or unknown, kept for seven days
//	aside/TIME-queue-7/            what a copy of queue 7 had to give up: segments, a NOTE of what it is, STATE if it was the whole
//	                               copy, PROGRESS if publishing it again has begun (salvage.go)
//
// Of a queue the journal always holds at least one State record: all of it but its entries. Whoever drops a journal file
// first logs the State of those whose newest is in it again.
//
// # Recovery
//
// recover.go reads the journal once for the States, which say what segment files there must be and how long; then the
// segments, several queues at once; then the journal again, applying every record. Records that the segments already
// contain are applied again: the end of the log wins. Each record carries its number within its queue, so a hole in
// the journal (a part that was synced and is not readable) is known to concern a queue by the number that is missing, or
// because nothing of the queue follows. Such a queue is recovered up to the hole and says Recovery.Damaged until its
// owner calls SetMeta; the file is copied to aside/, and what is alive is moved out of the old journal, so that the next
// start does not meet the hole again. Damage in a segment file costs the rest of that file, and is reported the same way.
// Damage met while running is an error of Get, or, if the janitor meets it, fatal: the next start sorts it out.
//
// # Failure
//
// A failed write or sync ends the store (backingqueue.ErrFatal, Options.OnFatal); nothing is tried again. So that the
// disk does not run full, whoever owns the store watches Usage and blocks publishers in time.
package store
