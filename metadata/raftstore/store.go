package raftstore

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"

	"warren/metadata/state"
)

// Peer is a node of the cluster as Raft knows it.
type Peer struct {
	Name string // node name, Raft's server ID
	Addr string // inter-node host:port
}

// Prober asks nodes whether they are still the incarnation that counts as up. A new leader calls it before any other change
// of a queue goes through (metadata.md, NodesDown).
type Prober interface {
	// Gone returns those of the incarnations that do not answer, ready to be closed in one command. It must answer for the
	// calling node itself, too. It returns when ctx ends at the latest; who has not answered by then is gone.
	Gone(ctx context.Context, up []state.Place) []state.DownNode
}

// Config is what Open needs. Zero durations and counts take the defaults that are named.
type Config struct {
	Dir    string // for the log and the snapshots; made if it is not there
	Self   string // this node's name
	Addr   string // the inter-node address under which the others reach this node
	Stream Stream
	// Peers is the list that a new cluster begins with, this node among them, the same on each of its nodes. Empty: a
	// cluster of this node alone. It is looked at only while Dir is empty.
	Peers []Peer
	// Join: an empty node waits to be added to a cluster (AddVoter) and forms none of its own.
	Join bool
	// Hold: a node that was a member before neither votes nor asks for votes before Release is called: its caller finds out first
	// whether its disk is older than what it vouched for since. An empty node is not held.
	Hold bool
	// Shunned are nodes that the group was recovered without (Recover): what they say is not heard while they are no members.
	Shunned []string
	// Ask asks a peer for its Standing. May be nil where all nodes are known to be new.
	Ask func(ctx context.Context, p Peer) (Standing, error)
	// Enter asks a peer, which belongs to a cluster, to let this empty node in (Admit). Needed with Ask.
	Enter func(ctx context.Context, via Peer) error
	// AddressOf is where a node is reached now, "" if nobody said other than the group's configuration. May be nil.
	AddressOf func(node string) string
	// Forward carries a request to the HandleForward of another node and brings back its answer.
	Forward func(ctx context.Context, node string, req []byte) ([]byte, error)
	Prober  Prober
	// Init is what the first leader of a new cluster proposes.
	Init   *state.InitCluster
	Logger *slog.Logger

	HeartbeatTimeout  time.Duration // a follower without news of the leader stands for election after 1 to 2 times this; 700 ms
	LeaderLease       time.Duration // a leader that reaches no majority steps down after this; 500 ms
	ProbeTimeout      time.Duration // 3 s
	SnapshotThreshold uint64        // entries between snapshots; 8192
	TrailingLogs      uint64        // entries kept behind a snapshot; 4096
	SnapshotInterval  time.Duration // how often to look; 30 s
}

// ErrClosed: the Store is closed.
var ErrClosed = errors.New("raftstore: closed")

// maxInFlight bounds the proposals of one node that wait for an answer; more wait for a place. It stays below the
// number of results that the state remembers for one proposer.
const maxInFlight = 512

// Store is one node's part of the metadata group. Its methods may be called from any goroutine.
type Store struct {
	cfg     Config
	log     *slog.Logger
	fsm     *fsm
	raft    *raft.Raft
	trans   *transport
	bolt    *raftboltdb.BoltStore
	logs    *raft.LogCache
	session uint64

	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	slots    chan struct{} // one per proposal in flight
	seqMu    sync.Mutex
	seq      uint64
	inFlight []uint64 // ascending

	leading leading
	nudges  chan nudge
	over    *atomic.Bool // Close was called; see sink
}

// Open starts the node's part of the group, and forms the cluster if Dir is empty and no peer has one. It returns before
// there is a leader. An error names what could not be opened; another process that uses Dir is one.
func Open(cfg Config) (*Store, error) {
	cfg = cfg.withDefaults()
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("open metadata: %w", err)
	}
	path := filepath.Join(cfg.Dir, "raft.db")
	if err := checkFile(path); errors.Is(err, errDamaged) {
		return nil, fmt.Errorf("open metadata log %s: %w; restore it, or move the data directory away to start empty", path, err)
	} else if err != nil {
		return nil, fmt.Errorf("open metadata log %s: %w", path, err)
	}
	bolt, err := raftboltdb.New(raftboltdb.Options{Path: path, BoltOptions: &bbolt.Options{Timeout: time.Second,
		NoFreelistSync: true, FreelistType: bbolt.FreelistMapType}})
	if err != nil {
		return nil, fmt.Errorf("open metadata log %s: %w", path, err)
	}
	over := new(atomic.Bool)
	hlog := newLogger(cfg.Logger, over)
	snaps, err := raft.NewFileSnapshotStoreWithLogger(cfg.Dir, 2, hlog)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open metadata snapshots in %s: %w", cfg.Dir, err), bolt.Close())
	}
	s := &Store{cfg: cfg, log: cfg.Logger, over: over, fsm: newFSM(), bolt: bolt, session: newSession(),
		slots: make(chan struct{}, maxInFlight), nudges: make(chan nudge, 1)}
	s.leading.init()
	s.ctx, s.cancel = context.WithCancel(context.Background())
	if err := s.start(hlog, snaps); err != nil {
		s.cancel()
		return nil, errors.Join(err, bolt.Close())
	}
	return s, nil
}

