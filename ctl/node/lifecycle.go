package node

import (
	"context"
	"errors"
	"net"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"warren/ctl/admin"
	"warren/ctl/locate"
	"warren/dataplane/broker"
	"warren/dataplane/broker/config"
	"warren/metadata/raftstore"
	"warren/metadata/state"
)

// stoppedState is the State of a node whose application is stopped.
const stoppedState = "stopped"

var errRuns = admin.Errorf(admin.CodeRefused, "the application runs; stop it with stop_app first")

// StopApp implements admin.Node.
func (a *adapter) StopApp(context.Context) error {
	a.n.StopApp()
	return nil
}

// StartApp implements admin.Node.
func (a *adapter) StartApp(context.Context) error { return nil }

// Reset implements admin.Node.
func (a *adapter) Reset(context.Context, bool) error { return errRuns }

// JoinCluster implements admin.Node.
func (a *adapter) JoinCluster(context.Context, string) error { return errRuns }

// ForgetNode implements admin.Node.
func (a *adapter) ForgetNode(ctx context.Context, node string) error {
	err := a.n.ForgetNode(ctx, node)
	switch {
	case errors.Is(err, broker.ErrNotMember):
		return admin.Errorf(admin.CodeNotFound, "%v", err)
	case errors.Is(err, broker.ErrStillUp):
		return admin.Errorf(admin.CodeInUse, "%v", err)
	}
	return refusal(err)
}

// Drain implements admin.Node.
func (a *adapter) Drain(ctx context.Context) error { return refusal(a.n.Drain(ctx)) }

// Revive implements admin.Node.
func (a *adapter) Revive(ctx context.Context) error { return refusal(a.n.Revive(ctx)) }

// CriticalQueues implements admin.Node.
func (a *adapter) CriticalQueues(context.Context) (out admin.CriticalQueues, _ error) {
	queues, alone := a.n.Critical()
	out.Alone = alone
	for _, q := range queues {
		out.Queues = append(out.Queues, admin.QueueName{VHost: q.Vhost, Name: q.Name})
	}
	return out, nil
}

// EnableFeature implements admin.Node.
func (a *adapter) EnableFeature(ctx context.Context, name string) error {
	names := []string{name}
	switch {
	case name == "all":
		names = state.SupportedFeatures()
	case slices.ContainsFunc(historicFlags(), func(f admin.FeatureFlag) bool { return f.Name == name }):
		return nil
	case !slices.Contains(state.SupportedFeatures(), name):
		return admin.Errorf(admin.CodeNotFound, "%s", name)
	}
	_, err := a.n.Propose(ctx, &state.EnableFeature{Names: names})
	return refusal(err)
}

// historicFlags are RabbitMQ's flags, which scripts look for; what they stand for is always there, or never (quorum_queue).
func historicFlags() []admin.FeatureFlag {
	flag := func(name, text string) admin.FeatureFlag {
		return admin.FeatureFlag{Name: name, State: "enabled", Stability: "stable", Description: text}
	}
	return []admin.FeatureFlag{
		flag("classic_mirrored_queue_version", "Support setting version for classic mirrored queues"),
		flag("drop_unroutable_metric", "Count unroutable publishes to be dropped in stats"),
		flag("empty_basic_get_metric", "Count AMQP `basic.get` on empty queues in stats"),
		flag("implicit_default_bindings", "Default bindings are now implicit, instead of being stored in the database"),
		flag("maintenance_mode_status", "Maintenance mode status"),
		flag("quorum_queue", "Support queues of type `quorum`"),
		flag("stream_queue", "Support queues of type `stream`"),
		flag("user_limits", "Configure connection and channel limits for a user"),
		flag("virtual_host_metadata", "Virtual host metadata (description, tags, etc)"),
	}
}

