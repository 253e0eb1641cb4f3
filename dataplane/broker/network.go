package broker

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"warren/dataplane/backingqueue"
	"warren/dataplane/link"
	"warren/dataplane/queue/protocol"
	"warren/metadata/detector"
	"warren/metadata/raftstore"
	"warren/metadata/state"
)

// Frames on the peer links besides the ring's, which has the kinds up to 31. Numbers are never reused.
const (
	frameHeartbeat link.FrameKind = 32 // detector's payload
	frameReport    link.FrameKind = 33 // incarnation (uvarint), node name: "my link to it ended"
	frameToMaster  link.FrameKind = 34 // queue id (uvarint), protocol message of an attachment
	frameToNode    link.FrameKind = 35 // queue id (uvarint), protocol message of a queue process
	frameReply     link.FrameKind = 39 // message of package message, whose routing key is a reply name of the receiver
	frameAlarm     link.FrameKind = 36 // one byte, the sender's alarm
	frameAddress   link.FrameKind = 37 // the sender's inter-node address
	frameSync      link.FrameKind = 38 // queue id (uvarint), 1 if the message goes on in the next frame, part of a message of package mirror
)

// Calls between nodes.
const (
	callPropose = "metadata.forward"
	callCluster = "metadata.has-cluster" // asked by the first versions; see membership.go
	callLeaving = "node.leaving"
	callApplied = "metadata.applied"
	callDial    = "detector.dial"
	callGrants  = "detector.grants-clear"
	callOffer   = "mirror.offer"
	callFigures = "queue.figures"
	callLetters = "queue.letters-forgotten"
	callMove    = "mirror.move"
	callHolds   = "mirror.holds"
	callReplies = "channel.awaits-replies"

	callWatermarks = "mirror.watermarks"
	callSync       = "mirror.sync"
)

const (
	callTimeout    = 2 * time.Second
	proposeTimeout = 30 * time.Second
)

func (n *Node) hello() link.Hello {
	return link.Hello{
		Cluster: *n.clusterID.Load(), Node: n.cfg.Node, Incarnation: n.incarnation.Load(), Features: state.SupportedFeatures(),
		Addr: n.internodeAddress(),
	}
}

// register says what this node does with what arrives; the links are not started yet.
func (n *Node) register() {
	n.links.Watch(watcher{n})
	n.links.HandleFrame(frameHeartbeat, func(from link.PeerID, body []byte) { n.detector.HandleHeartbeat(from.Node, body) })
	n.links.HandleFrame(frameReport, n.reported)
	n.links.HandleFrame(frameAlarm, n.alarms.told)
	n.links.HandleFrame(frameAddress, n.members.addressTold)
	n.links.HandleFrame(frameSync, n.syncFrame)
	n.links.HandleFrame(frameToMaster, func(from link.PeerID, body []byte) {
		n.queueFrame(from, body, (*life).fromNode)
	})
	n.links.HandleFrame(frameToNode, func(from link.PeerID, body []byte) {
		n.queueFrame(from, body, (*life).fromMaster)
	})
	n.links.HandleFrame(frameReply, n.replyFrame)
	n.links.HandleCall(callPropose, func(ctx context.Context, _ link.PeerID, body []byte) ([]byte, error) {
		return n.meta.HandleForward(ctx, body)
	})
	n.links.HandleCall(callCluster, func(context.Context, link.PeerID, []byte) ([]byte, error) {
		if n.meta.Standing() == raftstore.Settled {
			return []byte{1}, nil
		}
		return []byte{0}, nil
	})
	n.links.HandleCall(callApplied, func(ctx context.Context, _ link.PeerID, body []byte) ([]byte, error) {
		index, _ := binary.Uvarint(body)
		return nil, n.meta.WaitApplied(ctx, index)
	})
	n.links.HandleCall(callDial, func(ctx context.Context, _ link.PeerID, body []byte) ([]byte, error) {
		return []byte{byte(n.detector.HandleAskDial(ctx, string(body)))}, nil
	})
	n.links.HandleCall(callGrants, n.answerGrants)
	n.links.HandleCall(callLeaving, n.members.leavingTold)
	n.links.Handle(link.ProtoMembers, n.answerMembership)
	n.links.HandleCall(callOffer, n.answerOffer)
	n.links.HandleCall(callFigures, n.answerFigures)
	n.links.HandleCall(callLetters, n.answerLetters)
	n.links.HandleCall(callMove, n.answerMove)
	n.links.HandleCall(callHolds, n.answerHolds)
	n.links.HandleCall(callReplies, n.answerReplies)
	n.links.HandleCall(callWatermarks, n.answerWatermarks)
	n.links.HandleCall(callSync, n.answerSync)
	n.registerClientCalls()
	if n.cfg.Admin != nil {
		n.links.Handle(link.ProtoAdmin, func(c net.Conn) { n.cfg.Admin(n, c) })
	}
}

