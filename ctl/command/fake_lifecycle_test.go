package command

import (
	"context"

	"warren/ctl/admin"
)

func (f *fakeNode) StopApp(context.Context) error {
	f.status.State, f.status.Running = stoppedState, false
	return nil
}

func (f *fakeNode) StartApp(context.Context) error {
	f.status.State, f.status.Running = "running", true
	return nil
}

func (f *fakeNode) Reset(context.Context, bool) error { return nil }

func (f *fakeNode) JoinCluster(_ context.Context, node string) error {
	switch node {
	case "rmq3@localhost": // whose session it is
		return admin.Errorf(admin.CodeRefused, "Error: cannot cluster node with itself: %s", node)
	case "rmq1@localhost":
		return admin.Errorf(admin.CodeAlreadyExists, "The node is already a member of this cluster")
	}
	return nil
}

func (f *fakeNode) ForgetNode(_ context.Context, node string) error {
	for _, n := range f.cluster.Nodes {
		if n.Name == node {
			return admin.Errorf(admin.CodeInUse, "it is up")
		}
	}
	return admin.Errorf(admin.CodeNotFound, "%s", node)
}

func (f *fakeNode) Drain(context.Context) error { return nil }

func (f *fakeNode) Revive(context.Context) error { return nil }

func (f *fakeNode) CriticalQueues(context.Context) (admin.CriticalQueues, error) {
	return admin.CriticalQueues{Queues: f.critical}, nil
}

func (f *fakeNode) EnableFeature(_ context.Context, name string) error {
	if name == "nosuch" {
		return admin.Errorf(admin.CodeNotFound, "%s", name)
	}
	return nil
}
