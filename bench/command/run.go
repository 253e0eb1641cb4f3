package command

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"warren/bench/measure"
	"warren/bench/peer"
	"warren/bench/report"
)

// Exit statuses.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 64
)

// stopLimit is how long stopping the clusters may take, after everything else is over.
const stopLimit = 2 * time.Minute

// Run runs a command line (without the program's name) and gives the exit status. ctx ends it early; what was started is
// stopped all the same.
func Run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		fmt.Fprint(stderr, usage)
		return exitUsage
	}
	err := dispatch(ctx, nil, args[0], args[1:], stdout, stderr)
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return exitOK
	case errors.Is(err, errUsage):
		fmt.Fprintf(stderr, "warren-bench: %v\n", err)
		return exitUsage
	default:
		fmt.Fprintf(stderr, "warren-bench: %v\n", err)
		return exitFailed
	}
}

func dispatch(ctx context.Context, p *pool, measurement string, args []string, stdout, stderr io.Writer) error {
	var run func(context.Context, measure.Target, measure.Params) (*measure.Result, error)
	switch measurement {
	case "throughput", "latency":
		run = measure.Throughput
	case "failover":
		run = measure.FailoverRun
	case "sync":
		run = measure.SyncRun
	case "rolling":
		run = measure.Rolling
	case "suite":
		return runSuite(ctx, args, stdout, stderr)
	case "report", "ring":
	case "help", "-h", "--help":
		fmt.Fprint(stdout, usage)
		return nil
	default:
		return fmt.Errorf("%w: no measurement %q\n%s", errUsage, measurement, usage)
	}
	o, err := parse(measurement, args, stderr)
	if err != nil {
		return err
	}
	switch measurement {
	case "report":
		return showFiles(o, stdout)
	case "ring":
		return runRing(ctx, o, commandLine(measurement, args), stdout, stderr)
	}
	s := &session{o: o, pool: p, run: run, stdout: stdout, progress: newProgress(stderr), command: commandLine(measurement, args)}
	return s.measure(ctx)
}

// commandLine is what is written beside the figures.
func commandLine(measurement string, args []string) string {
	return strings.Join(append([]string{"warren-bench", measurement}, args...), " ")
}

// session is one call of the program.
type session struct {
	o        *options
	pool     *pool
	run      func(context.Context, measure.Target, measure.Params) (*measure.Result, error)
	stdout   io.Writer
	progress *progress
	command  string
	results  []*measure.Result
}

func (s *session) measure(ctx context.Context) (err error) {
	clusters, err := s.start(ctx)
	defer func() {
		if s.o.keep || s.pool != nil {
			return
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopLimit)
		defer cancel()
		for _, c := range clusters {
			err = errors.Join(err, c.Shutdown(ctx))
		}
	}()
	if err != nil {
		return err
	}
	runErr := s.turns(ctx, s.targets(clusters))
	if len(s.results) == 0 {
		return runErr
	}
	fmt.Fprintf(s.stdout, "%s\n%s\n\n", machine(), s.command)
	return errors.Join(runErr, s.show())
}

func (s *session) show() error {
	if err := report.Table(s.stdout, s.results); err != nil {
		return err
	}
	if s.o.pictures == "" {
		return nil
	}
	_, err := report.Pictures(s.o.pictures, s.results)
	return err
}

// start starts the clusters, or takes those that are named.
func (s *session) start(ctx context.Context) ([]peer.Cluster, error) {
	o := s.o
	var out []peer.Cluster
	if len(o.uris) > 0 {
		c, err := peer.Named("named", o.uris, strings.Fields(o.ctl), o.pids)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errUsage, err)
		}
		return append(out, c), nil
	}
	if !o.noWarren {
		c, err := s.pool.get(ctx, "warren", func() (peer.Cluster, error) { return s.startWarren(ctx) })
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	for _, name := range o.peers {
		if name != "rabbitmq" {
			return out, fmt.Errorf("%w: --peer %s is unknown; rabbitmq is not", errUsage, name)
		}
		c, err := s.pool.get(ctx, name, func() (peer.Cluster, error) { return s.startRabbitMQ(ctx) })
		if err != nil {
			return out, err
		}
		out = append(out, c)
	}
	return out, nil
}

func (s *session) startWarren(ctx context.Context) (peer.Cluster, error) {
	o := s.o
	s.progress.say("starting Warren's cluster in %s", o.dir)
	binary, err := filepath.Abs(o.binary)
	if err != nil {
		return nil, fmt.Errorf("find %s: %w", o.binary, err)
	}
	dir, err := filepath.Abs(o.dir)
	if err != nil {
		return nil, fmt.Errorf("find %s: %w", o.dir, err)
	}
	return peer.Warren(ctx, binary, dir, o.nodes, o.portOffset)
}

func (s *session) startRabbitMQ(ctx context.Context) (peer.Cluster, error) {
	s.progress.say("starting RabbitMQ's cluster in %s", s.o.peerDir)
	script, dir, err := s.o.peerPaths()
	if err != nil {
		return nil, err
	}
	return peer.RabbitMQ(ctx, script, dir, s.o.nodes, s.o.basePort)
}

