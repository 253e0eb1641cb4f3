package broker

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"warren/dataplane/backingqueue/store"
	"warren/dataplane/broker/clienttls"
	"warren/dataplane/broker/config"
	"warren/dataplane/gm/driver"
	"warren/dataplane/link"
	"warren/metadata/detector"
	"warren/metadata/raftstore"
	"warren/metadata/state"
)

// Config is what a node is started with.
type Config struct {
	*config.Config
	Node    string // full name, name@host
	DataDir string
	Cookie  []byte
	Version string
	Log     *slog.Logger
	// Admin serves a connection of an operator's tool to the node; it returns when the connection is done.
	Admin func(*Node, net.Conn)
}

// Node is one node. Start makes it, Run serves until it is told to stop.
type Node struct {
	cfg   Config
	log   *slog.Logger
	data  *dataDir
	began time.Time

	links      *link.Transport
	meta       *raftstore.Store
	store      *store.Store
	host       *driver.Host
	detector   *detector.Detector
	alarms     *alarms
	clientTLS  *clienttls.Files // nil: no listener has TLS
	members    *members
	shunned    []string       // nodes that the cluster was recovered without; fixed
	remembered []storedMember // what the file of members holds; keepPeers alone uses it

	incarnation atomic.Uint64
	clusterID   atomic.Pointer[string]
	next        atomic.Uint32
	stopAsked   chan struct{} // closed by Stop
	stopOnce    sync.Once
	fatal       chan error // a failed disk; the node must stop

	// applyMu orders the metadata's changes and the beginning and end of lives.
	applyMu sync.Mutex
	life    *life
	present atomic.Pointer[life] // the same, for readers that do not wait

	rebalancing sync.Mutex
	happenings  happenings
	logins      logins

	pauseMu sync.Mutex
	paused  string // why this node serves no clients
}

// ErrStopped: the node is stopping.
var ErrStopped = errors.New("node is stopping")

// Start opens everything that a node needs and begins to take part in its cluster. An error is one line that says what
// could not be had; nothing is left running then.
func Start(cfg Config) (*Node, error) {
	n := &Node{
		cfg: cfg, log: cfg.Log.With("node", cfg.Node), began: time.Now(),
		stopAsked: make(chan struct{}), fatal: make(chan error, 1),
	}
	n.alarms = newAlarms(n)
	n.members = newMembers(n)
	empty := ""
	n.clusterID.Store(&empty)
	if err := n.openClientTLS(); err != nil {
		return nil, err
	}
	if err := n.tryListen(); err != nil {
		return nil, err
	}
	if err := n.open(); err != nil {
		return nil, errors.Join(err, n.closeAll())
	}
	return n, nil
}

func (n *Node) open() (err error) {
	if n.data, err = openDataDir(n.cfg.DataDir, n.cfg.Node); err != nil {
		return err
	}
	n.shunned = n.data.id.Shunned
	incarnation, err := n.data.nextIncarnation()
	if err != nil {
		return err
	}
	n.incarnation.Store(incarnation)
	links := link.Config{
		Addr: n.cfg.Internode.Listen.Address(), Node: n.cfg.Node, Cookie: n.cfg.Cookie, Hello: n.hello, Log: n.cfg.Log,
	}
	if t := n.cfg.Internode.TLS; t.On() {
		files := link.TLSFiles{CA: t.CACertFile, Cert: t.CertFile, Key: t.KeyFile}
		if links.ServerTLS, links.ClientTLS, err = files.Load(); err != nil {
			return err
		}
	}
	if n.links, err = link.New(links); err != nil {
		return err
	}
	opening := time.Now()
	if n.store, err = store.Open(store.Options{
		Dir: filepath.Join(n.cfg.DataDir, "queues"), Budget: int64(bodiesShare * float64(n.memoryLimit())), Log: n.log, OnFatal: n.failDisk, OnFlood: n.alarms.flooded,
	}); err != nil {
		return err
	}
	n.log.Info("the message store is open", "took", time.Since(opening).Round(time.Millisecond))
	n.host = driver.NewHost(n.links, driver.Config{Log: n.cfg.Log})
	n.register()
	if err := n.openMetadata(); err != nil {
		return err
	}
	n.links.Start()
	if n.holdsBack() {
		if err := n.askNewestOf(); err != nil {
			return err
		}
	}
	n.meta.Release()
	n.connect()
	return nil
}