// featureFlags are RabbitMQ's and our own, by name.
func (a *adapter) featureFlags() []admin.FeatureFlag {
	flags := historicFlags()
	texts := map[string]string{
		state.FeatureLifecycle: "Maintenance mode and removal of nodes",
		state.FeatureQuorum:    "Declarations of quorum queues become mirrored queues",
		state.FeatureOperators: "Limits, topic permissions, global parameters, promotion by hand",
	}
	for name, enabled := range a.n.Features() {
		f := admin.FeatureFlag{Name: name, State: "disabled", Stability: "stable", Description: texts[name]}
		if enabled {
			f.State = "enabled"
		}
		flags = append(flags, f)
	}
	slices.SortFunc(flags, func(a, b admin.FeatureFlag) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	return flags
}

// stopped is a node whose application is stopped, as the admin protocol sees it. Requests that Allow does not let through
// do not reach the nil Node.
type stopped struct {
	refusing
	process
	s *broker.Stopped
}

// refusing has the methods that process has not; those of process are nearer.
type refusing struct{ admin.Node }

var _ admin.Gate = (*stopped)(nil)

// Allow implements admin.Gate.
func (p *stopped) Allow(request string) error {
	if admin.AllowedStopped(request) {
		return nil
	}
	return admin.Errorf(admin.CodeUnavailable, "the application is stopped on this node; start it with start_app")
}

// Status implements admin.Node.
func (p *stopped) Status(context.Context) (admin.NodeStatus, error) {
	return admin.NodeStatus{
		Name: p.cfg.Node, Version: p.cfg.Version, GoVersion: runtime.Version(), OS: runtime.GOOS + "/" + runtime.GOARCH,
		PID: os.Getpid(), State: stoppedState, DataDir: p.cfg.DataDir,
	}, nil
}

// ClusterStatus implements admin.Node: the members that the node knew, none of which it can see.
func (p *stopped) ClusterStatus(context.Context) (admin.ClusterStatus, error) {
	members, err := p.s.Members()
	s := admin.ClusterStatus{Node: p.cfg.Node, Paused: "its application is stopped"}
	for _, m := range members {
		s.Nodes = append(s.Nodes, admin.NodeInfo{Name: m.Name, Address: m.Addr, Voter: m.Voter, Status: "unknown"})
	}
	if len(members) == 0 {
		s.Nodes = []admin.NodeInfo{{Name: p.cfg.Node, Status: stoppedState}}
	}
	return s, err
}

// Stop implements admin.Node.
func (p *stopped) Stop(context.Context) error {
	p.s.Stop()
	return nil
}

// StopApp implements admin.Node.
func (p *stopped) StopApp(context.Context) error { return nil }

// StartApp implements admin.Node.
func (p *stopped) StartApp(context.Context) error {
	p.s.StartApp()
	return nil
}

// Reset implements admin.Node.
func (p *stopped) Reset(ctx context.Context, force bool) error {
	return membershipRefusal(p.s.Reset(ctx, force))
}

// JoinCluster implements admin.Node.
func (p *stopped) JoinCluster(ctx context.Context, node string) error {
	return membershipRefusal(p.s.Join(ctx, raftstore.Peer{Name: node, Addr: p.addressOf(node)}))
}

// addressOf finds the inter-node address of a node: in the configuration, among the nodes of this machine, or by its name.
func (p *stopped) addressOf(node string) string {
	for _, peer := range p.cfg.Config.Peers {
		if peer.Node == node {
			return peer.Address
		}
	}
	if e, err := locate.UserRegistry(os.Getenv).Find(node); err == nil {
		return e.Address
	}
	return net.JoinHostPort(hostOf(node), strconv.Itoa(config.DefaultInternodePort))
}

func hostOf(node string) string {
	_, host, _ := strings.Cut(node, "@")
	return host
}

func membershipRefusal(err error) error {
	var unreachable *broker.UnreachableError
	switch {
	case errors.Is(err, broker.ErrItself):
		return admin.Errorf(admin.CodeRefused, "Error: %v", err)
	case errors.Is(err, broker.ErrAlreadyMember):
		return admin.Errorf(admin.CodeAlreadyExists, "The node is already a member of this cluster")
	case errors.As(err, &unreachable):
		return admin.Errorf(admin.CodeUnreachable, "%v", unreachable.Err)
	}
	return err
}
