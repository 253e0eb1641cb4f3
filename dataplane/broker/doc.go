// Package broker puts a node together: it is the only package that knows both planes.
//
// A Node lives as long as its process. It owns the data directory, the inter-node listener (dataplane/link), the metadata
// (metadata/raftstore), the failure detector (metadata/detector), the store of messages and the host of the rings.
//
// A life is the time of one incarnation of the node: from its NodeUp until it stops, or learns that it was declared
// down. It owns what depends on the incarnation: the AMQP server, this node's copies of queues (copy.go), and the
// attachments of its clients' channels (attachment.go). When an incarnation was declared down its life ends, clients are
// closed with 320, and the next life begins with a new incarnation (metadata.md, failure detection).
//
//	node.go        Start, Run, Stop
//	network.go     what crosses the links: frame kinds, calls, peers
//	life.go        a life: following the metadata, beginning and end
//	copy.go        one queue's copy: mirror.Replica and queue.Process in one actor
//	env.go         what a copy asks of its node
//	join.go        how a copy enters a view: offers, recovery of queues that are down
//	moves.go      planned moves of a master: by policy, by hand, when the node stops
//	salvage.go    what copies had to give up, published again
//	promote.go    an operator's promotion of a copy of a queue that is down
//	maintenance.go drain, revive, forgetting a node, which queues depend on this node
//	stopped.go     a node whose application is stopped: reset, join
//	membership.go  what nodes ask each other that are not linked; leaving; addresses
//	witness.go    a node that votes and carries nothing
//	olddisk.go    a disk that is older than its node takes no part
//	rebalance.go  masters spread over the nodes
//	sync.go, sync_calls.go, syncshare.go: synchronisations, and what all of them together may have under way
//	upkeep.go     what only time brings about: stand-ins for members that stay away
//	stall.go      who holds up a ring, and what is done about it
//	events.go     what an operator reads in the log of a queue's changes
//	lease.go       leases and grants
//	attachment.go, channel.go, session.go, declare.go, queueops.go: the clients' side
//	alarm.go       memory and disk alarms
//	happenings.go  what happens, for operators who watch; logins.go counts clients' logins
//	replyto.go     replies that go from channel to channel
//	routes.go      exchanges and bindings, kept for routing
//	settings.go, arguments.go: what arguments and policies mean for a queue; wake.go: when it wakes by itself
//	queuetypes.go what quorum queues and streams mean here
//	deadletter.go, lettersweep.go: where its dead letters go, and how their targets forget them
//	info.go        what operators ask
//	clientlist.go  connections, channels and consumers, as operators see and close them
//	sole.go        which consumer of a queue with a single active one it is
//	limits.go      limits on connections and channels
//	listen.go      clients' listeners and the options of their sockets
package broker
