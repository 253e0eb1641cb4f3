package broker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/vmihailenco/msgpack/v5"

	"warren/dataplane/link"
	"warren/metadata/raftstore"
)

// One question and one answer on a connection of link.ProtoMembers, each a msgpack map. It is for nodes that need not be
// linked: they form a cluster, want to be let in, or may have been forgotten.
const (
	askStanding = "standing" // how far is the other with its cluster
	askEnter    = "enter"    // let Node, which is empty, in
	askKnows    = "knows"    // is Node a member
	askLeave    = "leave"    // take Node, which is not up, out
	askNewest   = "newest"   // the newest incarnation of Node that was proposed, as far as the other knows

	membershipTimeout = 10 * time.Second
	maxMembership     = 64 << 10 // bytes
	catchUpAttempt    = 3 * time.Second
)

type membershipQuestion struct {
	Kind string `msgpack:"kind"`
	Node string `msgpack:"node"`
	Addr string `msgpack:"addr"`
}

type membershipAnswer struct {
	Standing uint8  `msgpack:"standing"`
	Cluster  string `msgpack:"cluster"`
	Known    bool   `msgpack:"known"`
	Newest   uint64 `msgpack:"newest"`
	Shunned  bool   `msgpack:"shunned"` // the cluster was recovered without the node that asks
	Error    string `msgpack:"error"`
}

// UnwelcomeError ends a node that its cluster does not take.
type UnwelcomeError struct{ Text string }

// Error implements error.
func (e *UnwelcomeError) Error() string { return e.Text }

// answerMembership answers the one question of a connection.
func (n *Node) answerMembership(conn net.Conn) {
	defer conn.Close()
	deadline := time.Now().Add(membershipTimeout)
	if err := conn.SetDeadline(deadline); err != nil {
		return
	}
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	defer cancel()
	var q membershipQuestion
	if err := msgpack.NewDecoder(io.LimitReader(conn, maxMembership)).Decode(&q); err != nil {
		n.log.Debug("a question about membership cannot be read", "error", err)
		return
	}
	a := membershipAnswer{Cluster: *n.clusterID.Load(), Shunned: n.shuns(q.Node)}
	var err error
	switch q.Kind {
	case askStanding:
		a.Standing = uint8(n.meta.Standing())
	case askEnter:
		if err = n.meta.Admit(ctx, raftstore.Peer{Name: q.Node, Addr: q.Addr}); err == nil {
			n.members.address(q.Node, q.Addr)
			n.connect()
		}
	case askKnows:
		a.Known, err = n.meta.KnowsMember(ctx, q.Node)
	case askLeave:
		if err = n.ForgetNode(ctx, q.Node); errors.Is(err, ErrNotMember) {
			err = nil
		}
	case askNewest:
		a.Newest = n.newestOf(q.Node)
	default:
		err = fmt.Errorf("unknown question %q", q.Kind)
	}
	if err != nil {
		a.Error = err.Error()
	}
	if err := msgpack.NewEncoder(conn).Encode(&a); err != nil {
		n.log.Debug("an answer about membership was not sent", "error", err)
	}
}

