package peer

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// epmdOffset is where Erlang's name server is, from the base port on; the script uses the hundred ports before.
const epmdOffset = 100

type rabbitmq struct {
	ctl
	script  string
	version string
	nodes   []Node
	pids    []int
	started bool
}

// RabbitMQ starts (or, if it runs already, uses) a RabbitMQ cluster through the peer script. The script's directory and ports
// are its own, from basePort on.
func RabbitMQ(ctx context.Context, script, dir string, nodes, basePort int) (Cluster, error) {
	// Node names are the same in every such cluster, so that each needs a name server of its own.
	env := []string{"DIR=" + dir, "BASE_PORT=" + strconv.Itoa(basePort), "ERL_EPMD_PORT=" + strconv.Itoa(basePort+epmdOffset)}
	r := &rabbitmq{script: script, ctl: ctl{argv: []string{script, "ctl", "1"}, env: env}}
	if err := r.status(ctx); err == nil && len(r.pids) == nodes {
		return r, r.askVersion(ctx)
	}
	r.started = true
	if err := r.start(ctx, nodes); err != nil {
		// Those of its nodes that run are stopped, whatever ended the start.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commandLimit)
		defer cancel()
		return nil, errors.Join(err, r.Shutdown(ctx))
	}
	return r, nil
}

func (r *rabbitmq) start(ctx context.Context, nodes int) error {
	if _, err := runTool(ctx, r.env, r.script, "start", strconv.Itoa(nodes)); err != nil {
		return err
	}
	if err := r.status(ctx); err != nil {
		return err
	}
	if len(r.pids) != nodes {
		return fmt.Errorf("start rabbitmq: %d of %d nodes run", len(r.pids), nodes)
	}
	return r.askVersion(ctx)
}

func (r *rabbitmq) askVersion(ctx context.Context) error {
	out, err := r.run(ctx, "version")
	if err != nil {
		return err
	}
	r.version = strings.TrimSpace(string(out))
	return nil
}

var statusLine = regexp.MustCompile(`(?m)^(\S+) pid=(\S+) amqp=(\S+)`)

func (r *rabbitmq) status(ctx context.Context) error {
	out, err := runTool(ctx, r.env, r.script, "status")
	if err != nil {
		return err
	}
	r.nodes, r.pids = nil, nil
	for _, m := range statusLine.FindAllStringSubmatch(string(out), -1) {
		r.nodes = append(r.nodes, Node{Name: m[1], URI: "amqp://guest:guest@" + m[3]})
		if pid, err := strconv.Atoi(m[2]); err == nil {
			r.pids = append(r.pids, pid)
		}
	}
	return nil
}

func (r *rabbitmq) Name() string    { return "rabbitmq" }
func (r *rabbitmq) Version() string { return r.version }
func (r *rabbitmq) Nodes() []Node   { return r.nodes }

func (r *rabbitmq) PIDs() ([]int, error) {
	if err := r.status(context.Background()); err != nil {
		return nil, err
	}
	if len(r.pids) != len(r.nodes) {
		return nil, fmt.Errorf("%d of %d nodes of rabbitmq run", len(r.pids), len(r.nodes))
	}
	return r.pids, nil
}

// Sync asks the node itself for the moments, because its tool takes a second to start.
func (r *rabbitmq) Sync(ctx context.Context, queue string) (began, ended time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, syncLimit)
	defer cancel()
	expr := fmt.Sprintf(`{ok,Q}=rabbit_amqqueue:lookup(rabbit_misc:r(<<"/">>,queue,<<%q>>)), A=os:system_time(microsecond), `+
		`R=rabbit_amqqueue:sync_mirrors(amqqueue:get_pid(Q)), B=os:system_time(microsecond), `+
		`io_lib:format("~p ~p ~p",[R,A,B]).`, queue)
	out, err := r.run(ctx, "eval", expr)
	if err != nil {
		return began, ended, err
	}
	return parseSync(string(out))
}

var syncAnswer = regexp.MustCompile(`ok (\d+) (\d+)`)

func parseSync(out string) (began, ended time.Time, err error) {
	m := syncAnswer.FindStringSubmatch(decodeChars(out))
	if m == nil {
		return began, ended, fmt.Errorf("synchronise a queue of rabbitmq: it answered %q", out)
	}
	a, err := strconv.ParseInt(m[1], 10, 64)
	if err != nil {
		return began, ended, fmt.Errorf("synchronise a queue of rabbitmq: %w", err)
	}
	b, err := strconv.ParseInt(m[2], 10, 64)
	if err != nil {
		return began, ended, fmt.Errorf("synchronise a queue of rabbitmq: %w", err)
	}
	return time.UnixMicro(a), time.UnixMicro(b), nil
}

// decodeChars undoes the printing of an iolist: 32 is a space.
func decodeChars(s string) string {
	return strings.NewReplacer(",32,", " ", `"`, "", ",", "", "[", "", "]", "", "\n", "").Replace(s)
}

func (r *rabbitmq) Kill(_ context.Context, node int) (time.Time, error) {
	pids, err := r.PIDs()
	if err != nil {
		return time.Time{}, err
	}
	r.useOther(node)
	return killProcess(pids[node])
}

// Pause implements Cluster.
func (r *rabbitmq) Pause(_ context.Context, node int) (time.Time, error) {
	pids, err := r.PIDs()
	if err != nil {
		return time.Time{}, err
	}
	r.useOther(node)
	return signal(pids[node], syscall.SIGSTOP)
}

// Resume implements Cluster. Were the node only let go on, each side would take the other for dead, and neither would heal
// that by itself (cluster_partition_handling is ignore by default): what an operator does is to restart it.
func (r *rabbitmq) Resume(ctx context.Context, node int) error {
	if _, err := runTool(ctx, r.env, r.script, "kill", strconv.Itoa(node+1)); err != nil {
		return err
	}
	return r.StartNode(ctx, node)
}

// useOther makes ctl ask another node than the one that goes.
func (r *rabbitmq) useOther(node int) { r.argv[2] = strconv.Itoa((node+1)%len(r.nodes) + 1) }

func (r *rabbitmq) StopNode(ctx context.Context, node int) (time.Time, error) {
	r.useOther(node)
	at := time.Now()
	_, err := runTool(ctx, r.env, r.script, "stop-node", strconv.Itoa(node+1))
	return at, err
}

func (r *rabbitmq) StartNode(ctx context.Context, node int) error {
	_, err := runTool(ctx, r.env, r.script, "start-node", strconv.Itoa(node+1))
	return err
}

func (r *rabbitmq) Shutdown(ctx context.Context) error {
	if !r.started {
		return nil
	}
	_, err := runTool(ctx, r.env, r.script, "stop")
	return err
}