func (n *Node) openMetadata() (err error) {
	timing := detector.DefaultTiming()
	timing.Interval = n.cfg.Timing.HeartbeatInterval
	timing.Grant = n.cfg.Timing.Lease
	timing.Lease = n.cfg.Timing.Lease * 9 / 10 // the holder's count ends first (metadata.md, never two masters)
	timing.Unreachable = n.cfg.Timing.UnreachableAfter
	n.detector = detector.New(detector.Config{
		Self: n.cfg.Node, Incarnation: n.incarnation.Load(), Clock: bootTime, Network: network{n}, Raft: raft{n},
		Events: n, Timing: timing, Logger: n.log,
	})
	init, err := n.initCluster()
	if err != nil {
		return err
	}
	cfg := raftstore.Config{
		Dir: filepath.Join(n.cfg.DataDir, "raft"), Self: n.cfg.Node, Addr: n.internodeAddress(),
		Stream: n.links.Stream(link.ProtoRaft), Peers: n.configuredPeers(), Ask: n.askStanding, Enter: n.enter,
		AddressOf: n.members.toldAddress, Join: n.data.id.Joining, Hold: n.holdsBack(), Shunned: n.shunned,
		Forward: n.forward, Prober: n.detector, Init: init, Logger: n.log,
	}
	if after := n.cfg.SnapshotAfter; after > 0 {
		// Looked at as often as the default is for the default number, which is what is measured.
		cfg.SnapshotThreshold, cfg.TrailingLogs, cfg.SnapshotInterval = after, after/2, max(time.Second, time.Duration(after)*4*time.Millisecond)
	}
	if n.meta, err = raftstore.Open(cfg); err != nil {
		return err
	}
	n.meta.Subscribe(n.applied)
	return nil
}

// initCluster is what the first leader of a new cluster proposes.
func (n *Node) initCluster() (*state.InitCluster, error) {
	var b [20]byte
	if _, err := rand.Read(b[:]); err != nil {
		return nil, fmt.Errorf("draw a cluster id: %w", err)
	}
	name := n.cfg.ClusterName
	if name == "" {
		name = n.cfg.Node
	}
	return &state.InitCluster{
		ID: hex.EncodeToString(b[4:]), Name: name, User: n.cfg.DefaultUser,
		PasswordHash: state.HashPassword([4]byte(b[:4]), string(n.cfg.DefaultPassword)), Features: state.SupportedFeatures(),
		Default: initialData(n.cfg.Config),
	}, nil
}

// initialData is nil for what a new cluster begins with by itself.
func initialData(c *config.Config) *state.InitialData {
	usual := config.Default()
	p := c.DefaultPermissions
	switch {
	case c.Definitions != "":
		return &state.InitialData{None: true}
	case c.DefaultVHost == usual.DefaultVHost && p == usual.DefaultPermissions && slices.Equal(c.DefaultUserTags, usual.DefaultUserTags):
		return nil
	}
	return &state.InitialData{
		Vhost: c.DefaultVHost, Tags: c.DefaultUserTags, Permission: state.Permission{Configure: p.Configure, Write: p.Write, Read: p.Read},
	}
}

// failDisk is the store's OnFatal: the node stops rather than tell an untruth.
func (n *Node) failDisk(err error) {
	select {
	case n.fatal <- err:
	default:
	}
}

func (n *Node) internodeAddress() string { return internodeAddress(n.cfg) }

func internodeAddress(cfg Config) string {
	if cfg.Internode.Address != "" {
		return cfg.Internode.Address
	}
	return net.JoinHostPort(hostOf(cfg.Node), strconv.Itoa(int(cfg.Internode.Listen.Port)))
}

func (n *Node) configuredPeers() []raftstore.Peer {
	var peers []raftstore.Peer
	for _, p := range n.cfg.Peers {
		peers = append(peers, raftstore.Peer{Name: p.Node, Addr: p.Address})
	}
	return peers
}

// Stop asks the node to stop in good order; Run returns when it has. It may be called from any goroutine, repeatedly.
func (n *Node) Stop() { n.stopOnce.Do(func() { close(n.stopAsked) }) }

// StopApp is Stop, after which Next is NextStopped.
func (n *Node) StopApp() {
	n.next.Store(uint32(NextStopped))
	n.Stop()
}

// Next is what Run's end is to be followed by.
func (n *Node) Next() Next { return Next(n.next.Load()) }

