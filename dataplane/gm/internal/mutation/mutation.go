// Package mutation names the rules of design/gm.md that the simulator breaks on purpose, one at a time, to prove that its
// checkers notice. Nothing outside dataplane/gm can reach it.
package mutation

// Rule is one broken rule. The zero value breaks none.
type Rule uint8

// The rules that can be broken.
const (
	None              Rule = iota
	ProgressAlone          // R3 without the minimum over the chain
	KeepWatermarks         // R3: watermarks outlive their view, and Progress of older views counts
	AcceptAnybody          // R5: frames are taken from whoever sends them, started or not
	ResumeUnordered        // R7: after a Start the log goes out sender by sender
	OpenOlderStart         // R7: a Start opens the link though it answers an older Resume or view
	CloseWithoutToken      // R8: the closer closes with its own number at once
	CloseMinOnly           // R8: the token is tested with its minimum only
	OldToken               // R8: tokens outlive their view
	NoRaise                // R9: a later Start does not raise the baseline
	PersistedByOthers      // R4: the sender's own disk does not count
	IgnoreCredit           // R10: data is sent without credit
	StableOvertakes        // R10: Stable passes data that waits for credit
	KeepPartial            // R11: a half received message outlives its link
	FreshAnswers           // R7: a fresh member answers Resume
	KeepStarted            // R7: a new predecessor's link counts as started
	ForgetAtOnce           // R8: a closed sender is forgotten at once
)

// Mutation carries a Rule. It is a struct so that no untyped constant converts to it.
type Mutation struct{ Rule Rule }

var names = [...]string{
	"None", "ProgressAlone", "KeepWatermarks", "AcceptAnybody", "ResumeUnordered", "OpenOlderStart", "CloseWithoutToken",
	"CloseMinOnly", "OldToken", "NoRaise", "PersistedByOthers", "IgnoreCredit", "StableOvertakes", "KeepPartial",
	"FreshAnswers", "KeepStarted", "ForgetAtOnce",
}

// String is the rule's name.
func (r Rule) String() string { return names[r] }
