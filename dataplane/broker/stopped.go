package broker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"warren/dataplane/link"
	"warren/metadata/raftstore"
)

// Next is what follows a run of a Node or a Stopped.
type Next uint8

// answerPause is how long a tool has to read the answer before its connection ends.
const answerPause = 50 * time.Millisecond

// Nothing, a Stopped on the same data directory, or a Node.
const (
	NextNothing Next = iota
	NextStopped
	NextNode
)

// Member is a member of the metadata group.
type Member = raftstore.Member

// Stopped is a node whose application is stopped (rabbitmqctl stop_app): its process, its data directory and its inter-node
// listener are there for operators' tools, and nothing else. Here a node leaves its cluster, joins another, or is reset.
type Stopped struct {
	cfg   Config
	data  *dataDir
	links *link.Transport

	mu    sync.Mutex // one change at a time
	next  Next
	asked chan struct{} // closed when next is set
	once  sync.Once
}

// Errors of a Stopped.
var (
	ErrItself        = errors.New("cannot cluster node with itself")
	ErrAlreadyMember = errors.New("the node is already a member of this cluster")
)

// UnreachableError: a node that is needed cannot be asked.
type UnreachableError struct {
	Node string
	Err  error
}

// Error implements error.
func (e *UnreachableError) Error() string {
	return fmt.Sprintf("node %s cannot be asked: %v", e.Node, e.Err)
}

// Unwrap returns the cause.
func (e *UnreachableError) Unwrap() error { return e.Err }

// StartStopped opens the data directory and the inter-node listener. admin serves operators' connections.
func StartStopped(cfg Config, admin func(*Stopped, net.Conn)) (s *Stopped, err error) {
	s = &Stopped{cfg: cfg, asked: make(chan struct{})}
	if s.data, err = openDataDir(cfg.DataDir, cfg.Node); err != nil {
		return nil, err
	}
	s.links, err = link.New(link.Config{
		Addr: cfg.Internode.Listen.Address(), Node: cfg.Node, Cookie: cfg.Cookie, Log: cfg.Log.With("node", cfg.Node),
		Hello: func() link.Hello { return link.Hello{Node: cfg.Node, Incarnation: s.data.id.Incarnation} },
	})
	if err != nil {
		s.data.close()
		return nil, err
	}
	s.links.Handle(link.ProtoAdmin, func(c net.Conn) { admin(s, c) })
	s.links.Start()
	return s, nil
}

// Run serves until ctx ends (NextNothing), or Stop or StartApp is called.
func (s *Stopped) Run(ctx context.Context) (Next, error) {
	s.cfg.Log.Info("the application is stopped; the node takes no part in its cluster", "node", s.cfg.Node)
	select {
	case <-ctx.Done():
	case <-s.asked:
		// What was asked for by an operator's tool is answered before its connection ends.
		select {
		case <-time.After(answerPause):
		case <-ctx.Done():
		}
	}
	err := s.links.Close()
	s.data.close()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.next, err
}

func (s *Stopped) end(next Next) {
	s.once.Do(func() {
		s.mu.Lock()
		s.next = next
		s.mu.Unlock()
		close(s.asked)
	})
}

// Stop ends the process's work.
func (s *Stopped) Stop() { s.end(NextNothing) }

// StartApp has the node take part in its cluster again.
func (s *Stopped) StartApp() { s.end(NextNode) }

// Members are those that the node knew when it stopped, itself among them; none if it belongs to no cluster.
func (s *Stopped) Members() ([]Member, error) { return s.data.members() }

func (s *Stopped) others() ([]Member, error) {
	members, err := s.data.members()
	return slices.DeleteFunc(members, func(m Member) bool { return m.Name == s.cfg.Node }), err
}

// Reset takes the node out of its cluster and empties it. With force nobody is asked. Without, one of the other members has to
// agree; *UnreachableError if none can be asked.
func (s *Stopped) Reset(ctx context.Context, force bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !force {
		if err := s.leave(ctx); err != nil {
			return err
		}
	}
	return s.data.wipe()
}

