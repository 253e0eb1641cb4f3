// Package admin is the protocol by which an operator's tool talks to a node, both ends of it.
//
// Start with Node: what a node must be able to do for its operators, in plain structs. The server side is
//
//	admin.Serve(ctx, conn, node)
//
// on a connection that the inter-node listener has already authenticated (link.ProtoAdmin, with the cookie
// handshake of dataplane/link). The client side is
//
//	c := admin.NewClient(conn)
//	defer c.Close()
//	err := c.ListQueues(ctx, admin.QueueQuery{VHost: "/"}, func(q admin.QueueInfo) error { … })
//
// A Client has the methods of Node, so that a command can be tested against either.
//
// # On the wire
//
// Each frame is a length (four bytes, big endian, of what follows) and one msgpack map. A client sends one request, and
// reads frames of rows until one that ends the answer, well or with an error; then it may send the next.
//
//	request  {"v": 1, "cmd": "list_queues", "timeout": ms, "args": {…}}
//	answer   {"k": "row", "row": {…}} … {"k": "end"} or {"k": "error", "code": "not_found", "text": "…"}
//
// Maps are keyed by name and unknown keys are skipped, so a tool and a node of different versions understand each other;
// a command that the node does not know is answered with CodeUnsupported. The size of a frame is checked before anything
// is allocated for it (MaxRequest, MaxAnswer), and what lies in it is decoded by link.Unmarshal, which believes no length that
// it claims. Each request carries a time limit, bounded by MaxTimeout; closing the
// connection cancels the request that is running.
package admin
