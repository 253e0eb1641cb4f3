package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/urfave/cli/v2"

	"warren/ctl/localcluster"
)

// "warren cluster": a local cluster of real processes.

// readyTimeout is how long one question whether a node is up may take.
const readyTimeout = 3 * time.Second

// defaultClusterDir is where a local cluster lives if --dir is not given.
const defaultClusterDir = ".warren/cluster"

func clusterCommand(env Env) *cli.Command {
	dir := &cli.StringFlag{Name: "dir", Value: defaultClusterDir, Usage: "the cluster's `DIR`ectory"}
	nodeCommand := func(name, usage string, run func(context.Context, *localcluster.Runner, localcluster.Node) error) *cli.Command {
		return &cli.Command{
			Name: name, Usage: usage, ArgsUsage: "I", Flags: []cli.Flag{dir},
			Action: func(cc *cli.Context) error {
				r, err := openCluster(cc, env)
				if err != nil {
					return err
				}
				n, err := nodeArgument(cc, r)
				if err != nil {
					return err
				}
				return run(cc.Context, r, n)
			},
		}
	}
	return &cli.Command{
		Name:  "cluster",
		Usage: "a cluster of several nodes on this machine, for trying out",
		Subcommands: []*cli.Command{
			{
				Name: "start", Usage: "start all nodes, and stop them on Ctrl-C",
				Flags: []cli.Flag{
					dir,
					&cli.IntFlag{Name: "nodes", Value: 3, Usage: "`N`umber of nodes"},
					&cli.IntFlag{Name: "port-offset", Usage: "add `K` to every default port"},
					&cli.BoolFlag{Name: "detach", Usage: "return when all nodes are up, and leave them running"},
				},
				Action: func(cc *cli.Context) error { return startCluster(cc, env) },
			},
			{
				Name: "stop", Usage: "stop all nodes in good order", Flags: []cli.Flag{dir},
				Action: func(cc *cli.Context) error { return stopCluster(cc, env) },
			},
			{
				Name: "status", Usage: "show which nodes run", Flags: []cli.Flag{dir},
				Action: func(cc *cli.Context) error { return clusterProcesses(cc, env) },
			},
			clusterUpgradeCommand(env, dir),
			nodeCommand("kill", "kill node I (SIGKILL)", func(ctx context.Context, r *localcluster.Runner, n localcluster.Node) error {
				if err := r.Kill(ctx, n); err != nil {
					return err
				}
				r.Progress("%s killed", n.Name)
				return nil
			}),
			nodeCommand("start-node", "start node I and leave it running",
				func(ctx context.Context, r *localcluster.Runner, n localcluster.Node) error {
					return r.StartNode(ctx, n)
				}),
			nodeCommand("stop-node", "stop node I in good order (SIGTERM)",
				func(ctx context.Context, r *localcluster.Runner, n localcluster.Node) error {
					if _, ok := n.Process(); !ok {
						r.Progress("%s does not run", n.Name)
					}
					return r.StopNode(ctx, n)
				}),
		},
	}
}

func newRunner(c *localcluster.Cluster, env Env) (*localcluster.Runner, error) {
	binary, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	return &localcluster.Runner{
		Cluster: c,
		Binary:  binary,
		Ready: func(ctx context.Context, n localcluster.Node, running int) error {
			return nodeReady(ctx, env, n, running)
		},
		Progress:   func(f string, args ...any) { print(env.Stdout, fmt.Sprintf(f, args...)+"\n") },
		StartLimit: localcluster.DefaultStartLimit,
		StopLimit:  localcluster.DefaultStopLimit,
	}, nil
}

// nodeReady asks a node whether it serves and sees enough others.
func nodeReady(ctx context.Context, env Env, n localcluster.Node, want int) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	client, err := env.Dial(ctx, Target{Node: n.Name, Address: n.InternodeAddress(), CookieFile: n.CookieFile})
	if err != nil {
		return err
	}
	defer client.Close()
	status, err := client.Status(ctx)
	if err != nil {
		return err
	}
	if !status.Running {
		return fmt.Errorf("it is %s; it serves once a majority of the cluster runs", status.State)
	}
	cluster, err := client.ClusterStatus(ctx)
	if err != nil {
		return err
	}
	if up := members(cluster, running); len(up) < want {
		return fmt.Errorf("it sees %d of %d nodes running: %v", len(up), want, up)
	}
	return nil
}