func (s *Store) start(hlog hclog.Logger, snaps raft.SnapshotStore) error {
	var err error
	if s.logs, err = raft.NewLogCache(512, s.bolt); err != nil {
		return fmt.Errorf("open metadata log: %w", err)
	}
	rc := raft.DefaultConfig()
	rc.LocalID, rc.Logger = raft.ServerID(s.cfg.Self), hlog
	rc.HeartbeatTimeout, rc.ElectionTimeout = s.cfg.HeartbeatTimeout, s.cfg.HeartbeatTimeout
	rc.LeaderLeaseTimeout = s.cfg.LeaderLease
	rc.SnapshotThreshold, rc.TrailingLogs, rc.SnapshotInterval = s.cfg.SnapshotThreshold, s.cfg.TrailingLogs, s.cfg.SnapshotInterval
	notify := make(chan bool, 16)
	rc.NotifyCh = notify
	empty, err := s.isEmpty(snaps)
	if err != nil {
		return err
	}
	s.trans = newTransport(raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{Logger: hlog, ServerAddressProvider: s,
		Stream: layer{s.cfg.Stream, addr(s.cfg.Addr)}, MaxPool: 3, Timeout: 5 * time.Second}), s.configured)
	s.trans.shuns = s.shuns
	s.trans.gate.set(!empty || s.cfg.Join, empty)
	s.trans.gate.hold(s.cfg.Hold && !empty)
	if s.raft, err = raft.NewRaft(rc, s.fsm, s.logs, s.bolt, snaps, s.trans); err != nil {
		return errors.Join(fmt.Errorf("start raft: %w", err), s.trans.close())
	}
	s.trans.start(s.raft)
	s.wg.Go(func() { s.watchLeadership(notify) })
	s.wg.Go(s.nudgeLoop)
	if empty && !s.cfg.Join {
		s.wg.Go(s.form)
	}
	return nil
}

func (s *Store) isEmpty(snaps raft.SnapshotStore) (bool, error) {
	has, err := raft.HasExistingState(s.bolt, s.bolt, snaps)
	if err != nil {
		return false, fmt.Errorf("read metadata log in %s: %w", s.cfg.Dir, err)
	}
	return !has, nil
}

