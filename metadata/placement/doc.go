// Package placement decides which nodes carry a queue's master and mirrors, and which mirror is promoted (design page
// metadata.md, Placement and Promotion). It is pure and deterministic: the same arguments give the same answer on every node, so
// the state machine may call it.
//
// Master places the master of a new queue, Mirrors its first mirrors, Adjust says what has to change for an existing queue,
// StandIn chooses the replacement of a member that is away, Promote applies the promotion table.
package placement
