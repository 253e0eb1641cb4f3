package gm

import (
	"errors"
	"fmt"
)

// Defaults of Config, in bytes.
const (
	DefaultWindow        = 4 << 20
	DefaultControlWindow = 64 << 20
	DefaultFragment      = 128 << 10 // R11
	DefaultMaxMessage    = 256 << 20
	DefaultMaxFrame      = 1 << 20
	// MessageOverhead is what a message counts in every window besides its payload, so that empty messages are limited too.
	MessageOverhead = 64
)

// Config is what a member must know before its first view. Zero values mean the defaults.
type Config struct {
	// Self is this member, exactly as the views name it, JoinIndex included.
	Self Member
	// Window limits two things in bytes, each by itself: the own bulk that is not yet known received by all (I7), and
	// the bulk that this member lets its predecessor send before it was forwarded and persisted here (R10).
	Window int
	// ControlWindow limits the own Control and Barrier messages that are not yet known received by all.
	ControlWindow int
	// KeepAside limits the frames of views that this member has not installed yet (R5). Past it they are dropped and
	// their link is reset. Default: Window + 1 MiB.
	KeepAside int
	// Fragment is the size above which a payload travels in pieces of at most that size (R11).
	Fragment int
	// MaxMessage limits one payload, here and as a fragmented frame may announce it.
	MaxMessage int
	// MaxFrame limits one frame. It must leave room for Fragment and the members' names.
	MaxFrame int
}

func (c Config) withDefaults() Config {
	def := func(v *int, d int) {
		if *v <= 0 {
			*v = d
		}
	}
	def(&c.Window, DefaultWindow)
	def(&c.ControlWindow, DefaultControlWindow)
	def(&c.KeepAside, c.Window+(1<<20))
	def(&c.Fragment, DefaultFragment)
	def(&c.MaxMessage, DefaultMaxMessage)
	def(&c.MaxFrame, max(DefaultMaxFrame, 2*c.Fragment))
	return c
}

// Errors of Broadcast.
var (
	// ErrWindowFull: try again after the output WindowOpen. Bulk gets it while the own unstable bulk fills Config.Window or
	// while the link to the successor is not started (I7); other classes only past Config.ControlWindow.
	ErrWindowFull = errors.New("gm: window full")
	// ErrExpelled: this member is not in the newest view and never will be again.
	ErrExpelled = errors.New("gm: expelled from the group")
	// ErrNotJoined: this member has no view yet, or is fresh: it waits for its first Start (R9). The output Joined ends it.
	ErrNotJoined = errors.New("gm: not joined yet")
	// ErrTooLarge: the payload is above Config.MaxMessage.
	ErrTooLarge = errors.New("gm: message too large")
)

// FrameError is what Receive returns for a frame that no member of any supported version sends. The caller closes the
// link that it came from and tells LinkDown; nothing of the frame had an effect.
type FrameError struct {
	From   Member // Node and Incarnation as the link knows them
	Reason string
}

func (e *FrameError) Error() string {
	return fmt.Sprintf("gm: malformed frame from %s (incarnation %d): %s", e.From.Node, e.From.Incarnation, e.Reason)
}
