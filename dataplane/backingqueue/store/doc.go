// Package store keeps a node's queues on disk: backingqueue.Store as design/storage.md lays it out.
package store
