package raftstore

import (
	"net"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

// Stream carries Raft's connections: a listener and a dialer whose connections are authenticated by the caller.
type Stream interface {
	net.Listener
	// Dial connects to a node's inter-node address (host:port).
	Dial(addr string, timeout time.Duration) (net.Conn, error)
}

// layer makes a Stream a raft.StreamLayer that is known by the configured address.
type layer struct {
	Stream
	addr addr
}

func (l layer) Dial(address raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	return l.Stream.Dial(string(address), timeout)
}

func (l layer) Addr() net.Addr { return l.addr }

type addr string

func (a addr) Network() string { return "tcp" }
func (a addr) String() string  { return string(a) }

// transport is the network transport, with a way to hand this node's Raft a message of our own.
type transport struct {
	*raft.NetworkTransport
	gate       gate
	started    bool
	shuns      func(cmd any) bool
	raft       atomic.Pointer[raft.Raft]
	configured func() bool // whether this node has a configuration; set before run needs it
	out        chan raft.RPC
	stop       chan struct{}
	done       chan struct{}
}

func newTransport(n *raft.NetworkTransport, configured func() bool) *transport {
	t := &transport{NetworkTransport: n, configured: configured, out: make(chan raft.RPC), stop: make(chan struct{}), done: make(chan struct{})}
	return t
}

// start begins to pass messages on; Raft must be there.
func (t *transport) start(r *raft.Raft) {
	t.raft.Store(r)
	t.started = true
	go t.run()
}

func (t *transport) run() {
	defer close(t.done)
	for {
		select {
		case rpc := <-t.NetworkTransport.Consumer():
			if !t.gate.passes(rpc.Command, t.configured) || t.shuns(rpc.Command) {
				rpc.Respond(nil, errClosedGate)
			} else if !t.put(rpc) {
				return
			}
		case <-t.stop:
			return
		}
	}
}

func (t *transport) put(rpc raft.RPC) bool {
	select {
	case t.out <- rpc:
		return true
	case <-t.stop:
		return false
	}
}

// RequestVote implements raft.Transport.
func (t *transport) RequestVote(id raft.ServerID, to raft.ServerAddress, args *raft.RequestVoteRequest, resp *raft.RequestVoteResponse) error {
	if t.gate.isHeld() {
		return errHeld
	}
	return t.NetworkTransport.RequestVote(id, to, args, resp)
}

// RequestPreVote implements raft.WithPreVote.
func (t *transport) RequestPreVote(id raft.ServerID, to raft.ServerAddress, args *raft.RequestPreVoteRequest, resp *raft.RequestPreVoteResponse) error {
	if t.gate.isHeld() {
		return errHeld
	}
	return t.NetworkTransport.RequestPreVote(id, to, args, resp)
}

// Consumer implements raft.Transport.
func (t *transport) Consumer() <-chan raft.RPC { return t.out }

// close ends the transport; Raft must have been shut down.
func (t *transport) close() error {
	close(t.stop)
	if t.started {
		<-t.done
	}
	return t.NetworkTransport.Close()
}

// timeoutNow makes this node's Raft start an election as if the leader had asked it to (hashicorp/raft's leadership
// transfer), so that the others vote although they have heard of a leader not long ago.
func (t *transport) timeoutNow(h raft.RPCHeader) {
	resp := make(chan raft.RPCResponse, 1)
	t.put(raft.RPC{Command: &raft.TimeoutNowRequest{RPCHeader: h}, RespChan: resp})
}
