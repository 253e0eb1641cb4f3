// Package driver runs the members of many gm groups over the links of one node (design/gm.md, "Shape of the code").
//
// A [Host] owns the groups of a node and connects them to its link.Transport. Each replicated thing (a queue) is an
// [Actor]: a mailbox and a [Handler]. Posting to an idle actor starts a goroutine, which empties the mailbox in batches
// and ends: an idle actor has no goroutine and no timer (I8). All events of an actor are handled one at a time: those
// that its user posts, and the ring's, once [Host.Join] has given it a [Member] of a group.
//
// # A batch
//
// The goroutine takes what the mailbox holds (at most 512 events, and ring frames of about 256 KiB), and
//
//  1. hands each event to the handler or to the member; the member's outputs go to [Handler.HandleOutput] in order,
//     before the next posted event. Frames to neighbours are gathered, and what the events of one batch broadcast shares
//     frames (gm.Group.Ready);
//  2. gives the gathered frames to the links: forwarding does not wait for this node's disk;
//  3. calls [Handler.EndBatch], where the user syncs its journal and flushes its clients. If that made the member emit
//     outputs, they are handled as in 1 and 2, and EndBatch is called again when the handler saw any.
//
// Frames that nobody waits for (gm.Output.Lazy: Stable) leave with the next frame to the same node, at the latest after 10 ms;
// one timer of the host's serves all members, and runs only while one of them keeps such a frame.
//
// The methods of a Member may be called from inside the handler only. They never call back: outputs are handled after
// the handler has returned, so there is no recursion.
//
// # On the wire
//
// A ring frame is a link frame of kind [KindRing]: group id (uvarint), then the frame of package gm. Two more kinds hold a
// group id alone and start that group's link afresh, as if it had broken and come back (R7), without touching the link of
// any other group: [KindReset] asks, after a defect or when a mailbox was full; the other end starts anew and answers
// [KindResetDone], and what follows the answer is of the new start. A node that does not host the group answers, too.
// Other users of the links take kinds from link.FirstUserKind+16.
//
// # Between groups on one link
//
// Credit bounds what one group has under way (R10). While a link's backlog is at or over its soft limit, frames wait in a
// queue per group, and the queues take turns as the link drains: a busy or a stuck group delays the others by at most
// the soft limit. Readers never wait for an actor: they post, and a mailbox that is full (a handler that hangs) costs
// that group its link, no other.
//
// Frames for a group that is not hosted yet (metadata lags) are kept aside within [Config.AsideFrames] and
// [Config.AsideBytes] until Join, and dropped with their link (R5). When some had to be dropped, Join resets that
// group's link, and R7's Resume recovers what was lost. So does a group that had a member here before: what was on its way to
// that one, a Resume among it, ends with it (gm.Group.Leftover is not needed for that).
package driver