func openCluster(cc *cli.Context, env Env) (*localcluster.Runner, error) {
	c, err := localcluster.Open(cc.String("dir"))
	if err != nil {
		return nil, &exitError{exitDataErr, "Error: " + err.Error()}
	}
	return newRunner(c, env)
}

func nodeArgument(cc *cli.Context, r *localcluster.Runner) (localcluster.Node, error) {
	if cc.NArg() != 1 {
		return localcluster.Node{}, &exitError{exitUsage, "Error: which node? Give its number, from 1"}
	}
	i, err := strconv.Atoi(cc.Args().First())
	if err != nil {
		return localcluster.Node{}, &exitError{exitUsage, fmt.Sprintf("Error: %q is no number of a node", cc.Args().First())}
	}
	n, err := r.Node(i)
	if err != nil {
		return localcluster.Node{}, &exitError{exitUsage, "Error: " + err.Error()}
	}
	return n, nil
}

func startCluster(cc *cli.Context, env Env) error {
	nodes, offset := cc.Int("nodes"), cc.Int("port-offset")
	if c, err := localcluster.Open(cc.String("dir")); err == nil { // what is not said is as it was
		if !cc.IsSet("nodes") {
			nodes = c.Layout().Nodes
		}
		if !cc.IsSet("port-offset") {
			offset = c.Layout().PortOffset
		}
	}
	c, err := localcluster.Create(cc.String("dir"), nodes, offset)
	if err != nil {
		return &exitError{exitUsage, "Error: " + err.Error()}
	}
	r, err := newRunner(c, env)
	if err != nil {
		return err
	}
	if err := r.Start(cc.Context); err != nil {
		return err
	}
	printReach(r, env)
	if cc.Bool("detach") {
		r.Progress("The nodes run in the background; stop them with: %s cluster stop --dir %s", r.Binary, r.Dir())
		return nil
	}
	r.Progress("Ctrl-C stops all nodes.")
	r.WaitAllEnded(cc.Context)
	if cc.Context.Err() == nil {
		return errors.New("all nodes have ended; their logs are in " + r.Dir())
	}
	r.Progress("stopping")
	return r.Stop(context.WithoutCancel(cc.Context))
}

// printReach says how to use the cluster.
func printReach(r *localcluster.Runner, env Env) {
	tool := localcluster.Tool(r.Binary)
	print(env.Stdout, "\n")
	for _, n := range r.Nodes() {
		print(env.Stdout, fmt.Sprintf("%s  %s  log: %s\n", n.Name, n.URI(), n.LogFile()))
	}
	print(env.Stdout, "\n")
	for _, n := range r.Nodes() {
		print(env.Stdout, fmt.Sprintf("%s -n %s cluster_status\n", tool, n.Name))
	}
	print(env.Stdout, "\n")
}

func stopCluster(cc *cli.Context, env Env) error {
	c, err := localcluster.Open(cc.String("dir"))
	if errors.Is(err, localcluster.ErrNoCluster) {
		print(env.Stdout, fmt.Sprintf("no cluster in %s\n", cc.String("dir")))
		return nil
	}
	if err != nil {
		return err
	}
	r, err := newRunner(c, env)
	if err != nil {
		return err
	}
	return r.Stop(cc.Context)
}

func clusterProcesses(cc *cli.Context, env Env) error {
	r, err := openCluster(cc, env)
	if err != nil {
		return err
	}
	for _, n := range r.Nodes() {
		state := "stopped"
		if p, ok := n.Process(); ok {
			state = fmt.Sprintf("process %d, ", p.PID)
			if err := nodeReady(cc.Context, env, n, 1); err != nil {
				state += "not up"
			} else {
				state += "up"
			}
		}
		r.Progress("%s  %s  %s  log: %s", n.Name, state, n.URI(), n.LogFile())
	}
	return nil
}
