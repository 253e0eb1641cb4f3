// Package link is the inter-node transport of a Warren node: one TCP listener for every protocol that nodes and
// tools speak to each other, and exactly one framed connection ("peer link") per pair of nodes that carries the ring
// frames of all queues, heartbeats and small calls.
//
// Start with [New], register what you serve ([Transport.Handle], [Transport.HandleCall], [Transport.HandleFrame],
// [Transport.Watch]), then [Transport.Start], then declare the neighbours with [Transport.SetPeers]. A tool that has no
// listener uses [DialAuthenticated].
//
// # Connections
//
// The first byte of a connection (inside TLS, where TLS is configured) names its protocol: 'R' Raft, 'L' peer link,
// 'A' admin, or whatever else was registered. Then both sides prove that they know the cookie, which itself never
// crosses the wire (design/README.md, contract):
//
//	client → server   protocol:1  version:1 (=1)  nonceC:32
//	server → client   version:1  status:1  nonceS:32
//	client → server   macC:32 = HMAC-SHA256(cookie, label ‖ "client" ‖ protocol ‖ nonceC ‖ nonceS)
//	server → client   status:1  macS:32 = HMAC-SHA256(cookie, label ‖ "server" ‖ protocol ‖ nonceC ‖ nonceS)
//
// label is "warren-auth-1\x00". A status other than 0 says why the server refuses: 1 wrong cookie, 2 protocol not
// served, 3 version not known, 4 too many connections in handshake. All sizes are fixed; the whole handshake, TLS
// included, has [HandshakeTimeout].
//
// # Peer links
//
// On an 'L' connection three messages follow, each a uint32 length (big endian, at most 16 KiB) and a msgpack map whose
// unknown fields are skipped (design/upgrades.md):
//
//	dialer → acceptor   hello {cluster, node, incarnation, lo, hi, features, ask, addr}
//	acceptor → dialer   reply {the acceptor's hello, code, text, protocol}
//	dialer → acceptor   ack   {code, text}
//
// A code other than 0 refuses the link: another cluster, no common protocol version, a clash of names, a node that is
// not declared as a peer, a wrong direction, an outdated incarnation. The node whose name sorts lower dials; the other
// one, while it lacks the link, sends a hello with ask=true, which the lower node takes as a request to dial it at once, at
// addr if that is given (it may have moved), and which carries no frames. The pair speaks the highest protocol version that both
// know.
//
// # Frames
//
// After the ack both sides send frames until the end of the connection:
//
//	length:4 (big endian; of kind and body)  kind:1  body
//
// Kinds below 16 belong to this package: 0 keepalive (empty), 1 call, 2 answer, 3 goodbye (text). Kinds from 16 are the
// callers'. Call: id uvarint, timeout in milliseconds uvarint (0: none), method length:1, method, body. Answer: id
// uvarint, code uvarint (0: success), body or error text. A malformed or oversize frame closes the link, never the node.
// A link on which nothing, not even a keepalive, arrives for [Config.Timeout] is closed.
//
// # Limits
//
// Every queue has a limit: bytes waiting per link ([Config.HardLimit], beyond it the link is closed and resumes), frames
// ([Config.MaxFrame], checked before anything is allocated), calls ([Config.MaxCalls]), connections in handshake (256).
package link
