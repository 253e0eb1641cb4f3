package command

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"time"

	"warren/bench/ledger"
	"warren/bench/measure"
)

// options are the flags of all measurements. Where RabbitMQ's PerfTest has a flag, it has PerfTest's name.
type options struct {
	measurement string

	p          measure.Params
	flag       string // -f
	seconds    float64
	warmup     float64
	idle       float64
	runs       int
	depths     ints
	batches    ints
	bodies     ints
	strategies words
	victims    words
	peerRuns   int
	kinds      words
	peers      words
	uris       words // a cluster that runs already
	ctl        string
	pids       ints
	binary     string
	dir        string
	portOffset int
	script     string // of the peer
	peerDir    string
	basePort   int
	nodes      int
	jsonFile   string
	pictures   string
	keep       bool
	noWarren   bool
	inputs     []string
}

var errUsage = errors.New("wrong usage")

// measurements, and what each does when its flags are not given.
var usage = `usage: warren-bench MEASUREMENT [flags]

  throughput   as fast as the confirm window allows
  latency      at a fixed rate (--rate), or with --rate 0 and -c 1 one message at a time
  failover     the master's node is killed (--failure kill), stopped (stop) or falls silent (partition) under load
  sync         a queue's mirrors are synchronised under load
  rolling      every node in turn is stopped in good order and started again under load
  ring         the ring alone, without AMQP and storage; an argument is a pattern of its benchmarks
  report       tables and pictures of the JSON files that are named
  suite        several of these one after the other, and a page with all results: the short set, or --full

Each measurement takes -h.
`

// words and ints are lists: repeated or separated by commas.
type words []string

func (w *words) String() string { return strings.Join(*w, ",") }
func (w *words) Set(s string) error {
	*w = append(*w, strings.Split(s, ",")...)
	return nil
}

type ints []int

func (n *ints) String() string { return strings.Trim(fmt.Sprint([]int(*n)), "[]") }
func (n *ints) Set(s string) error {
	for _, f := range strings.Split(s, ",") {
		var v int
		scale := 1
		if k, ok := strings.CutSuffix(f, "k"); ok {
			f, scale = k, 1000
		}
		if _, err := fmt.Sscanf(f+"\n", "%d\n", &v); err != nil {
			return fmt.Errorf("%q is not a number", f)
		}
		*n = append(*n, v*scale)
	}
	return nil
}

func (o *options) set(stderr io.Writer) *flag.FlagSet {
	fs := flag.NewFlagSet("warren-bench "+o.measurement, flag.ContinueOnError)
	fs.SetOutput(stderr)
	p := &o.p
	fs.IntVar(&p.Publishers, "x", 1, "producers of each queue")
	fs.IntVar(&p.Consumers, "y", 1, "consumers of each queue")
	fs.IntVar(&p.Window, "c", o.window(), "unconfirmed publishes of a producer at most; there is no mode without confirms")
	fs.IntVar(&p.Prefetch, "q", 0, "consumer prefetch, 0 without limit")
	fs.IntVar(&p.AckEvery, "A", 1, "acknowledge so many deliveries at once")
	fs.IntVar(&p.Size, "s", 1024, fmt.Sprintf("message size in bytes, at least %d", ledger.HeadSize))
	fs.Float64Var(&p.Rate, "rate", o.rate(), "messages per second of each producer, 0 as fast as the window allows")
	fs.Float64Var(&p.Rate, "r", o.rate(), "short for --rate")
	fs.Float64Var(&o.seconds, "z", 10, "seconds to measure")
	fs.Float64Var(&o.warmup, "warmup", 3, "seconds of the same load before")
	fs.StringVar(&o.flag, "f", "persistent", "message flag: persistent or transient")
	fs.IntVar(&p.Queues, "queues", 1, "queues, spread over the nodes, each with -x producers and -y consumers")
	fs.StringVar(&p.Connect, "connect", measure.ConnectMaster, "where clients connect: master (the queue's node) or other")
	fs.Float64Var(&o.idle, "idle", 15, "seconds without a delivery after which a message counts as lost")
	fs.StringVar(&p.Failure, "failure", measure.FailKill, "failover: kill, stop, or partition (SIGSTOP, SIGCONT afterwards; RabbitMQ's node is restarted)")
	fs.Var(&o.victims, "victim", "failover: a list of leader and follower (of the metadata's Raft group), what the master's node is besides (Warren)")
	fs.Var(&o.depths, "depth", "sync: messages in the queue, a list (default 100k)")
	fs.Var(&o.bodies, "bodies", "sync: message sizes, a list (default -s)")
	fs.Var(&o.batches, "batch-size", "sync: ha-sync-batch-size, a list; 0 is the broker's default")
	fs.Var(&o.strategies, "strategy", "sync: Warren's strategies, a list of online, blocking and delta (a mirror's node was away)")
	fs.Float64Var(&p.SideRate, "side-rate", 200, "sync: messages per second of the producers and consumers beside it")
	fs.BoolVar(&p.Prove, "prove", true, "sync: kill the master afterwards and count what the promoted mirror has")
	o.setClusters(fs)
	fs.IntVar(&o.runs, "runs", 1, "how often each is measured; the targets take turns")
	fs.IntVar(&o.peerRuns, "peer-runs", 0, "how often the peer is, if less")
	fs.StringVar(&o.jsonFile, "json", "", "append the results to this `file`, one JSON object a line")
	fs.StringVar(&o.pictures, "pictures", "", "draw SVG and PNG pictures into this `directory`")
	return fs
}

