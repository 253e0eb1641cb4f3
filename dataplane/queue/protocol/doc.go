// Package protocol holds the messages between a queue process on the master's node (dataplane/queue) and the channels'
// half on every other node, or the same one (dataplane/origin).
//
// A node and a master talk in sessions. The node opens one with Hello and a number that grows with each attempt; the
// master answers Welcome, and from then on every message of both directions carries the master's epoch and the session,
// so that what an earlier link or an earlier master still had under way is recognised and ignored. After Welcome the
// node says what it has (mirroring.md, "Origins", "Failover"):
//
//	node                                   master
//	 Hello                            →
//	                                  ←    Welcome{credit}
//	 Attach{origins} Ack{kept}…       →
//	 Attach{consumers, outstanding}   →
//	 Attach{Last}                     →    (when the last node has attached: everything else becomes ready)
//	 Publish{kept again, then new}    →
//	                                  ←    Confirm{results, stable acks, credit}  Deliver  Reply  Cancelled
//
// A master that has just begun sends Ready to every node that is up, which makes the node open a session at once.
//
// Hot messages come in batches: Publish and Deliver hold many messages, Confirm holds ranges per origin, Ack ranges of
// positions. Append and Decode are the wire form: MessagePack, arrays whose unknown trailing elements are skipped, so
// that a later version may add fields.
package protocol
