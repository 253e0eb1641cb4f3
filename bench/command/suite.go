package command

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"warren/bench/peer"
	"warren/bench/report"
)

// shortSet is what `make bench` measures: what the table of aims is made of. It is kept to about twelve minutes with the peer.
var shortSet = []string{
	"throughput --runs 3 -z 4 --warmup 2",
	"throughput --queues 10 --runs 3 -z 3 --warmup 2",
	"latency -c 1 --rate 0 --runs 3 -z 3 --warmup 1",
	"latency --rate 2000 --runs 3 -z 4 --warmup 2",
	"failover --victim follower,leader --runs 4 --peer-runs 1 -z 2 --warmup 1",
	"sync --depth 300k --strategy online --runs 3 --peer-runs 1 --warmup 2",
	"sync --depth 300k --strategy blocking --no-peer --warmup 1",
	"sync --depth 300k --strategy delta --runs 3 --peer-runs 1 --warmup 1",
	"failover --failure partition --no-peer --runs 3 -z 3 --warmup 1",
	"ring --runs 3 (Ring|Chain)/size=1k/ring=3$",
}

// fullSet is the short one and what takes long.
var fullSet = append(append([]string{}, shortSet...),
	"throughput --kinds plain --runs 3 -z 4",
	"failover --failure stop --runs 3 -z 4",
	"failover --failure partition --no-warren --runs 1 -z 4",
	"rolling --runs 3",
	"ring --runs 3",
	"sync --depth 10k,100k,300k,1000k --bodies 100,1024,10240 --batch-size 2,50,4096 --strategy online,blocking --no-peer",
	"sync --depth 10k,100k,300k --bodies 1024 --no-warren",
	"sync --depth 10k,100k,1000k --strategy delta --no-peer",
)

// suite is a call of several measurements.
type suite struct {
	full    bool
	peer    string
	page    string
	json    string
	only    string
	common  []string // flags for all
	stdout  io.Writer
	stderr  io.Writer
	started time.Time
}

// runSuite runs one measurement after the other and then writes the page. One that fails takes nothing from the others: the
// page is written of what there is and names what failed, and the error is theirs.
func runSuite(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	s := &suite{stdout: stdout, stderr: stderr, started: time.Now()}
	fs := flag.NewFlagSet("warren-bench suite", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.BoolVar(&s.full, "full", false, "the full set, which takes hours")
	fs.StringVar(&s.peer, "peer", "", "measure another broker beside Warren: rabbitmq")
	fs.StringVar(&s.page, "page", "docs/benchmarks-clusters.md", "the `file` to write, with pictures in the directory benchmarks beside it")
	fs.StringVar(&s.json, "json", ".warren/bench.jsonl", "the `file` of the results, begun anew")
	fs.StringVar(&s.only, "only", "", "only measurements whose command holds this `text`; the results are added to the file")
	fs.Usage = func() {
		fmt.Fprintf(stderr, "usage: warren-bench suite [flags] [-- flags of every measurement]\n\nThe short set:\n  %s\n\n",
			strings.Join(shortSet, "\n  "))
		fs.PrintDefaults()
	}
	if err := fs.Parse(args); err != nil {
		return fmt.Errorf("%w: %w", errUsage, err)
	}
	s.common = fs.Args()
	if s.peer != "" && s.peer != "rabbitmq" {
		return fmt.Errorf("%w: --peer %s is unknown; rabbitmq is not", errUsage, s.peer)
	}
	return s.run(ctx)
}

func (s *suite) run(ctx context.Context) error {
	if err := s.prepare(); err != nil {
		return err
	}
	set := shortSet
	if s.full {
		set = fullSet
	}
	var failed error
	var failures []string
	clusters := &pool{map[string]peer.Cluster{}}
	for i, line := range set {
		measurement, args, ok := s.call(line)
		if !ok || !strings.Contains(line, s.only) {
			continue
		}
		fmt.Fprintf(s.stderr, "[%d/%d, %.0f s] %s\n", i+1, len(set), time.Since(s.started).Seconds(), commandLine(measurement, args))
		err := clusters.keep(ctx, needs(measurement, args)...)
		if err == nil {
			err = dispatch(ctx, clusters, measurement, args, s.stdout, s.stderr)
		}
		if err != nil {
			// What a failure left is not measured on.
			err = errors.Join(err, clusters.keep(ctx))
			fmt.Fprintf(s.stderr, "failed: %v\n", err)
			failures = append(failures, fmt.Sprintf("%s: %v", commandLine(measurement, args), err))
			failed = errors.Join(failed, fmt.Errorf("%s: %w", commandLine(measurement, args), err))
		}
		if ctx.Err() != nil {
			break
		}
	}
	return errors.Join(failed, clusters.keep(ctx), s.write(failures))
}

// needs names the clusters of a measurement.
func needs(measurement string, args []string) (names []string) {
	if measurement != "ring" && !slices.Contains(args, "--no-warren") {
		names = append(names, "warren")
	}
	if i := slices.Index(args, "--peer"); i >= 0 {
		names = append(names, args[i+1])
	}
	return names
}

// prepare sees before hours are spent that the results can be written.
func (s *suite) prepare() error {
	for _, f := range []string{s.json, s.page} {
		if err := os.MkdirAll(filepath.Dir(f), 0o755); err != nil {
			return fmt.Errorf("make the directory of %s: %w", f, err)
		}
	}
	if s.only != "" {
		return nil
	}
	if err := os.Remove(s.json); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("begin the results anew: %w", err)
	}
	return nil
}

// call is a line of a set with the flags that all have; ok is false for what needs a peer where there is none.
func (s *suite) call(line string) (measurement string, args []string, ok bool) {
	words := strings.Fields(line)
	var flags, rest []string
	withPeer := s.peer != "" && words[0] != "ring"
	for _, w := range words[1:] {
		switch {
		case w == "--no-peer":
			withPeer = false
		case w == "--no-warren" && s.peer == "":
			return "", nil, false
		case strings.HasPrefix(w, "("): // the ring's pattern
			rest = append(rest, w)
		default:
			flags = append(flags, w)
		}
	}
	if withPeer {
		flags = append(flags, "--peer", s.peer)
	}
	flags = append(append(flags, s.common...), "--json", s.json)
	return words[0], append(flags, rest...), true
}

// write makes the page of all that is in the file. It takes the old page's place only when it is whole.
func (s *suite) write(failures []string) error {
	f, err := os.Open(s.json)
	if err != nil {
		return fmt.Errorf("no measurement gave a result; %s is left as it is: %w", s.page, err)
	}
	results, err := report.ReadJSON(f)
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("read the results: %w", err)
	}
	page, err := os.CreateTemp(filepath.Dir(s.page), ".page-*")
	if err != nil {
		return fmt.Errorf("begin the page: %w", err)
	}
	err = report.Document(page, filepath.Join(filepath.Dir(s.page), "benchmarks"), results, failures)
	if err = errors.Join(err, page.Chmod(0o644), page.Close()); err == nil {
		err = os.Rename(page.Name(), s.page)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", s.page, err), os.Remove(page.Name()))
	}
	fmt.Fprintf(s.stderr, "%s is written, after %.0f s\n", s.page, time.Since(s.started).Seconds())
	return nil
}
