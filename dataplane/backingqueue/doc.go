// Package backingqueue is where one node keeps its copy of each queue: the contract, and the memory model of it.
//
// Start with Store and Queue in contract.go. A Store belongs to a node and holds a Queue per queue the node has a copy
// of. A change to a Queue is made at once in memory and is durable once the queue's watermark (Queue.Durable) has reached
// the change's LSN; nothing waits for the disk but Get, Close and opening the store.
//
// Two implementations: Memory in this package, which is the model (a test says when things become durable and when the
// node crashes), and store.Store in the directory store, which keeps queues on disk as design/storage.md lays out: one
// journal for the node (package journal), segments for what lives longer (package segment), both made of the records of
// package record. The test in the directory store drives both with the same random operations and compares them.
package backingqueue
