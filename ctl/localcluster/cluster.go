package localcluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"warren/ctl/locate"
)

// Limits and first ports.
const (
	MaxNodes       = 16
	amqpPort       = 5672
	internodePort  = locate.InternodePort
	largestPort    = 65535
	layoutVersion  = 1
	maxLayoutBytes = 4096
)

// Layout is what a cluster is: it is fixed at the first start.
type Layout struct {
	Version    int `json:"version"`
	Nodes      int `json:"nodes"`
	PortOffset int `json:"port_offset"`
}

// Cluster is a local cluster in a directory. Its methods are for one goroutine; other processes may work on the same
// directory at the same time.
type Cluster struct {
	dir    string
	layout Layout
}

// Node is one node of a local cluster.
type Node struct {
	I             int // from 1
	Name          string
	AMQPPort      int
	InternodePort int
	Dir           string
	CookieFile    string
}

// ErrNoCluster: the directory holds no cluster.
var ErrNoCluster = errors.New("no cluster there")

// Open opens the cluster that is in dir. Error: ErrNoCluster, or the directory is damaged.
func Open(dir string) (*Cluster, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("open the cluster in %s: %w", dir, err)
	}
	file := filepath.Join(dir, "cluster.json")
	content, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("open the cluster in %s: %w", dir, ErrNoCluster)
	}
	if err != nil {
		return nil, fmt.Errorf("open the cluster in %s: %w", dir, err)
	}
	var l Layout
	if len(content) > maxLayoutBytes {
		return nil, fmt.Errorf("open the cluster in %s: %s has %d bytes", dir, file, len(content))
	}
	if err := json.Unmarshal(content, &l); err != nil {
		return nil, fmt.Errorf("open the cluster in %s: %s: %w", dir, file, err)
	}
	if l.Version != layoutVersion {
		return nil, fmt.Errorf("open the cluster in %s: layout version %d is unknown, %d is expected", dir, l.Version, layoutVersion)
	}
	if err := l.check(); err != nil {
		return nil, fmt.Errorf("open the cluster in %s: %w", dir, err)
	}
	return &Cluster{dir: dir, layout: l}, nil
}

// Create opens the cluster in dir, or makes one. A layout other than that of the cluster there is an error. Nothing is started.
func Create(dir string, nodes, portOffset int) (*Cluster, error) {
	want := Layout{Version: layoutVersion, Nodes: nodes, PortOffset: portOffset}
	if err := want.check(); err != nil {
		return nil, err
	}
	c, err := Open(dir)
	if err == nil {
		if c.layout != want {
			return nil, fmt.Errorf("%s holds a cluster of %d nodes with port offset %d; use these numbers, or another directory",
				c.dir, c.layout.Nodes, c.layout.PortOffset)
		}
		return c, nil
	}
	if !errors.Is(err, ErrNoCluster) {
		return nil, err
	}
	dir, err = filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("make a cluster in %s: %w", dir, err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make a cluster in %s: %w", dir, err)
	}
	content, err := json.Marshal(want)
	if err != nil {
		return nil, fmt.Errorf("make a cluster in %s: %w", dir, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "cluster.json"), append(content, '\n'), 0o644); err != nil {
		return nil, fmt.Errorf("make a cluster in %s: %w", dir, err)
	}
	return &Cluster{dir: dir, layout: want}, nil
}

func (l Layout) check() error {
	switch {
	case l.Nodes < 1 || l.Nodes > MaxNodes:
		return fmt.Errorf("a local cluster has 1 to %d nodes, not %d", MaxNodes, l.Nodes)
	case l.PortOffset < 0 || internodePort+l.PortOffset+l.Nodes-1 > largestPort:
		return fmt.Errorf("with port offset %d the ports of %d nodes are not between 1 and %d", l.PortOffset, l.Nodes, largestPort)
	}
	return nil
}

// Layout says how large the cluster is and where it listens.
func (c *Cluster) Layout() Layout { return c.layout }

// Dir is the cluster's directory, absolute.
func (c *Cluster) Dir() string { return c.dir }

// Nodes are all nodes, in order.
func (c *Cluster) Nodes() []Node {
	nodes := make([]Node, c.layout.Nodes)
	for i := range nodes {
		nodes[i] = c.node(i + 1)
	}
	return nodes
}

// Node is the I-th node, from 1. Error: there is none.
func (c *Cluster) Node(i int) (Node, error) {
	if i < 1 || i > c.layout.Nodes {
		return Node{}, fmt.Errorf("there is no node %d in %s: the cluster has %d", i, c.dir, c.layout.Nodes)
	}
	return c.node(i), nil
}

func (c *Cluster) node(i int) Node {
	name := "rabbit" + strconv.Itoa(i)
	return Node{
		I:             i,
		Name:          name + "@localhost",
		AMQPPort:      amqpPort + c.layout.PortOffset + i - 1,
		InternodePort: internodePort + c.layout.PortOffset + i - 1,
		Dir:           filepath.Join(c.dir, name),
		CookieFile:    filepath.Join(c.dir, locate.CookieName),
	}
}

// DataDir is the node's data directory.
func (n Node) DataDir() string { return filepath.Join(n.Dir, "data") }

// ConfigFile is the node's configuration.
func (n Node) ConfigFile() string { return filepath.Join(n.Dir, "rabbitmq.conf") }

// ExtraConfigFile is what a user adds to the node's configuration; it need not exist.
func (n Node) ExtraConfigFile() string { return filepath.Join(n.Dir, "extra.conf") }

// LogFile is where the node's output goes.
func (n Node) LogFile() string { return filepath.Join(n.Dir, "log") }

// PIDFile names the node's process.
func (n Node) PIDFile() string { return filepath.Join(n.Dir, "pid") }

// InternodeAddress is where the node's inter-node listener is.
func (n Node) InternodeAddress() string { return loopback(n.InternodePort) }

// URI is where clients connect.
func (n Node) URI() string { return "amqp://guest:guest@" + loopback(n.AMQPPort) }

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// config is the text of a node's rabbitmq.conf.
func (c *Cluster) config(n Node) string {
	var b strings.Builder
	b.WriteString("# Written by \"warren cluster\" at each start; changes are lost: put them into extra.conf beside it.\n")
	fmt.Fprintf(&b, "listeners.tcp.1 = %s\n", loopback(n.AMQPPort))
	fmt.Fprintf(&b, "warren.internode.listen = %s\n", n.InternodeAddress())
	fmt.Fprintf(&b, "warren.internode.address = %s\n", n.InternodeAddress())
	b.WriteString("cluster_name = local\n")
	b.WriteString("cluster_partition_handling = pause_minority\n")
	b.WriteString("cluster_formation.peer_discovery_backend = classic_config\n")
	for _, peer := range c.Nodes() {
		fmt.Fprintf(&b, "cluster_formation.classic_config.nodes.%d = %s\n", peer.I, peer.Name)
		fmt.Fprintf(&b, "warren.cluster_formation.address.%d = %s\n", peer.I, peer.InternodeAddress())
	}
	return b.String()
}