func (n *Node) reported(_ link.PeerID, body []byte) {
	incarnation, size := binary.Uvarint(body)
	if size <= 0 {
		n.log.Warn("a report of a broken link cannot be read")
		return
	}
	n.detector.HandleReport(state.Place{Node: string(body[size:]), Incarnation: incarnation})
}

// queueFrame hands a message of the queue protocol to the present life.
func (n *Node) queueFrame(from link.PeerID, body []byte, take func(*life, protocol.NodeID, backingqueue.ID, protocol.Message)) {
	id, size := binary.Uvarint(body)
	if size <= 0 {
		n.log.Error("a message about a queue names none; closing the link", "peer", from.Node)
		n.links.Reset(from.Node)
		return
	}
	m, err := protocol.Decode(body[size:])
	if err != nil {
		n.log.Error("a message about a queue cannot be read; closing the link", "peer", from.Node, "queue", id, "error", err)
		n.links.Reset(from.Node)
		return
	}
	if l := n.currentLife(); l != nil {
		take(l, protocol.NodeID{Name: from.Node, Incarnation: from.Incarnation}, backingqueue.ID(id), m)
	}
}

// watcher is told of the peer links.
type watcher struct{ n *Node }

// LinkUp implements link.Watcher.
func (w watcher) LinkUp(p link.PeerID) {
	w.n.alarms.tell(p)
	w.n.members.tellAddress(p)
	if l := w.n.currentLife(); l != nil {
		l.linkUp(protocol.NodeID{Name: p.Node, Incarnation: p.Incarnation})
	}
}

// LinkDown implements link.Watcher.
func (w watcher) LinkDown(p link.PeerID, cause link.Cause) {
	w.n.alarms.set(p.Node, 0) // it says so again when it is back
	if l := w.n.currentLife(); l != nil {
		l.linkDown(protocol.NodeID{Name: p.Node, Incarnation: p.Incarnation})
	}
	w.n.log.Info("link to a peer ended", "peer", p.Node, "incarnation", p.Incarnation, "cause", cause.String())
	if cause.Kind == link.CauseLost || cause.Kind == link.CauseGoodbye {
		w.n.detector.LinkEnded(p.Node, p.Incarnation)
	}
}

// LinkDrained implements link.Watcher.
func (w watcher) LinkDrained(link.PeerID) {}

// network is the failure detector's way to the other nodes.
type network struct{ n *Node }

// SendHeartbeat implements detector.Network; where there is no link, the silence is what the other node is to notice.
func (w network) SendHeartbeat(node string, payload []byte) {
	_ = w.n.links.Send(node, frameHeartbeat, payload)
}

// Report implements detector.Network; a report that cannot be sent is replaced by the silence that the leader notices.
func (w network) Report(to string, of state.Place) {
	_ = w.n.links.Send(to, frameReport, append(binary.AppendUvarint(nil, of.Incarnation), of.Node...))
}

// Dial implements detector.Network.
func (w network) Dial(ctx context.Context, node string) detector.Verdict {
	addr := w.n.addressOf(node)
	if addr == "" {
		return detector.NoAnswer
	}
	r, _ := w.n.links.Probe(ctx, addr)
	switch r {
	case link.Alive:
		return detector.Accepted
	case link.Refused:
		return detector.Refused
	}
	return detector.NoAnswer
}

