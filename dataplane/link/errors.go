package link

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
)

// Errors that callers tell apart with errors.Is.
var (
	// ErrCookie: the two sides do not hold the same cookie.
	ErrCookie = errors.New("link: the cookies of the two sides differ; all nodes and tools of a cluster need the same")
	// ErrProtoUnknown: the other side's listener does not serve that protocol.
	ErrProtoUnknown = errors.New("link: protocol not served by the other side")
	// ErrAuthVersion: the other side speaks another version of the cookie handshake.
	ErrAuthVersion = errors.New("link: unknown version of the cookie handshake")
	// ErrBusy: the other side has too many connections in handshake, or too many calls waiting.
	ErrBusy = errors.New("link: the other side is busy")
	// ErrCluster: the peer belongs to another cluster.
	ErrCluster = errors.New("link: peer belongs to another cluster")
	// ErrVersion: the two nodes have no protocol version in common.
	ErrVersion = errors.New("link: no protocol version in common")
	// ErrNameClash: the peer bears this node's own name.
	ErrNameClash = errors.New("link: peer has this node's own name")
	// ErrWrongNode: another node than the one expected answers at that address.
	ErrWrongNode = errors.New("link: another node answers at that address")
	// ErrUnknownPeer: the node is not declared by SetPeers (on the side that refuses, or in a call of this package).
	ErrUnknownPeer = errors.New("link: node is not a declared peer")
	// ErrStale: a newer incarnation of the dialing node is connected.
	ErrStale = errors.New("link: a newer incarnation of that node is connected")
	// ErrDirection: the node whose name sorts higher tried to dial a peer link.
	ErrDirection = errors.New("link: the lower of the two names dials")
	// ErrHandshake: malformed or oversize data in a handshake.
	ErrHandshake = errors.New("link: malformed handshake")
	// ErrNotConnected: there is no link to that node, or not the one named.
	ErrNotConnected = errors.New("link: not connected")
	// ErrOverflow: the backlog reached Config.HardLimit; the link is being closed and will be made anew.
	ErrOverflow = errors.New("link: backlog over the limit")
	// ErrTooLarge: the body is larger than Config.MaxFrame. Nothing was sent.
	ErrTooLarge = errors.New("link: frame over the size limit")
	// ErrClosed: the Transport, or the stream listener, was closed.
	ErrClosed = errors.New("link: closed")
	// ErrFrame: a malformed frame arrived.
	ErrFrame = errors.New("link: malformed frame")
)

// CauseKind says why a peer link went down.
type CauseKind uint8

// The causes, by what a failure detector may conclude (design/metadata.md, failure detection).
const (
	// CauseLost: the connection ended by FIN or RST without a goodbye. The death of the peer's process looks like this.
	CauseLost CauseKind = iota + 1
	// CauseTimeout: nothing arrived for Config.Timeout, or the network reported that it cannot reach the peer.
	CauseTimeout
	// CauseGoodbye: the peer closed the link in good order; its process lives, or is stopping.
	CauseGoodbye
	// CauseLocal: this side closed the link: Close, Rehello, or a peer no longer declared.
	CauseLocal
	// CauseReplaced: a newer connection or a newer incarnation of the same node took its place.
	CauseReplaced
	// CauseOverflow: this side's backlog reached Config.HardLimit.
	CauseOverflow
	// CauseProtocol: the peer sent a malformed or oversize frame.
	CauseProtocol
	// CauseReset: this side asked for a new link (Transport.Reset).
	CauseReset
)

// String names the cause for logs.
func (k CauseKind) String() string {
	names := [...]string{"none", "lost", "timeout", "goodbye", "local", "replaced", "overflow", "protocol", "reset"}
	if int(k) < len(names) {
		return names[k]
	}
	return fmt.Sprintf("cause %d", uint8(k))
}

// Cause is why a peer link went down. Err says more and is never nil.
type Cause struct {
	Kind CauseKind
	Err  error
}

// String is for logs.
func (c Cause) String() string { return fmt.Sprintf("%s: %v", c.Kind, c.Err) }

// causeOf classes an error of a read or a write on a peer link.
func causeOf(err error) Cause {
	var ne net.Error
	switch {
	case errors.Is(err, ErrFrame), errors.Is(err, ErrTooLarge):
		return Cause{CauseProtocol, err}
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return Cause{CauseLost, err}
	case errors.As(err, &ne) && ne.Timeout(), errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return Cause{CauseTimeout, err}
	}
	return Cause{CauseLost, err}
}

// refusal codes of the peer handshake (doc.go). 0 accepts.
const (
	codeOK = iota
	codeCluster
	codeVersion
	codeNameClash
	codeWrongNode
	codeUnknownPeer
	codeStale
	codeDirection
	codeMalformed
)

// RefusedError is a refused peer handshake. It unwraps to the error of this package that names the reason.
type RefusedError struct {
	Node   string // the other node, as far as known
	Remote bool   // the other side refused
	Text   string // the reason, naming both sides
	code   int
}

func (e *RefusedError) Error() string {
	if e.Remote {
		return fmt.Sprintf("link: refused by %s: %s", e.Node, e.Text)
	}
	return fmt.Sprintf("link: refused %s: %s", e.Node, e.Text)
}

// Unwrap returns the reason.
func (e *RefusedError) Unwrap() error {
	switch e.code {
	case codeCluster:
		return ErrCluster
	case codeVersion:
		return ErrVersion
	case codeNameClash:
		return ErrNameClash
	case codeWrongNode:
		return ErrWrongNode
	case codeUnknownPeer:
		return ErrUnknownPeer
	case codeStale:
		return ErrStale
	case codeDirection:
		return ErrDirection
	}
	return ErrHandshake
}

// Codes of a CallError. Handlers use codes from CodeUser by returning a *CallError.
const (
	CodeFailed        = 1 // the handler returned an error without a code
	CodeUnknownMethod = 2
	CodeBusy          = 3
	CodeUser          = 100
)

// CallError is an error that the other node answered to a Call. A handler may return one to choose Code.
type CallError struct {
	Node   string
	Method string
	Code   int
	Text   string
}

func (e *CallError) Error() string {
	return fmt.Sprintf("link: call %s on %s: %s (code %d)", e.Method, e.Node, e.Text, e.Code)
}

// Is makes a CodeBusy answer match ErrBusy.
func (e *CallError) Is(target error) bool { return e.Code == CodeBusy && target == ErrBusy }

// callCode picks code and text of a handler's error.
func callCode(err error) (int, string) {
	var ce *CallError
	if errors.As(err, &ce) && ce.Code > 0 {
		return ce.Code, ce.Text
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return CodeFailed, "deadline exceeded: " + err.Error()
	}
	return CodeFailed, err.Error()
}
