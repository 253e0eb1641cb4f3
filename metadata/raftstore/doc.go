// Package raftstore keeps metadata/state in a Raft group (hashicorp/raft, raft-boltdb): log, snapshots, membership,
// proposals from any node, and the hook that cleans up after a change of leader.
//
// Open starts a Store; the caller gives it the streams between nodes (already authenticated), a way to forward a request to
// the leader, and a prober. Propose runs a command from any node and returns its replicated result once it is applied here.
// View reads the state, Subscribe follows its changes.
//
//	store.go      Open, Close, reading, waiting
//	propose.go    Propose: finding the leader, repeating safely
//	lead.go       the leader's part: preparation, the term's first steps, membership
//	forming.go    how a cluster begins, and what a node does that lost its disk
//	members.go    who is a member, who votes; leadership and votes given up before a stop
//	fsm.go        hashicorp/raft's FSM around state.State, subscribers
//	transport.go  the transport, with a place to put messages of our own into
//	nudge.go      telling followers of a commit at once
//	reach.go      a follower that was away is spoken to as soon as it is back
//	logger.go     hclog to slog
//
// # Learning of a commit
//
// In hashicorp/raft a follower learns that an entry is committed from the next AppendEntries, which on a quiet group comes after
// CommitTimeout. Measured with three nodes over loopback on two cores (BenchmarkFollowerApply: how long after the leader the last
// follower has applied an entry, median):
//
//	CommitTimeout 50 ms, the default        88 ms
//	CommitTimeout 5 ms                      8.6 ms; idle, three nodes use 4.3 % of a core
//	default, and a nudge after each commit  0.2 ms; idle, they use 1.5 %, as with the default alone
//
// An empty barrier after each commit would cost a disk write on every node. So the leader nudges: after a commit it sends each
// follower what hashicorp/raft itself would send after CommitTimeout, an empty AppendEntries that names the committed
// entry, its term and the commit index. It is sent under the term of that entry, in which this node was leader, so a follower in a
// newer term refuses it; one that lacks the entry refuses it too, and hears of the commit later.
package raftstore
