// Package gm is the pure core of the guaranteed multicast on a ring: agreement, sender order, causal order, stability and
// view synchrony for the members of one mirrored queue, in views that the metadata Raft group decides.
//
// The specification is design/gm.md; R1 to R11 and I1 to I7 in comments and test names are its rules and invariants.
//
// # Where to start
//
// A Group is one member's state machine. Its inputs are Install, Receive, LinkUp, LinkDown, Broadcast and Persisted; its
// effects are Outputs, drained with Take. There is no goroutine, clock, lock or random number in it. Package gmtest
// plays it through random histories; package driver runs it over links.
//
//	api.go         members, views, classes, outputs
//	config.go      limits and errors
//	group.go       the Group, views (R6), what it means to be alone or fresh
//	receive.go     which frames count (R5), frames of views to come
//	data.go        broadcast and delivery (R1, R2), fragments (R11)
//	pump.go        what is sent to the successor, in which frames, and when (R2, R10)
//	watermarks.go  Progress, completion, Stable (R3, R4), credit (R10)
//	links.go       links, Resume and Start (R7), baselines (R9)
//	closing.go     tokens and SenderClosed (R8)
//	sender.go, log.go           the rows and the log of design/gm.md's "State of a member"
//	frame.go, decode.go         the wire format
//	invariants.go               what holds after every input, checked in builds with tag warren_invariants or race
//
// # What a driver owes
//
//   - After New it tells LinkUp for every link that is up, then Installs every view of the metadata log from the one that
//     brought the member, in order and without omission. A node that lost some (it restored a snapshot) joins anew.
//   - LinkUp comes before the frames of that connection, LinkDown after them. Outputs from before a LinkUp never go out
//     over the new connection. Frames of a group on a connection keep their order.
//   - A node keeps frames of a group that it does not have yet (its metadata lags), and hands them to the Group once it
//     is made; it drops them with their link. Dropping others means that their link must be re-established: nobody repeats a
//     Resume. The same holds for what Leftover returns of an expelled member.
//   - A group that goes idle after a burst should be told to Cool, for there may be ten thousand.
//   - Outputs are carried out in order. ResetLink asks for a LinkDown and LinkUp at both ends of that link for this group.
//   - A *FrameError closes the link.
//
// # Decisions beyond the specification
//
//   - A successor's Resume says what it has, so nothing that it has is ever sent to it; repeats (R2) come only from elsewhere.
//   - Messages that a member broadcasts between two Takes leave in one frame, up to 64 KiB of bodies; a hop passes that frame on
//     as it came. Rules count messages, not frames: each has its number, its delivery, its credit and its watermarks, and of
//     a frame that is known in part, or that credit allows in part, the rest goes on in a new one. So the order R1 asks for
//     (append, send, deliver) is one of the log: the frame leaves later, and nothing passes it.
//   - Credit (R10) is a window less what the member still holds unforwarded or unpersisted. A message may go while any
//     credit is left, so the last one may exceed it. Data waits in the log; Progress may pass data that waits, since the
//     minimum at the receiver covers it; Stable is cut to what was sent; a token or Start{again} keeps its place.
//     A message that is stable and not yet sent stays in the log until it is: its receiver is a joiner that its
//     sender did not count.
//   - Credit counts by session (the Resume that began it), not by view, so that views apart do not stop a group.
//   - Broadcast of bulk is refused while the link to the successor is not started (I7). Control and Barrier are taken,
//     up to Config.ControlWindow. A fresh member broadcasts nothing.
//   - A joiner that saw senders leave which its first Start does not list gets SenderClosed for each, with Number 0.
//   - Progress of a sender from which nothing was received is not told: silence means the same. Nor is receipt alone (R3) while
//     something that was received before is not durable at the members so far: the two go together once it is. Users are told
//     in order what is complete, so they could do nothing with it; what it costs is that Stable, and with it the log and the
//     sender's window (R10), wait for disks. For a message whose receipt the sender does wait for, users say so (Awaited).
//   - Stable, and own messages that the user calls lazy, may wait for the next frame to the same member (Output.Lazy).
//
// # Wire format, version 1
//
// A frame is a sequence of msgpack objects, without an outer array:
//
//	0x01                  format version (positive fixint)
//	type                  positive fixint, below
//	view                  uint: version of the view that the sending member had, never 0
//	fields                by type
//	…                     whatever follows is skipped: later versions append fields
//
// uint is any of msgpack's unsigned forms, written in the shortest (fixint, 0xcc, 0xcd, 0xce, 0xcf). A member in full is an
// array of three (0x93): node (str, at most 255 bytes), incarnation (uint), join index (uint). A sender is either a uint, its
// place in the members of the frame's view counted from 0, or a member in full, if it is not in that view. A list is an
// array (fixarray, 0xdc or 0xdd) of all its elements one after the other, so its length is a multiple of the element's.
//
//	1 Data      sender, number (uint, from 1), class (uint), body (bin: 0xc4, 0xc5, 0xc6)
//	2 Fragment  sender, number, class, total (uint, bytes of the body), offset (uint), piece (bin, not empty)
//	3 Progress  list of: sender as a place, received (uint), persisted (uint)
//	4 Stable    list of: sender, number
//	5 Credit    session (uint), returned (uint: bytes given back since that session's Resume)
//	6 Resume    session (uint, from 1), fresh (bool: 0xc2, 0xc3), window (uint, bytes), list of: member, received
//	7 Start     session (of the Resume that it answers; 0 if again), again (bool), list of: member, stable
//	8 Closing   list of: member, min, max
//	9 Batch     sender, number of the first (uint, from 1), list of: class, body. Messages of consecutive numbers, at least one
//
// Classes: 0 Bulk, 1 Control, 2 Barrier, 3 SenderClosed (not in a Batch), whose body is a member in full and its last number (uint). The
// fragments of one message follow each other on a link, pieces in order, each of at most Config.Fragment bytes.
//
// Data and Batch under the receiver's own view are passed on as they came in, byte for byte, since every place in it means the same
// to the next member: a hop copies no body and encodes nothing. Only after a change of view is a message encoded again. Whoever
// encodes refers to bodies of 1 KiB and more where they stand (Output.Rest). A fragmented message is copied once, to make it whole.
//
// For a sender of a view with fewer than 128 members, a Data frame of a view below 2^32 costs at most 20 bytes and the body,
// a message in a Batch at most 6.
//
// A frame above Config.MaxFrame, of another version or type, truncated, with a list above 12288 elements, a body above
// Config.MaxMessage, an unknown class or a place outside of the view is a *FrameError. Decoding allocates nothing in
// proportion to what a frame claims, only to what has arrived. testdata/v1 holds one frame of each kind that every later
// version must read.
package gm
