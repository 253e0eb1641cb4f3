package command

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"slices"
	"testing"

	"warren/ctl/admin"
)

// fakeNode is a node with the state that a recorded session was made in.
type fakeNode struct {
	admin.Node // what a test does not expect to be called

	status    admin.NodeStatus
	cluster   admin.ClusterStatus
	vhosts    []string
	policies  []admin.PolicyInfo
	queues    []admin.QueueInfo
	exchanges []admin.ExchangeInfo
	bindings  []admin.BindingInfo
	users     []admin.UserInfo
	invalid   map[string]string // policy definition or pattern → the validator's text
	stopped   bool
	critical  []admin.QueueName
	queueErr  error // at the end of ListQueues
	hang      bool  // Status never answers

	strict      bool // policies are checked as a node does
	operators   []admin.PolicyInfo
	transferred admin.QueueOnNode
	plan        admin.PromotionPlan
	promoted    admin.PromotionPlan
	aside       []admin.AsideSet
	salvage     admin.Salvage
	damage      string
	byHand      error
	masters     []admin.NodeMasters
}

func (f *fakeNode) Status(ctx context.Context) (admin.NodeStatus, error) {
	if f.hang {
		<-ctx.Done()
		return admin.NodeStatus{}, ctx.Err()
	}
	if f.stopped {
		return admin.NodeStatus{}, admin.Errorf(admin.CodeUnavailable, "stopping")
	}
	return f.status, nil
}

func (f *fakeNode) ClusterStatus(context.Context) (admin.ClusterStatus, error) { return f.cluster, nil }

func (f *fakeNode) Stop(context.Context) error {
	f.stopped = true
	return nil
}

func (f *fakeNode) SetPolicy(_ context.Context, p admin.PolicyInfo) error {
	if !slices.Contains(f.vhosts, p.VHost) {
		return admin.Errorf(admin.CodeNoSuchVHost, "%s", p.VHost)
	}
	if f.strict {
		if _, err := checkedPolicy(f, p, false); err != nil {
			return err
		}
	}
	for _, key := range []string{p.Definition, p.Pattern, p.ApplyTo} {
		if text, ok := f.invalid[key]; ok {
			return admin.Errorf(admin.CodeValidation, "%s", text)
		}
	}
	var definition map[string]any
	if err := json.Unmarshal([]byte(p.Definition), &definition); err != nil {
		return err
	}
	sorted, err := json.Marshal(definition)
	if err != nil {
		return err
	}
	p.Definition = string(sorted)
	f.policies = slices.DeleteFunc(f.policies, func(o admin.PolicyInfo) bool { return o.VHost == p.VHost && o.Name == p.Name })
	f.policies = append(f.policies, p)
	slices.SortStableFunc(f.policies, func(a, b admin.PolicyInfo) int { return int(a.Priority - b.Priority) })
	return nil
}

func (f *fakeNode) ClearPolicy(_ context.Context, vhost, name string) error {
	before := len(f.policies)
	f.policies = slices.DeleteFunc(f.policies, func(o admin.PolicyInfo) bool { return o.VHost == vhost && o.Name == name })
	if len(f.policies) == before {
		return admin.Errorf(admin.CodeNotFound, "policy %s", name)
	}
	return nil
}

func (f *fakeNode) ListPolicies(_ context.Context, vhost string) ([]admin.PolicyInfo, error) {
	if !slices.Contains(f.vhosts, vhost) {
		return nil, admin.Errorf(admin.CodeNoSuchVHost, "%s", vhost)
	}
	var all []admin.PolicyInfo
	for _, p := range f.policies {
		if p.VHost == vhost {
			all = append(all, p)
		}
	}
	return all, nil
}

func (f *fakeNode) ListQueues(_ context.Context, q admin.QueueQuery, row func(admin.QueueInfo) error) error {
	for _, info := range f.queues {
		down := info.State == "down"
		switch {
		case info.VHost != q.VHost, q.Offline && !down, q.Online && down, q.Local && info.Node != f.cluster.Node:
			continue
		}
		if err := row(info); err != nil {
			return err
		}
	}
	return f.queueErr
}

