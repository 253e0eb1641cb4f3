// Package journal is the log that all queues of a node share: a row of files of bounded size, written by group commit.
//
// A queue writes through a Stream. Put copies a record into the batch that is being gathered and returns at once with the
// record's place; Sync wakes the committer, a goroutine that writes what has gathered with one write and one fdatasync,
// and then tells every stream of the batch how far it is durable. While it does so the next batch gathers, so the busier
// the node the more confirms share a sync, and an idle node waits for nobody. SyncSoon, for removals, waits up to 5 ms for
// somebody else's sync to share.
//
// The newest file is allocated ahead, a MiB at a time, so that a sync need not write its size and place as well; it
// ends in zeroes while it is written, and recovery cuts them as it cuts a torn end. A file that is full, and the last one at
// Close, is cut to what was written.
//
// When the current file is full the next record begins a new one. Files are dropped oldest first by Drop, after the
// caller has moved what is still alive in them elsewhere (design/storage.md), renamed to NAME.dropped and given back to the
// file system in steps. Load reads the files at start, and removes what is left of dropped ones.
//
// A failed write or sync ends the journal: it is never tried again, every later call returns backingqueue.ErrFatal, and
// Options.OnFatal is called once.
package journal
