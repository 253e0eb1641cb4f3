// Package state is the replicated metadata of a Warren cluster: nodes, virtual hosts, users, policies, exchanges,
// bindings and queues with their mirrors, masters, views and epochs (design page metadata.md).
//
// It is a pure state machine. State.Apply takes one encoded command and the Raft index that committed it, and gives the
// same result, the same changes and the same next snapshot on every node. There is no clock, no random number, no
// lock, no regular expression in it: what a command needs of these, it carries. Matching names against policies happens
// before the proposal (Prepare), and Apply refuses a command whose matches were computed from an older set of
// policies or queues (CodeStale).
//
// Where to start reading:
//
//	types.go        what the state holds; records are immutable once published
//	command.go      every command, numbered by hand
//	codec.go        how a command is laid out in the Raft log, and the rule for unknown ones
//	apply.go        dispatch, and the table that makes a repeated proposal harmless
//	nodes.go        NodeUp and NodesDown: promotions, views, epochs
//	mirrors.go      the commands of one queue's mirrors
//	assign.go       which nodes shall carry mirrors, by package placement
//	lifecycle.go    maintenance, forgetting nodes, feature flags
//	queues.go       declaring and deleting queues
//	topology.go     virtual hosts, users, exchanges, bindings
//	operators.go    limits, topic permissions, global parameters, changes of users and virtual hosts
//	policies.go     policies and what they are assigned to
//	prepare.go      the leader's part before a proposal
//	snapshot.go     the snapshot codec
//	access.go       read access for the data plane
//
// A State is not safe for concurrent use; its owner (metadata/raftstore) serialises Apply against readers. The records
// that readers get (pointers to Queue, Node, …) may be kept and read without any lock: Apply replaces a record, it
// never writes to one.
package state
