package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/urfave/cli/v2"

	"warren/ctl/admin"
	"warren/ctl/localcluster"
)

// upgradeStepLimit bounds each wait of an upgrade.
const upgradeStepLimit = 5 * time.Minute

func clusterUpgradeCommand(env Env, dir cli.Flag) *cli.Command {
	return &cli.Command{
		Name: "upgrade", Usage: "have every node run another binary, one after the other, while clients go on",
		Flags: []cli.Flag{dir, &cli.StringFlag{Name: "binary", Required: true, Usage: "the `PATH` of the warren to run"}},
		Action: func(cc *cli.Context) error {
			r, err := openCluster(cc, env)
			if err != nil {
				return err
			}
			if r.Binary, err = filepath.Abs(cc.String("binary")); err != nil {
				return fmt.Errorf("binary: %w", err)
			}
			if info, err := os.Stat(r.Binary); err != nil || info.IsDir() || info.Mode()&0o111 == 0 {
				return &exitError{exitDataErr, fmt.Sprintf("Error: %s is not a program that can be run", r.Binary)}
			}
			return upgradeCluster(cc.Context, r, env)
		},
	}
}

// upgradeCluster does design/upgrades.md's procedure, node by node, and stops at the first that fails: the nodes after it
// run as before.
func upgradeCluster(ctx context.Context, r *localcluster.Runner, env Env) error {
	for _, n := range r.Nodes() {
		if _, ok := n.Process(); !ok {
			return fmt.Errorf("%s does not run; all nodes have to, so that the others carry the queues meanwhile", n.Name)
		}
	}
	for _, n := range r.Nodes() {
		if err := upgradeNode(ctx, r, env, n); err != nil {
			return fmt.Errorf("upgrade %s: %w", n.Name, err)
		}
	}
	r.Progress("all nodes run %s; when they shall not go back any more: %s -n %s enable_feature_flag all",
		r.Binary, localcluster.Tool(r.Binary), r.Nodes()[0].Name)
	return nil
}

func upgradeNode(ctx context.Context, r *localcluster.Runner, env Env, n localcluster.Node) error {
	ctx, cancel := context.WithTimeout(ctx, upgradeStepLimit)
	defer cancel()
	r.Progress("%s: waiting for a synchronised mirror of each mirrored queue whose master is here", n.Name)
	err := withNode(ctx, env, n, func(node Client) error {
		return waitFor(ctx, func() (bool, error) {
			critical, err := node.CriticalQueues(ctx)
			return len(critical.Queues) == 0, err
		})
	})
	if err := lacking(r, n, "await_online_synchronized_mirror", err); err != nil {
		return err
	}
	r.Progress("%s: draining", n.Name)
	err = withNode(ctx, env, n, func(node Client) error { return node.Drain(ctx) })
	drained := err == nil
	if err := lacking(r, n, "drain", err); err != nil {
		return err
	}
	if err := r.StopNode(ctx, n); err != nil {
		return err
	}
	if err := r.StartNode(ctx, n); err != nil {
		return err
	}
	if drained {
		r.Progress("%s: reviving", n.Name)
		err := withNode(ctx, env, n, func(node Client) error { return node.Revive(ctx) })
		if err := lacking(r, n, "revive", err); err != nil {
			return err
		}
	}
	r.Progress("%s: waiting for its mirrors", n.Name)
	return withNode(ctx, env, n, func(node Client) error {
		return waitFor(ctx, func() (bool, error) { return mirrorsBack(ctx, node, n.Name) })
	})
}

// lacking lets a step be left out that the version on the node does not have, or that a flag does not allow yet: a stop in good
// order hands masters over without it, too.
func lacking(r *localcluster.Runner, n localcluster.Node, step string, err error) error {
	switch admin.CodeOf(err) {
	case admin.CodeUnsupported, admin.CodeRefused:
		r.Progress("%s: no %s in this version (%v); going on without", n.Name, step, err)
		return nil
	}
	return err
}

func withNode(ctx context.Context, env Env, n localcluster.Node, do func(Client) error) error {
	client, err := env.Dial(ctx, Target{Node: n.Name, Address: n.InternodeAddress(), CookieFile: n.CookieFile})
	if err != nil {
		return err
	}
	return errors.Join(do(client), client.Close())
}

// mirrorsBack says whether every mirror on a node is synchronised.
func mirrorsBack(ctx context.Context, node Client, name string) (back bool, err error) {
	vhosts, err := node.ListVHosts(ctx)
	if err != nil {
		return false, err
	}
	on := func(pids []admin.PID) bool {
		for _, p := range pids {
			if p.Node == name {
				return true
			}
		}
		return false
	}
	back = true
	for _, v := range vhosts {
		err := node.ListQueues(ctx, admin.QueueQuery{VHost: v.Name}, func(q admin.QueueInfo) error {
			back = back && (!on(q.Slaves) || on(q.SynchronisedSlaves))
			return nil
		})
		if err != nil {
			return false, err
		}
	}
	return back, nil
}
