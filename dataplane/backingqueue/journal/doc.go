// Package journal is the log that all queues of a node share: a row of files of bounded size, written by group commit.
//
// A queue writes through a Stream. Put copies a record into the batch that is being gathered and returns at once with the
// record's place; Sync wakes the committer, a goroutine that writes what has gathered with one write and one fdatasync,
// and then tells every stream of the batch how far it is durable. While it does so the next batch gathers, so the busier
// the node the more confirms share a sync, and an idle node waits for nobody. There is no timer.
//
// When the current file is full the next record begins a new one. Files are dropped oldest first by Drop, after the
// caller has moved what is still alive in them elsewhere (design/storage.md). Load reads the files at start.
//
// A failed write or sync ends the journal: it is never tried again, every later call returns backingqueue.ErrFatal, and
// Options.OnFatal is called once.
package journal