// Run serves until ctx ends or Stop is called, and then stops in good order: masters are handed over, clients closed. It
// returns nil then, and the reason if the node had to stop by itself (a failed disk). Nothing of the node runs afterwards.
func (n *Node) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var background sync.WaitGroup
	detecting, stopDetecting := context.WithCancel(context.Background())
	background.Go(func() { n.detector.Run(detecting) })
	background.Go(func() { n.keepPeers(detecting) })
	background.Go(func() { n.alarms.watch(detecting) })
	background.Go(func() {
		select {
		case <-n.stopAsked:
			cancel()
		case <-detecting.Done():
		}
	})
	err := n.live(ctx)
	stopDetecting()
	background.Wait()
	n.rememberMembers()
	return errors.Join(err, n.closeAll())
}

// live leads one life after the other. A life that ends for an inner reason is followed by another after a pause that grows, so
// that a fault that comes back does not make the cluster busy with this node alone.
func (n *Node) live(ctx context.Context) error {
	pause := 100 * time.Millisecond
	for {
		l := newLife(n)
		start := time.Now()
		err := l.run(ctx)
		var disk *diskError
		var unwelcome *UnwelcomeError
		switch {
		case ctx.Err() != nil, errors.As(err, &disk):
			return l.end(err)
		case errors.As(err, &unwelcome):
			return errors.Join(err, l.end(err))
		}
		n.log.Warn("this incarnation is over; the node begins anew as a member without masters",
			"incarnation", l.self.Incarnation, "reason", err)
		if err := l.end(err); err != nil {
			return err
		}
		if time.Since(start) > time.Minute {
			pause = 100 * time.Millisecond
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil
		}
		pause = min(2*pause, 10*time.Second)
		if err := n.renew(); err != nil {
			return err
		}
	}
}

// renew takes a new incarnation.
func (n *Node) renew() error {
	incarnation, err := n.data.nextIncarnation()
	if err != nil {
		return err
	}
	n.incarnation.Store(incarnation)
	n.links.Rehello()
	n.detector.Renew(incarnation)
	return nil
}

func (n *Node) closeAll() error {
	var errs []error
	if n.host != nil {
		n.host.Close()
	}
	if n.meta != nil {
		errs = append(errs, n.meta.Close())
	}
	if n.links != nil {
		errs = append(errs, n.links.Close())
	}
	if n.store != nil {
		errs = append(errs, n.store.Close())
	}
	if n.data != nil {
		n.data.close()
	}
	return errors.Join(errs...)
}

// applied follows the metadata: it is called in the order of the Raft log and must not block.
func (n *Node) applied(index uint64, changes []state.Change) {
	n.applyMu.Lock()
	defer n.applyMu.Unlock()
	reset := false
	for _, c := range changes {
		reset = reset || c.Kind == state.Reset
	}
	n.meta.View(func(s *state.State) {
		if id := s.ClusterID(); id != *n.clusterID.Load() {
			n.clusterID.Store(&id)
		}
		if reset {
			for _, node := range s.Nodes() {
				n.detector.SetNode(node)
			}
		}
	})
	if n.life == nil {
		// Between lives, and after the farewell, it is no news to this node that its incarnation is down.
		changes = slices.DeleteFunc(slices.Clone(changes), func(c state.Change) bool {
			return c.Kind == state.NodeChanged && c.Node.Name == n.cfg.Node && !c.Node.Status.Up()
		})
	}
	n.detector.Apply(changes)
	if n.life != nil {
		n.life.apply(index, changes)
	}
}

// Deposed implements detector.Events.
func (n *Node) Deposed(incarnation uint64) {
	// The detector calls while applyMu is held by applied, or from its own goroutines; the life's end is asked for in
	// either case without waiting.
	if l := n.currentLife(); l != nil && l.self.Incarnation == incarnation {
		l.fail(errDeposed)
	}
}

var errDeposed = errors.New("this incarnation was declared down by the cluster")

// Pause implements detector.Events.
func (n *Node) Pause(paused bool, why string) {
	n.pauseMu.Lock()
	n.paused = ""
	if paused {
		n.paused = why
	}
	n.pauseMu.Unlock()
	if l := n.currentLife(); l != nil {
		l.pauseChanged()
	}
}

// Paused says why this node serves no clients at present, or is empty.
func (n *Node) Paused() string {
	n.pauseMu.Lock()
	defer n.pauseMu.Unlock()
	return n.paused
}