func (f *fakeNode) find(vhost, name string) (admin.QueueInfo, error) {
	for _, q := range f.queues {
		if q.VHost == vhost && q.Name == name {
			return q, nil
		}
	}
	return admin.QueueInfo{}, admin.Errorf(admin.CodeNotFound, "queue %s", name)
}

func (f *fakeNode) DeleteQueue(_ context.Context, d admin.QueueDeletion) (uint64, error) {
	q, err := f.find(d.VHost, d.Name)
	switch {
	case err != nil:
		return 0, err
	case d.IfEmpty && q.MessagesReady > 0:
		return 0, &admin.Error{Code: admin.CodeNotEmpty}
	case d.IfUnused && q.Consumers > 0:
		return 0, &admin.Error{Code: admin.CodeInUse}
	}
	f.queues = slices.DeleteFunc(f.queues, func(o admin.QueueInfo) bool { return o.VHost == d.VHost && o.Name == d.Name })
	return q.MessagesReady, nil
}

func (f *fakeNode) PurgeQueue(_ context.Context, vhost, name string) (uint64, error) {
	if _, err := f.find(vhost, name); err != nil {
		return 0, err
	}
	for i := range f.queues {
		if q := &f.queues[i]; q.VHost == vhost && q.Name == name {
			q.Messages, q.MessagesReady = 0, 0
		}
	}
	return 0, nil
}

func (f *fakeNode) ListExchanges(_ context.Context, vhost string) ([]admin.ExchangeInfo, error) {
	return slices.DeleteFunc(slices.Clone(f.exchanges), func(x admin.ExchangeInfo) bool { return x.VHost != vhost }), nil
}

func (f *fakeNode) ListBindings(_ context.Context, vhost string) ([]admin.BindingInfo, error) {
	return slices.DeleteFunc(slices.Clone(f.bindings), func(b admin.BindingInfo) bool { return b.VHost != vhost }), nil
}

func (f *fakeNode) ListVHosts(context.Context) ([]admin.VHostInfo, error) {
	var all []admin.VHostInfo
	for _, v := range f.vhosts {
		info := admin.VHostInfo{Name: v}
		for _, n := range []string{"rmq2", "rmq3", "rmq1"} {
			info.ClusterState = append(info.ClusterState, admin.NodeText{Node: n + "@localhost", Text: "running"})
		}
		all = append(all, info)
	}
	return all, nil
}

func (f *fakeNode) ListUsers(context.Context) ([]admin.UserInfo, error) { return f.users, nil }

// session is a terminal at which tools are run against one fake node, over the admin protocol.
type session struct {
	t        *testing.T
	node     *fakeNode
	nodeName string
	dialErr  error
	target   Target // of the last dial
}

// result is what one command line printed.
type result struct {
	stdout, stderr string
	status         int
}

func (s *session) run(argv ...string) result {
	s.t.Helper()
	var out, errOut bytes.Buffer
	env := Env{
		Stdout: &out, Stderr: &errOut,
		Getenv:   func(key string) string { return map[string]string{"RABBITMQ_NODENAME": s.nodeName}[key] },
		Hostname: func() (string, error) { return "HOST", nil },
		Dial:     s.dial,
	}
	status := Main(s.t.Context(), argv, env, nil)
	return result{out.String(), errOut.String(), status}
}

func (s *session) dial(_ context.Context, target Target) (Client, error) {
	s.target = target
	if s.dialErr != nil {
		return nil, s.dialErr
	}
	near, far := net.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = admin.Serve(context.WithoutCancel(s.t.Context()), far, s.node) // ends when the client closes
	}()
	s.t.Cleanup(func() { near.Close(); <-done })
	return admin.NewClient(near), nil
}