func (o *options) setClusters(fs *flag.FlagSet) {
	fs.Var(&o.peers, "peer", "measure another broker beside Warren: rabbitmq (started by the peer script)")
	fs.BoolVar(&o.noWarren, "no-warren", false, "measure the peer alone")
	fs.Var(&o.kinds, "kinds", "kinds of queues, a list of mirrored, quorum, plain (default mirrored, and quorum where there is one)")
	fs.Var(&o.uris, "uris", "measure the cluster at these amqp:// URIs instead of starting one")
	fs.Var(&o.uris, "H", "short for --uris")
	fs.StringVar(&o.ctl, "ctl", "", "with --uris: the rabbitmqctl `command` of that cluster")
	fs.Var(&o.pids, "pids", "with --uris: the nodes' processes, for CPU and memory")
	fs.StringVar(&o.binary, "warren", "bin/warren", "Warren's binary")
	fs.StringVar(&o.dir, "dir", ".warren/bench", "directory of Warren's cluster")
	fs.IntVar(&o.portOffset, "port-offset", 300, "added to Warren's default ports")
	fs.StringVar(&o.script, "peer-script", "", "the script that starts the peer (default rabbitmq-cluster in $WARREN_PEERS, or in ../shared/peers)")
	fs.StringVar(&o.peerDir, "peer-dir", ".warren/bench-rabbitmq", "directory of the peer's cluster")
	fs.IntVar(&o.basePort, "peer-base-port", 21500, "first port of the peer's cluster")
	fs.IntVar(&o.nodes, "nodes", 3, "nodes of each cluster")
	fs.BoolVar(&o.keep, "keep", false, "leave the clusters running")
}

func (o *options) window() int {
	if o.measurement == "latency" {
		return 10000
	}
	return 1000
}

func (o *options) rate() float64 {
	if o.measurement == "latency" || o.measurement == "failover" || o.measurement == "rolling" {
		return 2000
	}
	return 0
}

// parse reads the flags of a measurement.
func parse(measurement string, args []string, stderr io.Writer) (*options, error) {
	o := &options{measurement: measurement}
	fs := o.set(stderr)
	if err := fs.Parse(args); err != nil {
		return nil, fmt.Errorf("%w: %w", errUsage, err)
	}
	o.inputs = fs.Args()
	o.p.Persistent = o.flag == "persistent"
	o.p.Warmup, o.p.Duration, o.p.Idle = seconds(o.warmup), seconds(o.seconds), seconds(o.idle)
	if len(o.depths) == 0 {
		o.depths = ints{100_000}
	}
	if len(o.batches) == 0 {
		o.batches = ints{0}
	}
	if len(o.bodies) == 0 {
		o.bodies = ints{o.p.Size}
	}
	if len(o.strategies) == 0 {
		o.strategies = words{measure.StrategyDefault}
	}
	if len(o.victims) == 0 {
		o.victims = words{measure.VictimAny}
	}
	if o.peerRuns == 0 {
		o.peerRuns = o.runs
	}
	return o, o.check()
}

// What lists may hold.
var (
	victims    = []string{measure.VictimAny, measure.VictimLeader, measure.VictimFollower}
	strategies = []string{measure.StrategyDefault, measure.StrategyOnline, measure.StrategyBlocking, measure.StrategyDelta}
)

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

func (o *options) check() error {
	p := o.p
	for _, c := range []struct {
		ok   bool
		what string
	}{
		{p.Publishers >= 1, "-x is at least 1"},
		{p.Consumers >= 1 || o.measurement == "throughput" && p.Consumers == 0, "-y is at least 1"},
		{p.Window >= 1 && p.Window <= 1<<20, "-c is from 1 to 1048576"},
		{p.Prefetch >= 0 && p.Prefetch <= 65535, "-q is from 0 to 65535"},
		{p.AckEvery >= 1 && (p.Prefetch == 0 || p.AckEvery <= p.Prefetch), "-A is at least 1 and at most -q"},
		{p.Size >= ledger.HeadSize && p.Size <= 64<<20, fmt.Sprintf("-s is from %d to 64 MiB", ledger.HeadSize)},
		{p.Rate >= 0, "--rate is not negative"},
		{p.Duration > 0, "-z is more than 0"},
		{p.Queues >= 1 && p.Queues <= 1000, "--queues is from 1 to 1000"},
		{o.flag == "persistent" || o.flag == "transient", "-f is persistent or transient"},
		{p.Connect == measure.ConnectMaster || p.Connect == measure.ConnectOther, "--connect is master or other"},
		{slices.Contains([]string{measure.FailKill, measure.FailStop, measure.FailPartition}, p.Failure), "--failure is kill, stop or partition"},
		{!slices.ContainsFunc(o.victims, func(v string) bool { return !slices.Contains(victims, v) }), "--victim is a list of leader and follower"},
		{!slices.ContainsFunc(o.strategies, func(s string) bool { return !slices.Contains(strategies, s) }), "--strategy is a list of online, blocking and delta"},
		{o.peerRuns >= 0 && o.peerRuns <= o.runs, "--peer-runs is from 1 to --runs"},
		{p.SideRate > 0, "--side-rate is more than 0"},
		{o.runs >= 1, "--runs is at least 1"},
		{o.nodes >= 1, "--nodes is at least 1"},
		{p.AckEvery == 1 || o.measurement == "throughput", "-A is for throughput"},
		{len(o.inputs) == 0 || o.measurement == "report" || o.measurement == "ring", "no arguments besides the flags"},
	} {
		if !c.ok {
			return fmt.Errorf("%w: %s", errUsage, c.what)
		}
	}
	return nil
}

// machine says where the figures were seen.
func machine() string {
	return fmt.Sprintf("%s/%s, %d processors, %s", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version())
}