// peerPaths finds the peer's script and directory.
func (o *options) peerPaths() (script, dir string, err error) {
	script = o.script
	if script == "" {
		peers := os.Getenv("WARREN_PEERS")
		if peers == "" {
			peers = "../shared/peers"
		}
		script = filepath.Join(peers, "rabbitmq-cluster")
	}
	if script, err = filepath.Abs(script); err == nil {
		dir, err = filepath.Abs(o.peerDir)
	}
	if err != nil {
		return "", "", fmt.Errorf("find the peer: %w", err)
	}
	return script, dir, nil
}

// targets are the kinds of queues of each cluster.
func (s *session) targets(clusters []peer.Cluster) []measure.Target {
	kinds := s.o.kinds
	if len(kinds) == 0 {
		kinds = words{string(measure.Mirrored), string(measure.Quorum)}
		if s.o.measurement == "sync" {
			kinds = kinds[:1]
		}
	}
	var out []measure.Target
	for _, c := range clusters {
		for _, k := range kinds {
			if c.Name() == "warren" && measure.Kind(k) == measure.Quorum {
				continue // it has none
			}
			out = append(out, measure.Target{Cluster: c, Kind: measure.Kind(k)})
		}
	}
	return out
}

// turns measures everything, the targets taking turns, so that what else the machine does falls on all of them.
func (s *session) turns(ctx context.Context, targets []measure.Target) error {
	works := s.works()
	total := len(works) * s.o.runs * len(targets)
	done := 0
	var failed error
	for _, w := range works {
		for run := range s.o.runs {
			for _, t := range targets {
				done++
				w, ok := s.workOf(t, w, run)
				if !ok {
					continue
				}
				err := s.one(ctx, t, w, run+1, fmt.Sprintf("%d/%d", done, total))
				if ctx.Err() != nil {
					return errors.Join(failed, err)
				}
				if err != nil {
					s.progress.say("%s %s: %v", t.Cluster.Name(), t.Kind, err)
					failed = errors.Join(failed, fmt.Errorf("%s %s: %w", t.Cluster.Name(), t.Kind, err))
				}
			}
		}
	}
	return failed
}

// workOf is what a target does of a work. Strategies and a Raft group beside the queues are Warren's: another broker does once
// what Warren does several times.
func (s *session) workOf(t measure.Target, w measure.Params, run int) (measure.Params, bool) {
	if t.Cluster.Name() == "warren" {
		return w, true
	}
	if run >= s.o.peerRuns {
		return w, false
	}
	if w.Victim != measure.VictimAny {
		if first := w.Victim == s.o.victims[0]; !first {
			return w, false
		}
		w.Victim = measure.VictimAny
	}
	if w.Strategy != measure.StrategyDelta && w.Strategy != measure.StrategyDefault {
		if first := w.Strategy == s.o.strategies[0]; !first {
			return w, false
		}
		w.Strategy = measure.StrategyDefault
	}
	return w, true
}

// works are the parameters of each work: for most measurements one.
func (s *session) works() []measure.Params {
	var out []measure.Params
	if s.o.measurement != "sync" {
		for _, victim := range s.o.victims {
			p := s.o.p
			p.Victim = victim
			out = append(out, p)
		}
		return out
	}
	for _, depth := range s.o.depths {
		for _, body := range s.o.bodies {
			for _, strategy := range s.o.strategies {
				for _, batch := range s.o.batches {
					p := s.o.p
					p.Depth, p.Size, p.Strategy, p.BatchSize = depth, body, strategy, batch
					out = append(out, p)
				}
			}
		}
	}
	return out
}

func (s *session) one(ctx context.Context, t measure.Target, p measure.Params, run int, place string) error {
	stop := s.progress.begin(fmt.Sprintf("%s %s %s, %s, run %d", place, s.o.measurement, t.Cluster.Name(), t.Kind, run), about(s.o.measurement, p))
	r, err := s.run(ctx, t, p)
	stop()
	if err != nil {
		return err
	}
	r.Run, r.Command, r.Machine = run, s.command, machine()
	s.results = append(s.results, r)
	return s.o.save(r)
}

// save adds a result to the file.
func (o *options) save(r *measure.Result) error {
	if o.jsonFile == "" {
		return nil
	}
	f, err := os.OpenFile(o.jsonFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("open the file of results: %w", err)
	}
	return errors.Join(report.WriteJSON(f, r), f.Close())
}

// about is how long a measurement takes, for the progress bar.
func about(measurement string, p measure.Params) time.Duration {
	d := p.Warmup + p.Duration + 2*time.Second
	switch measurement {
	case "sync":
		d += time.Duration(p.Depth)*30*time.Microsecond + 10*time.Second
	case "failover":
		d += 8 * time.Second
	case "rolling":
		d += 20 * time.Second
	}
	return d
}

// showFiles makes tables and pictures of results that were written before.
func showFiles(o *options, stdout io.Writer) error {
	var all []*measure.Result
	for _, name := range o.inputs {
		f, err := os.Open(name)
		if err != nil {
			return fmt.Errorf("open results: %w", err)
		}
		rs, err := report.ReadJSON(f)
		if err := errors.Join(err, f.Close()); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, rs...)
	}
	if len(all) == 0 {
		return fmt.Errorf("%w: name files with results", errUsage)
	}
	if o.pictures == "" {
		return report.Table(stdout, all)
	}
	return report.Document(stdout, o.pictures, all, nil)
}
