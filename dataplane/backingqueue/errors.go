package backingqueue

import "errors"

// What a caller may decide by. All are wrapped with what was attempted on which queue.
var (
	// ErrOrder: Append below Stats().NextSeq, or Insert at or above it. Nothing was changed.
	ErrOrder = errors.New("sequence number out of order")
	// ErrExists: Insert at a sequence number that is held. Nothing was changed.
	ErrExists = errors.New("sequence number is held already")
	// ErrOpen: Open or SetAside of a queue that is open.
	ErrOpen = errors.New("queue is open already")
	// ErrClosed: the queue or its store was closed, deleted or crashed.
	ErrClosed = errors.New("closed")
	// ErrNotFound: SetAside of a queue that has nothing on disk.
	ErrNotFound = errors.New("no such queue on disk")
	// ErrTooLarge: a message of more than MaxMessage bytes, or Meta of more than MaxMeta. Nothing was changed.
	ErrTooLarge = errors.New("too large")
	// ErrFatal: a write or sync of this store failed. What was not durable by then may be lost; nothing is retried, and
	// every later change fails with it (design/storage.md, Recovery).
	ErrFatal = errors.New("storage failed")
	// ErrDamaged: a record on disk does not match its checksum.
	ErrDamaged = errors.New("damaged record")
)

// Limits of the contract, in bytes.
const (
	MaxMeta    = 64 << 10
	MaxMessage = 512 << 20
)
