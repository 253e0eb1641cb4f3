package node

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"warren/ctl/admin"
	"warren/dataplane/broker"
	"warren/dataplane/broker/config"
	"warren/metadata/raftstore"
	"warren/metadata/state"
)

// Status implements admin.Node.
func (a *adapter) Status(context.Context) (admin.NodeStatus, error) {
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	s := admin.NodeStatus{
		Name: a.cfg.Node, Version: a.cfg.Version, GoVersion: runtime.Version(), OS: runtime.GOOS + "/" + runtime.GOARCH,
		PID: os.Getpid(), Uptime: a.n.Uptime(), Running: a.n.Ready() || a.n.InMaintenance() && a.n.Paused() == "",
		State: "running", Maintenance: a.n.InMaintenance(),
		DataDir: a.cfg.DataDir, RaftDir: filepath.Join(a.cfg.DataDir, "raft"),
		MemoryTotal: mem.Sys - mem.HeapReleased,
		MemoryBreakdown: []admin.MemoryShare{
			{Name: "heap_in_use", Bytes: mem.HeapInuse}, {Name: "heap_idle", Bytes: mem.HeapIdle - mem.HeapReleased},
			{Name: "stacks", Bytes: mem.StackInuse}, {Name: "runtime", Bytes: mem.Sys - mem.HeapSys - mem.StackInuse},
		},
		Goroutines: uint64(runtime.NumGoroutine()), Connections: uint64(len(a.n.Connections())), Listeners: a.listeners(),
	}
	if a.cfg.ConfigFile != "" {
		s.ConfigFiles = []string{a.cfg.ConfigFile}
	}
	switch {
	case a.n.Paused() != "":
		s.State = "paused"
	case !s.Running:
		s.State = "starting"
	}
	a.n.View(func(st *state.State) {
		s.VHosts, s.Queues = uint64(len(st.Vhosts())), uint64(len(st.Queues()))
	})
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err == nil {
		s.FilesLimit = files.Cur
	}
	s.FilesUsed, s.SocketsUsed = openFiles("/proc/self/fd")
	s.SocketsLimit = s.FilesLimit
	r, err := a.n.Resources()
	if err != nil {
		return s, err
	}
	memory, _ := a.n.Limits()
	s.MemoryTotal, s.MemoryLimit, s.MemoryLimitSetting = r.Memory, r.MemoryLimit, setting(memory)
	s.DiskFree, s.DiskFreeLimit = r.DiskFree, r.DiskFreeLimit
	for _, alarm := range a.n.Alarms() {
		if alarm.Node == a.cfg.Node {
			s.Alarms = append(s.Alarms, alarmText(alarm))
		}
	}
	return s, nil
}

// openFiles counts the descriptors in a directory of /proc, and those of them that are sockets.
func openFiles(dir string) (files, sockets uint64) {
	open, err := os.ReadDir(dir)
	if err != nil {
		return 0, 0
	}
	for _, e := range open {
		if to, err := os.Readlink(filepath.Join(dir, e.Name())); err == nil && strings.HasPrefix(to, "socket:") {
			sockets++
		}
	}
	return uint64(len(open)), sockets
}

func setting(l config.Limit) string {
	if l.Absolute > 0 {
		return strconv.FormatUint(l.Absolute, 10)
	}
	return fmt.Sprintf("%v of available memory", l.Relative)
}

// alarmText is RabbitMQ's line for an alarm.
func alarmText(a broker.Alarm) string { return fmt.Sprintf("%s alarm on node %s", a.Resource, a.Node) }

// RabbitMQ's words for what listeners are for.
const (
	purposeAMQP  = "AMQP 0-9-1"
	purposeAMQPS = "AMQP 0-9-1 over TLS"
)

// listeners are this node's own.
func (a *adapter) listeners() []admin.Listener {
	in := a.cfg.Config.Internode.Listen
	out := []admin.Listener{a.listener(in, "clustering", "inter-node and CLI tool communication")}
	if a.n.Serving() {
		for _, l := range a.cfg.Config.Listeners {
			out = append(out, a.listener(l, "amqp", purposeAMQP))
		}
		for _, l := range a.cfg.Config.SSLListeners {
			out = append(out, a.listener(l, "amqp/ssl", purposeAMQPS))
		}
	}
	return out
}

func (a *adapter) listener(l config.Listener, protocol, purpose string) admin.Listener {
	host := l.Host
	if host == "" {
		host = "[::]"
	}
	return admin.Listener{Node: a.cfg.Node, Interface: host, Port: l.Port, Protocol: protocol, Purpose: purpose}
}

// ClusterStatus implements admin.Node. It answers from what this node knows, with or without a leader.
func (a *adapter) ClusterStatus(context.Context) (admin.ClusterStatus, error) {
	members, err := a.n.Members()
	if err != nil {
		return admin.ClusterStatus{}, fmt.Errorf("read the members of the metadata group: %w", err)
	}
	leader := a.n.Leader()
	s := admin.ClusterStatus{FeatureFlags: a.featureFlags(), Node: a.cfg.Node, HasLeader: leader != "", Paused: a.n.Paused(), Listeners: a.listeners()}
	a.n.View(func(st *state.State) {
		s.ClusterName = st.ClusterName()
		for _, m := range members {
			n, ok := st.Node(m.Name)
			if !ok {
				n = &state.Node{Name: m.Name, Addresses: state.Addresses{Internode: m.Addr}, Status: state.NodeDown}
			}
			s.Nodes = append(s.Nodes, nodeInfo(n, m, leader))
			if ok && n.Status.Up() && m.Name != a.cfg.Node {
				s.Listeners = append(s.Listeners, remoteListeners(n)...)
			}
		}
	})
	for _, alarm := range a.n.Alarms() {
		s.Alarms = append(s.Alarms, admin.NodeText{Node: alarm.Node, Text: alarmText(alarm)})
	}
	for _, n := range s.Nodes {
		if n.Name != a.cfg.Node && n.Running() && !a.n.Reachable(n.Name) {
			s.Unreachable = append(s.Unreachable, admin.NodeText{Node: n.Name, Text: "no heartbeat from it for a second"})
		}
	}
	return s, nil
}

func nodeInfo(n *state.Node, m raftstore.Member, leader string) admin.NodeInfo {
	return admin.NodeInfo{
		Name: n.Name, Address: n.Addresses.Internode, Version: n.Versions.Software, Status: n.Status.String(),
		Incarnation: n.Incarnation, Voter: m.Voter, Witness: n.Witness, Leader: n.Name == leader,
	}
}

// remoteListeners are those that another node told the cluster of.
func remoteListeners(n *state.Node) []admin.Listener {
	var out []admin.Listener
	for _, l := range []struct{ addr, protocol, purpose string }{
		{n.Addresses.Internode, "clustering", "inter-node and CLI tool communication"},
		{n.Addresses.AMQP, "amqp", purposeAMQP},
		{n.Addresses.AMQPS, "amqp/ssl", purposeAMQPS},
	} {
		host, port, err := net.SplitHostPort(l.addr)
		if err != nil {
			continue
		}
		if host == "" {
			host = "[::]"
		}
		number, _ := strconv.ParseUint(port, 10, 16)
		out = append(out, admin.Listener{Node: n.Name, Interface: host, Port: uint16(number), Protocol: l.protocol, Purpose: l.purpose})
	}
	return out
}
