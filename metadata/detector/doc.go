// Package detector finds out which nodes are down, and keeps two masters from working at once (design page metadata.md,
// Failure detection and Never two masters).
//
// Every node sends every other one a heartbeat each half second. On them travel lease grants: "for three seconds I
// shall not act as master of a queue that you are master of". The holder counts 2.7 s from when it sent the heartbeat that
// the grant answers, the granter 3 s from when it made the grant, both by the clock that Config gives (CLOCK_BOOTTIME, which goes
// on while a process is stopped or a machine sleeps), so the holder always knows first that a lease has run out.
//
// Only the Raft leader declares nodes down: at once when a link ended and every voter that can be asked is refused a
// connection (the process is gone: fenced), or when nothing was heard for three seconds (not fenced). A new leader judges all
// nodes before it lets a change through (Gone, which is metadata/raftstore's Prober).
//
//	message.go   the heartbeat's layout
//	core.go      who was heard when, leases given and held; pure, time is an argument
//	judge.go     what the leader makes of it, and when a node has to pause; pure
//	crash.go     the fast path: asking the voters
//	detector.go  the loop around it, and what the node calls
package detector