// AskDial implements detector.Network.
func (w network) AskDial(ctx context.Context, via, node string) (detector.Verdict, error) {
	b, err := w.n.links.Call(ctx, via, callDial, []byte(node))
	if err != nil {
		return detector.NoAnswer, err
	}
	if len(b) != 1 {
		return detector.NoAnswer, fmt.Errorf("verdict of %s on %s has %d bytes", via, node, len(b))
	}
	return detector.Verdict(b[0]), nil
}

// raft is what the failure detector needs of the metadata group.
type raft struct{ n *Node }

func (r raft) Leader() (string, uint64)  { return r.n.meta.Leader() }
func (r raft) IsLeader() bool            { return r.n.meta.IsLeader() }
func (r raft) Applied() uint64           { return r.n.meta.Applied() }
func (r raft) ElectNow(dead string) bool { return r.n.meta.ElectNow(dead) }
func (r raft) Voters() (voters []string) {
	members, err := r.n.meta.Members()
	if err != nil {
		return nil
	}
	for _, m := range members {
		if m.Voter {
			voters = append(voters, m.Name)
		}
	}
	return voters
}

func (r raft) NodesDown(ctx context.Context, down []state.DownNode) error {
	res, err := r.n.meta.Propose(ctx, &state.NodesDown{Nodes: down})
	if err != nil {
		return err
	}
	return res.Refusal()
}

func (n *Node) forward(ctx context.Context, node string, req []byte) ([]byte, error) {
	return n.links.Call(ctx, node, callPropose, req)
}

// addressOf is where a node's inter-node listener is, "" if nobody said.
func (n *Node) addressOf(node string) string {
	for _, p := range n.peers() {
		if p.Node == node {
			return p.Addr
		}
	}
	return ""
}

// peers are all other nodes that this one should be connected to: those of the Raft group and, until there is a cluster, of
// the configuration. An address that the node itself told wins. Where the others disagree (a node has moved), those of a node
// that is not connected are tried in turn.
func (n *Node) peers() []link.Peer {
	known := map[string][]string{}
	note := func(node, addr string) {
		if node != n.cfg.Node && addr != "" && !slices.Contains(known[node], addr) {
			known[node] = append(known[node], addr)
		}
	}
	members, err := n.meta.Members()
	if err == nil {
		for _, m := range members {
			note(m.Name, m.Addr)
		}
	}
	n.meta.View(func(s *state.State) {
		for _, node := range s.Nodes() {
			if _, member := known[node.Name]; member {
				note(node.Name, node.Addresses.Internode)
			}
		}
	})
	for _, p := range n.cfg.Peers {
		if _, member := known[p.Node]; member || len(members) == 0 {
			note(p.Node, p.Address)
		}
	}
	return n.members.choose(known)
}

// connect declares the peers to the links.
func (n *Node) connect() { n.links.SetPeers(n.peers()) }

// keepPeers keeps the links' peers up to date: membership changes are rare, and a moment's delay costs nothing.
func (n *Node) keepPeers(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			n.connect()
			n.rememberMembers()
		}
	}
}

// rememberMembers keeps the file of members up to date.
func (n *Node) rememberMembers() {
	members, err := n.meta.Members()
	if err != nil || len(members) == 0 {
		return
	}
	stored := storedFrom(members)
	n.meta.View(func(s *state.State) {
		for i := range stored {
			if r, ok := s.Node(stored[i].Node); ok {
				stored[i].Incarnation = r.Incarnation
			}
		}
	})
	if slices.Equal(stored, n.remembered) {
		return
	}
	if err := n.data.setMembers(stored); err != nil {
		n.log.Warn("the members of the cluster could not be remembered", "error", err)
		return
	}
	n.remembered = stored
}

func hostOf(node string) string {
	_, host, _ := strings.Cut(node, "@")
	return host
}