func (c Config) withDefaults() Config {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	def(&c.HeartbeatTimeout, 700*time.Millisecond)
	def(&c.LeaderLease, min(500*time.Millisecond, c.HeartbeatTimeout))
	def(&c.ProbeTimeout, 3*time.Second)
	def(&c.SnapshotInterval, 30*time.Second)
	if c.SnapshotThreshold == 0 {
		c.SnapshotThreshold = 8192
	}
	if c.TrailingLogs == 0 {
		c.TrailingLogs = 4096
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// Release ends what Config.Hold began. Repeating it is harmless.
func (s *Store) Release() { s.trans.gate.hold(false) }

func newSession() uint64 {
	var b [8]byte
	if _, err := rand.Read(b[:]); err != nil {
		panic(err) // crypto/rand never fails on the systems that Go supports
	}
	return max(binary.BigEndian.Uint64(b[:]), 1)
}

// Close leaves the group's work without leaving the group, and waits for everything that the Store started. Callers of
// Propose get ErrClosed.
func (s *Store) Close() error {
	s.cancel()
	s.over.Store(true)
	err := s.raft.Shutdown().Error()
	terr := s.trans.close()
	s.wg.Wait()
	return errors.Join(err, terr, s.bolt.Close())
}

// View calls fn with the state under a read lock. fn must be quick and must not call Propose, Subscribe or View. What the state
// hands out may be kept.
func (s *Store) View(fn func(*state.State)) { s.fsm.view(fn) }

// Subscribe calls fn at once with a Reset, and from then on with every change, in order, before Propose returns for it on
// this node. fn runs on the goroutine that applies the log: it must not block and must not call Propose; it may call View.
func (s *Store) Subscribe(fn func(index uint64, changes []state.Change)) { s.fsm.subscribe(fn) }

// Applied is the index of the newest command that is applied here and that all subscribers have been told of.
func (s *Store) Applied() (index uint64) {
	s.fsm.mu.RLock()
	defer s.fsm.mu.RUnlock()
	return s.fsm.told
}

// WaitApplied waits until the command at index, as found in a Result, has been applied here and all subscribers have been told.
func (s *Store) WaitApplied(ctx context.Context, index uint64) error {
	for {
		s.fsm.mu.RLock()
		have, moved := s.fsm.told, s.fsm.moved
		s.fsm.mu.RUnlock()
		if have >= index {
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return fmt.Errorf("wait for metadata entry %d (at %d): %w", index, have, ctx.Err())
		case <-s.ctx.Done():
			return ErrClosed
		}
	}
}

// Leader is the node that leads the group as far as this node knows, "" if there is none, and the present term.
func (s *Store) Leader() (node string, term uint64) {
	_, id := s.raft.LeaderWithID()
	return string(id), s.raft.CurrentTerm()
}

// IsLeader says whether this node leads.
func (s *Store) IsLeader() bool { return s.raft.State() == raft.Leader }

// Member is a server of the group's configuration.
type Member struct {
	Peer
	Voter bool
}

// Members is the newest configuration known here, by name.
func (s *Store) Members() ([]Member, error) {
	f := s.raft.GetConfiguration()
	if err := f.Error(); err != nil {
		return nil, fmt.Errorf("read raft configuration: %w", err)
	}
	var out []Member
	for _, srv := range f.Configuration().Servers {
		out = append(out, Member{Peer{string(srv.ID), string(srv.Address)}, srv.Suffrage == raft.Voter})
	}
	slices.SortFunc(out, func(a, b Member) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// Voters are the names of the voters, ascending.
func (s *Store) Voters() (names []string) {
	ms, err := s.Members()
	if err != nil {
		return nil
	}
	for _, m := range ms {
		if m.Voter {
			names = append(names, m.Name)
		}
	}
	return names
}

// ServerAddr implements raft.ServerAddressProvider: where a member is reached now.
func (s *Store) ServerAddr(id raft.ServerID) (raft.ServerAddress, error) {
	if s.cfg.AddressOf != nil {
		if a := s.cfg.AddressOf(string(id)); a != "" {
			return raft.ServerAddress(a), nil
		}
	}
	return "", fmt.Errorf("no other address of %s is known", id) // then the configuration's is used
}

// shuns says whether a message comes from a node that the group was recovered without.
func (s *Store) shuns(cmd any) bool {
	h, ok := cmd.(raft.WithRPCHeader)
	if !ok || len(s.cfg.Shunned) == 0 {
		return false
	}
	header := h.GetRPCHeader()
	if !slices.Contains(s.cfg.Shunned, string(header.ID)) {
		return false
	}
	ms, err := s.Members()
	return err == nil && !slices.ContainsFunc(ms, func(m Member) bool { return m.Name == string(header.ID) })
}

func (s *Store) configured() bool {
	ms, err := s.Members()
	return err == nil && len(ms) > 0
}

// standPause is how long each further voter leaves the one before it to win the election after a leader that died.
const standPause = 150 * time.Millisecond

// ElectNow starts an election at once if this node is the voter next by name after the leader that is known to be dead
// (metadata.md, Failure detection), and says whether it did. The others stand one after the other if they have heard of no new
// leader: the first cannot win if it lacks an entry that another has. The caller must be sure that the leader's process is gone;
// if it is not, the election costs a change of leader and nothing else.
func (s *Store) ElectNow(dead string) bool {
	leader, _ := s.Leader()
	ms, err := s.Members()
	if err != nil || leader != dead || dead == s.cfg.Self {
		return false
	}
	rank := 0
	for next := nextVoter(ms, dead); next != s.cfg.Self; next = nextVoter(ms, next) {
		if rank++; rank > len(ms) {
			return false // no voter
		}
	}
	if rank > 0 {
		s.wg.Go(func() { s.standLater(dead, time.Duration(rank)*standPause) })
		return false
	}
	s.log.Info("the leader is dead, standing for election at once", "dead", dead)
	s.trans.timeoutNow(s.header())
	return true
}

// standLater stands for election unless there is a leader after a while.
func (s *Store) standLater(dead string, pause time.Duration) {
	select {
	case <-time.After(pause):
	case <-s.ctx.Done():
		return
	}
	if leader, _ := s.Leader(); leader == dead || leader == "" {
		s.log.Info("the leader is dead and nobody was elected yet, standing for election", "dead", dead)
		s.trans.timeoutNow(s.header())
	}
}

// nextVoter is the voter that follows after by name, around the end of the list.
func nextVoter(ms []Member, after string) string {
	first, next := "", ""
	for _, m := range ms {
		if !m.Voter || m.Name == after {
			continue
		}
		if first == "" {
			first = m.Name
		}
		if next == "" && m.Name > after {
			next = m.Name
		}
	}
	if next == "" {
		return first
	}
	return next
}

func (s *Store) header() raft.RPCHeader {
	return raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(s.cfg.Self),
		Addr: s.trans.EncodePeer(raft.ServerID(s.cfg.Self), raft.ServerAddress(s.cfg.Addr))}
}
