// Package gmtest plays the ring core (package gm) through random histories, one event at a time, and checks the promises I1 to
// I7 of design/gm.md.
//
// Run plays one seed; all that happens follows from it. A history has two to eight nodes, each with its own copy of the
// metadata that applies views late; links that keep order, lose what is under way when they break, and tell both ends so
// late; users that broadcast, answer what they are delivered, and persist slowly. Members crash (two at once, the closer
// while it closes, a joiner's predecessor, between any two outputs), are expelled while they live, join in rows and
// again under the same incarnation. In the end everything is mended and must come to rest.
//
// The checkers see what users see: deliveries and notifications. Only I6 and I7 also ask the core's accessors (Received,
// Stable, Stats).
//
//	world.go   nodes, links, connections
//	steps.go   the events
//	faults.go  crashes, breaks, views; the end of a history
//	check.go   users and checkers
//
// # Running it
//
//	go test ./dataplane/gm/gmtest                                      2,500 seeds
//	SEEDS=50000 go test -run TestSimulation -v ./dataplane/gm/gmtest   as many as you like
//	SEED=123 FULL=1 go test -run TestSimulation -v ./dataplane/gm/gmtest   one seed with its whole trace
//
// A failing seed prints the end of its trace by itself. With -tags warren_invariants (or -race) the core checks its own
// state after every input, too.
//
// # Proof that it can fail
//
// Each rule broken on purpose (internal/mutation), the first seed found that notices, and what it violates; "rest" is a history
// that does not come to rest, "frame" a frame refused as malformed. TestMutations proves every line, and
// TestFindMutations (go test -tags soak -v) prints the table anew after a change of the core or of the histories, which gives seeds another meaning.
//
//	ProgressAlone      R3 without the minimum over the chain         2  I4
//	KeepWatermarks     R3 watermarks outlive their view             12  I4
//	PersistedByOthers  R4 the sender's own disk does not count       4  I4
//	AcceptAnybody      R5 data is taken from anybody                11  rest
//	ResumeUnordered    R7 the log goes out sender by sender         11  I3
//	OpenOlderStart     R7 a Start for an older Resume opens          5  rest
//	FreshAnswers       R7 a fresh member answers Resume             48  I5
//	KeepStarted        R7 a new predecessor's link is started        5  rest
//	CloseWithoutToken  R8 closing without the token                 12  I6
//	CloseMinOnly       R8 the token tested by min only              73  I5
//	OldToken           R8 tokens outlive their view             script  TestScriptOldToken
//	ForgetAtOnce       R8 a closed sender is forgotten at once       2  I6
//	NoRaise            R9 a later Start raises no baseline         636  rest
//	IgnoreCredit       R10 data goes out without credit             12  I7
//	StableOvertakes    R10 Stable passes data without credit    script  TestScriptBlockedJoiner
//	KeepPartial        R11 half a message outlives its link         11  frame
//
// KeepStarted and OldToken are also what the scripts (a) and (b) of design/gm.md notice: TestScriptRegainedPredecessor and
// TestScriptOldToken.
package gmtest