// leave has another member take this node out of the group.
func (s *Stopped) leave(ctx context.Context) error {
	others, err := s.others()
	if err != nil || len(others) == 0 {
		return err
	}
	for _, m := range others {
		if _, err = askMembership(ctx, s.links, m.Addr, membershipQuestion{Kind: askLeave, Node: s.cfg.Node}); err == nil {
			return nil
		}
		err = &UnreachableError{m.Name, err}
	}
	return err
}

// Join lets the node join the cluster of another: it leaves its own, is emptied, and is let in without a vote, which it gets once
// it is up. Errors: ErrItself, ErrAlreadyMember, *UnreachableError.
func (s *Stopped) Join(ctx context.Context, to raftstore.Peer) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if to.Name == s.cfg.Node {
		return fmt.Errorf("%w: %s", ErrItself, to.Name)
	}
	there, err := askMembership(ctx, s.links, to.Addr, membershipQuestion{Kind: askKnows, Node: s.cfg.Node})
	if err != nil {
		return &UnreachableError{to.Name, err}
	}
	others, err := s.others()
	if err != nil {
		return err
	}
	ours := slices.ContainsFunc(others, func(m Member) bool { return m.Name == to.Name })
	if there.Known && ours {
		return ErrAlreadyMember
	}
	if !ours {
		if err := s.leave(ctx); err != nil {
			return err
		}
	}
	if err := s.data.wipe(); err != nil {
		return err
	}
	q := membershipQuestion{Kind: askEnter, Node: s.cfg.Node, Addr: internodeAddress(s.cfg)}
	if _, err := askMembership(ctx, s.links, to.Addr, q); err != nil {
		return &UnreachableError{to.Name, err}
	}
	return errors.Join(s.data.setJoining(true), s.data.setMembers(storedFrom([]Member{{Peer: to}, {Peer: raftstore.Peer{Name: s.cfg.Node, Addr: q.Addr}}})))
}

// storedMembers is the file "members": whom the node knew, for when the metadata are closed.
type storedMembers struct {
	Format  int            `json:"format"`
	Members []storedMember `json:"members"`
}

type storedMember struct {
	Node    string `json:"node"`
	Address string `json:"address"`
	Voter   bool   `json:"voter"`
	// Incarnation is the newest one that the metadata knew; it says so to a node whose disk may be older (olddisk.go).
	Incarnation uint64 `json:"incarnation,omitempty"`
}

func storedFrom(members []Member) (stored []storedMember) {
	for _, m := range members {
		stored = append(stored, storedMember{Node: m.Name, Address: m.Addr, Voter: m.Voter})
	}
	return stored
}

func (d *dataDir) membersFile() string { return filepath.Join(d.path, "members") }

func (d *dataDir) members() (out []Member, err error) {
	stored, err := d.storedMembers()
	for _, m := range stored {
		out = append(out, Member{Peer: raftstore.Peer{Name: m.Node, Addr: m.Address}, Voter: m.Voter})
	}
	return out, err
}

func (d *dataDir) storedMembers() ([]storedMember, error) {
	b, err := os.ReadFile(d.membersFile())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("read the members of the cluster: %w", err)
	}
	var stored storedMembers
	if err := json.Unmarshal(b, &stored); err != nil {
		return nil, fmt.Errorf("read the members of the cluster in %s: %w", d.membersFile(), err)
	}
	return stored.Members, nil
}

func (d *dataDir) setMembers(members []storedMember) error {
	b, err := json.Marshal(storedMembers{Format: dataFormat, Members: members})
	if err != nil {
		return fmt.Errorf("encode the members of the cluster: %w", err)
	}
	if err := writeDurably(d.membersFile(), b); err != nil {
		return fmt.Errorf("remember the members of the cluster: %w", err)
	}
	return nil
}

// wipe empties a data directory that nothing else uses; the node's name and incarnation stay. The metadata go first: without
// them, messages are set aside at the next start rather than served.
func (d *dataDir) wipe() error {
	for _, name := range []string{"raft", "members", "queues"} {
		if err := os.RemoveAll(filepath.Join(d.path, name)); err != nil {
			return fmt.Errorf("empty the data directory: %w", err)
		}
	}
	return d.setJoining(false)
}