// askMembership asks the node at addr; a refusal there is an error here.
func askMembership(ctx context.Context, links *link.Transport, addr string, q membershipQuestion) (a membershipAnswer, err error) {
	ctx, cancel := context.WithTimeout(ctx, membershipTimeout)
	defer cancel()
	conn, err := links.Dial(ctx, addr, link.ProtoMembers)
	if err != nil {
		return a, fmt.Errorf("ask the node at %s: %w", addr, err)
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	if err := msgpack.NewEncoder(conn).Encode(&q); err != nil {
		return a, fmt.Errorf("ask the node at %s: %w", addr, err)
	}
	if err := msgpack.NewDecoder(io.LimitReader(conn, maxMembership)).Decode(&a); err != nil {
		return a, fmt.Errorf("read the answer of the node at %s: %w", addr, err)
	}
	if a.Error != "" {
		return a, fmt.Errorf("the node at %s: %s", addr, a.Error)
	}
	return a, nil
}

// askStanding is raftstore's Config.Ask.
func (n *Node) askStanding(ctx context.Context, p raftstore.Peer) (raftstore.Standing, error) {
	a, err := askMembership(ctx, n.links, p.Addr, membershipQuestion{Kind: askStanding, Node: n.cfg.Node})
	return raftstore.Standing(a.Standing), err
}

// enter is raftstore's Config.Enter.
func (n *Node) enter(ctx context.Context, via raftstore.Peer) error {
	_, err := askMembership(ctx, n.links, via.Addr, membershipQuestion{Kind: askEnter, Node: n.cfg.Node, Addr: n.internodeAddress()})
	return err
}

// disowned asks the other members, when no leader is found for long, whether they still know this node. It was forgotten if one
// says so for a leader of the same cluster.
func (n *Node) disowned(ctx context.Context) error {
	if n.meta.Standing() == raftstore.Empty {
		return nil // it waits to be let in
	}
	cluster := *n.clusterID.Load()
	for _, p := range n.peers() {
		a, err := askMembership(ctx, n.links, p.Addr, membershipQuestion{Kind: askKnows, Node: n.cfg.Node})
		if err == nil && a.Shunned {
			return n.shunnedBy(p.Node)
		}
		if err != nil || a.Known || cluster != "" && a.Cluster != cluster {
			continue
		}
		return &UnwelcomeError{fmt.Sprintf("Node %s thinks it's clustered with node %s, but %s disagrees: it was forgotten there, or reset. "+
			"To let it join anew, move its data directory %s away and start it", n.cfg.Node, p.Node, p.Node, n.cfg.DataDir)}
	}
	return nil
}

// catchUp waits until all that was committed is applied here, and finds out whether the cluster wants this node as it is.
func (l *life) catchUp(ctx context.Context) error {
	n := l.node
	for last := ""; ; {
		attempt, cancel := context.WithTimeout(ctx, catchUpAttempt)
		err := n.meta.CatchUp(attempt)
		cancel()
		if err == nil {
			return l.checkDisk()
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if text := err.Error(); text != last {
			l.log.Info("waiting for a leader of the metadata", "reason", err)
			last = text
		}
		if err := n.disowned(ctx); err != nil {
			return err
		}
	}
}

// members is what a node knows of the others beside the metadata: their addresses as they told them, and who is leaving.
type members struct {
	n *Node

	mu      sync.Mutex
	told    map[string]string // addresses
	leaving map[string]uint64 // incarnations that are stopping
	turn    int               // of the addresses to try
}

func newMembers(n *Node) *members {
	return &members{n: n, told: map[string]string{n.cfg.Node: n.internodeAddress()}, leaving: map[string]uint64{}}
}

func (m *members) toldAddress(node string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.told[node]
}

func (m *members) address(node, addr string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.told[node] = addr
}

// tellAddress tells a peer where this node is, so that one that moved is found again.
func (m *members) tellAddress(p link.PeerID) {
	_ = m.n.links.SendTo(p, frameAddress, []byte(m.n.internodeAddress())) // the next link tells again
}

func (m *members) addressTold(from link.PeerID, body []byte) {
	addr := string(body)
	if _, _, err := net.SplitHostPort(addr); err != nil {
		m.n.log.Warn("the address of a peer cannot be read", "peer", from.Node, "error", err)
		return
	}
	m.address(from.Node, addr)
}

// choose picks one address of each node: of a linked node any will do, of others all are tried in turn.
func (m *members) choose(known map[string][]string) []link.Peer {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.turn++
	var peers []link.Peer
	for node, addrs := range known {
		told, ok := m.told[node]
		if ok && !slices.Contains(addrs, told) {
			addrs = append([]string{told}, addrs...)
		}
		addr := addrs[0]
		if _, linked := m.n.links.Peer(node); ok && linked {
			addr = told
		} else if !linked {
			addr = addrs[m.turn%len(addrs)]
		}
		peers = append(peers, link.Peer{Node: node, Addr: addr})
	}
	return peers
}

func (m *members) leavingTold(_ context.Context, from link.PeerID, _ []byte) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.leaving[from.Node] = from.Incarnation
	return nil, nil
}

// isLeaving says whether that incarnation has said that it stops.
func (m *members) isLeaving(node string, incarnation uint64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.leaving[node] == incarnation
}

// tellLeaving tells all peers that this incarnation stops, so that they hand it no masters and do not count on it.
func (n *Node) tellLeaving() {
	ctx, cancel := context.WithTimeout(context.Background(), leavingTimeout)
	defer cancel()
	var wg sync.WaitGroup
	for _, p := range n.links.Connected() {
		wg.Go(func() {
			if _, err := n.links.Call(ctx, p.ID.Node, callLeaving, nil); err != nil && !errors.Is(err, context.DeadlineExceeded) {
				n.log.Debug("a peer was not told that this node stops", "peer", p.ID.Node, "error", err)
			}
		})
	}
	wg.Wait()
}
