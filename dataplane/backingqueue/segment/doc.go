// Package segment keeps what outlives the journal: one queue's row of files, written in sequence.
//
// A Set is the files of one queue. When a journal file is about to be dropped, the store copies into the queue's Set the
// entries that are still alive there, and with them the removals and delivered marks that concern what the Set holds, in
// the journal's order; so replaying the Set from its first file to its last, and then the journal, gives the queue. A
// file none of whose entries is alive is deleted. A queue that is consumed as fast as it is filled has no file at all.
//
// The same type, volatile, is where transient messages go under memory pressure: other names, no syncs, gone at Load.
//
// Ids of files have the bit Bit set (VolatileBit for volatile ones), so that they differ from those of the journal.
package segment
