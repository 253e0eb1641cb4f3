// Package exchange routes: given the exchanges and bindings of one vhost, it tells which queues a message goes to.
//
// It is pure: a [Table] holds no lock, no clock and no network, and is changed only by its caller. Build one per vhost,
// change it as the metadata changes ([Table.Declare], [Table.Bind], …: each costs about the size of the change), and ask
// [Table.Route]. Route only reads, so any number of goroutines may call it at once, each with a [Scratch] of its own, while
// nobody changes the table: the owner guards it with a sync.RWMutex or the like.
package exchange
