package gm

import "slices"

// Member is one incarnation of a node in one group. A restarted node is a new member, never the old one again.
type Member struct {
	Node        string
	Incarnation uint64
	JoinIndex   uint64 // Raft index of the entry that brought the member into the view
}

// View is the membership of a group as the metadata Raft group decided it.
type View struct {
	Version uint64   // Raft index of the entry that changed the view: unique, increasing
	Members []Member // in age order: ascending JoinIndex, then node name
}

// Class says how a message counts for flow control and persistence.
type Class uint8

const (
	// Bulk uses credit (R10) and is persisted at a member when that member's user says so.
	Bulk Class = iota
	// Control uses no credit and counts as persisted when it is received.
	Control
	// Barrier uses no credit and, unlike Control, is persisted only when the member's user says so (NewMaster).
	Barrier
)

// Kind names an Output.
type Kind uint8

const (
	// Send: hand Frame to the link to To. Frames of a group on a link keep their order.
	Send Kind = iota + 1
	// Deliver: message Number of Sender, exactly once, in order. Own messages are delivered too.
	Deliver
	// Progress: all own messages up to Received were received by every member of the view, and up to Persisted made
	// durable by every member (R4).
	Progress
	// SenderClosed: no message of Sender above Number will ever be delivered (R8).
	SenderClosed
	// Joined: this member has learned its baselines from its first Start (R9); Baselines holds them.
	Joined
	// BaselineRaised: the baseline of Sender jumped from From to Number (R9): what lies between never arrives here.
	BaselineRaised
	// Expelled: this member is not in the newest view; nothing follows.
	Expelled
	// WindowOpen: Broadcast of Bulk, refused before with ErrWindowFull, may be tried again.
	WindowOpen
	// ResetLink: the predecessor's link showed a gap (R2, a defect that is counted): re-establish the link to To.
	ResetLink
	// ViewInstalled: View is now this member's view. Number is the highest own message that was stable at that moment: a
	// member which this view brought is reckoned to hold only own messages above it (R9).
	ViewInstalled
)

// Output is one effect; the caller carries outputs out in the order in which they stand.
type Output struct {
	Kind      Kind
	To        Member   // Send, ResetLink
	Frame     []byte   // Send: encoded, immutable, as is Rest
	Rest      [][]byte // Send: what follows Frame within the same frame: large bodies, which are not copied, and what stands between them
	Lazy      bool     // Send: nobody waits for it; it may stay until the next frame to the same member, a few milliseconds at most
	Sender    Member   // Deliver, SenderClosed, BaselineRaised
	Number    uint64   // Deliver, SenderClosed, BaselineRaised
	From      uint64   // BaselineRaised
	Class     Class    // Deliver
	Payload   []byte   // Deliver: immutable, may alias the received frame
	Received  uint64   // Progress
	Persisted uint64   // Progress
	Baselines []Baseline
	View      View // ViewInstalled
}

// Whole is the frame of a Send in one piece.
func (o *Output) Whole() []byte {
	if len(o.Rest) == 0 {
		return o.Frame
	}
	return slices.Concat(o.Frame, slices.Concat(o.Rest...))
}

// Baseline is where a joiner's knowledge of a sender begins.
type Baseline struct {
	Sender Member
	Number uint64
}
