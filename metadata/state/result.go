package state

import "fmt"

// Result is what a command came to, the same on every node.
type Result struct {
	Index   uint64 `msgpack:"i"` // Raft index of the entry that decided it
	Err     *Error `msgpack:"e"` // refusal; nil: done
	Queue   uint64 `msgpack:"q"` // DeclareQueue, DeleteQueue: the queue's ID
	Created bool   `msgpack:"c"` // Declare…: it did not exist before
}

// Code says why a command was refused.
type Code uint8

const (
	// CodeStale: it was computed from something that has changed since; look again.
	CodeStale Code = iota + 1
	CodeNotFound
	CodeExists
	// CodeInequivalent: declared again with another value of Key (AMQP 406).
	CodeInequivalent
	// CodeLocked: the queue is exclusive to another connection (AMQP 405).
	CodeLocked
	// CodeQueueDown: the queue has no master now (AMQP 404, RabbitMQ's text for an inaccessible home node).
	CodeQueueDown
	CodeInUse
	// CodeLastSynchronised: the member may not be dropped.
	CodeLastSynchronised
	// CodeNoNode: there is no node that could carry it.
	CodeNoNode
	// CodeInvalid: the command contradicts itself; Detail says how.
	CodeInvalid
	// CodeForgotten: the outcome of a repeated proposal is no longer known.
	CodeForgotten
	// CodePattern: a policy's pattern takes too long on a name; nothing was proposed.
	CodePattern
	// CodeLimit: the vhost has as many queues as its limit allows; Detail is the limit (AMQP 406).
	CodeLimit
	// CodeFeature: the feature flag Name is not enabled, or not supported; Detail says where.
	CodeFeature
)

// Error is a refusal. Compare with errors.Is against the Err… values (only the Code counts), read its fields with
// errors.As. Error() is RabbitMQ's text where RabbitMQ has one, without the AMQP reply code's name in front.
type Error struct {
	Code   Code   `msgpack:"c"`
	Kind   Kind   `msgpack:"k"`
	Name   string `msgpack:"n"`
	Vhost  string `msgpack:"v"`
	Key    string `msgpack:"y"` // CodeInequivalent
	Have   string `msgpack:"h"` // CodeInequivalent: the present value as RabbitMQ prints it; CodeQueueDown: the last master
	Want   string `msgpack:"w"` // CodeInequivalent: the value received
	Detail string `msgpack:"d"`
}

// Values for errors.Is.
var (
	ErrStale            = &Error{Code: CodeStale}
	ErrNotFound         = &Error{Code: CodeNotFound}
	ErrExists           = &Error{Code: CodeExists}
	ErrInequivalent     = &Error{Code: CodeInequivalent}
	ErrLocked           = &Error{Code: CodeLocked}
	ErrQueueDown        = &Error{Code: CodeQueueDown}
	ErrInUse            = &Error{Code: CodeInUse}
	ErrLastSynchronised = &Error{Code: CodeLastSynchronised}
	ErrNoNode           = &Error{Code: CodeNoNode}
	ErrInvalid          = &Error{Code: CodeInvalid}
	ErrForgotten        = &Error{Code: CodeForgotten}
	ErrPattern          = &Error{Code: CodePattern}
	ErrLimit            = &Error{Code: CodeLimit}
	ErrFeature          = &Error{Code: CodeFeature}
)

// Is compares codes only.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code
}

// Error is the text for clients and logs.
func (e *Error) Error() string {
	where := fmt.Sprintf("%s '%s' in vhost '%s'", e.Kind, e.Name, e.Vhost)
	if e.Vhost == "" {
		where = fmt.Sprintf("%s '%s'", e.Kind, e.Name)
	}
	switch e.Code {
	case CodeStale:
		return fmt.Sprintf("stale: %s: %s", where, e.Detail)
	case CodeNotFound:
		return "no " + where
	case CodeExists:
		return where + " already exists"
	case CodeInequivalent:
		return fmt.Sprintf("inequivalent arg '%s' for %s: received %s but current is %s", e.Key, where, e.Want, e.Have)
	case CodeLocked:
		return "cannot obtain exclusive access to locked " + where +
			". It could be originally declared on another connection or the exclusive property value does not match that of the original declaration."
	case CodeQueueDown:
		return fmt.Sprintf("home node '%s' of durable %s is down or inaccessible", e.Have, where)
	case CodeInUse:
		return where + " in use"
	case CodeLimit:
		return fmt.Sprintf("cannot declare queue '%s': queue limit in vhost '%s' (%s) is reached", e.Name, e.Vhost, e.Detail)
	case CodeLastSynchronised:
		return fmt.Sprintf("%s is the last synchronised member of %s", e.Have, where)
	}
	return where + ": " + e.Detail
}

// Refusal is Err as an error; nil if the command was done.
func (r Result) Refusal() error {
	if r.Err == nil {
		return nil
	}
	return r.Err
}
