package measure

import (
	"time"

	"warren/bench/hist"
	"warren/bench/ledger"
	"warren/bench/peer"
	"warren/bench/proc"
)

// Kind is what sort of queue is measured.
type Kind string

// Kinds of queues.
const (
	Plain    Kind = "plain"    // classic, on one node
	Mirrored Kind = "mirrored" // classic, a copy on every node (ha-mode all)
	Quorum   Kind = "quorum"   // a quorum queue with a member on every node
)

// Target is a cluster and the kind of queue to measure there.
type Target struct {
	Cluster peer.Cluster
	Kind    Kind
	// ListLimit is how long after a synchronisation the list of queues may take to show it; 0 is a default.
	ListLimit time.Duration
}

func (t Target) listLimit() time.Duration {
	if t.ListLimit == 0 {
		return time.Minute
	}
	return t.ListLimit
}

// Where clients connect.
const (
	ConnectMaster = "master" // to the node that the queue was declared on
	ConnectOther  = "other"  // to the node after it
)

// Params are a measurement's parameters. The names in JSON are the command line's.
type Params struct {
	Publishers int           `json:"x"` // for each queue
	Consumers  int           `json:"y"` // for each queue
	Queues     int           `json:"queues"`
	Window     int           `json:"c"`
	Prefetch   int           `json:"q"`
	AckEvery   int           `json:"A"`
	Size       int           `json:"s"`
	Rate       float64       `json:"rate,omitempty"` // of each publisher
	Persistent bool          `json:"persistent"`
	Connect    string        `json:"connect"`
	Warmup     time.Duration `json:"warmup_ns"`
	Duration   time.Duration `json:"duration_ns"`
	// Idle is how long nothing may arrive before what is missing counts as lost.
	Idle time.Duration `json:"-"`

	Failure string `json:"failure,omitempty"` // failover: kill, stop or partition
	Victim  string `json:"victim,omitempty"`  // failover: leader or follower of the metadata's Raft group; empty: any

	Depth     int     `json:"depth,omitempty"`      // sync
	BatchSize int     `json:"batch_size,omitempty"` // sync; 0: the broker's default
	Strategy  string  `json:"strategy,omitempty"`   // sync
	SideRate  float64 `json:"side_rate,omitempty"`  // sync: of each publisher and consumer beside it
	Prove     bool    `json:"prove,omitempty"`      // sync: kill the master and count what the mirror has
}

// tail is how long a load goes on before and after what is measured takes place.
func (p Params) tail() time.Duration { return min(time.Second, p.Duration) }

// Latency is a distribution, in milliseconds.
type Latency struct {
	N    uint64  `json:"n"`
	P50  float64 `json:"p50_ms"`
	P99  float64 `json:"p99_ms"`
	P999 float64 `json:"p999_ms"`
	Max  float64 `json:"max_ms"`
}

func latency(h *hist.Hist) Latency {
	return Latency{N: h.Count(), P50: ms(h.Quantile(0.5)), P99: ms(h.Quantile(0.99)), P999: ms(h.Quantile(0.999)), Max: ms(h.Max())}
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// Point is the worst latency of a slice of time.
type Point struct {
	At float64 `json:"at_s"`
	MS float64 `json:"ms"`
}

func points(s *hist.Series) []Point {
	var out []Point
	for _, p := range s.Points() {
		out = append(out, Point{At: p.At.Seconds(), MS: ms(p.Worst)})
	}
	return out
}

// Result is what one run of a measurement found.
type Result struct {
	Measurement string    `json:"measurement"`
	Peer        string    `json:"peer"`
	Version     string    `json:"version"`
	Queue       Kind      `json:"queue"`
	Run         int       `json:"run"`
	Start       time.Time `json:"start"`
	Command     string    `json:"command,omitempty"`
	Machine     string    `json:"machine,omitempty"`
	Params      Params    `json:"params"`

	Seconds         float64       `json:"seconds"`
	Counts          ledger.Counts `json:"counts"` // of the whole run, warming up included
	ConfirmedPerSec float64       `json:"confirmed_per_s"`
	DeliveredPerSec float64       `json:"delivered_per_s"`
	Confirm         Latency       `json:"confirm"`
	EndToEnd        Latency       `json:"end_to_end"`

	// GeneratorLate is the longest that a publisher was behind its own schedule; it is part of the latencies.
	GeneratorLate float64 `json:"generator_late_ms,omitempty"`

	NodeCPU   []float64 `json:"node_cpu_us_per_msg,omitempty"` // of each node, per confirmed message
	CPU       float64   `json:"cpu_us_per_msg,omitempty"`      // of all nodes
	ClientCPU float64   `json:"client_cpu_us_per_msg"`
	NodeMB    []float64 `json:"node_peak_mb,omitempty"`
	MB        float64   `json:"peak_mb,omitempty"`

	Failover *Failover `json:"failover,omitempty"`
	Sync     *Sync     `json:"sync,omitempty"`
	Ring     *Ring     `json:"ring,omitempty"`

	ConfirmSeries []Point `json:"confirm_series,omitempty"`
	DeliverSeries []Point `json:"deliver_series,omitempty"`
}

// Ring is one benchmark of the ring by itself.
type Ring struct {
	Name    string             `json:"name"`
	Figures map[string]float64 `json:"figures"` // by unit
}

// Failover is what a failure cost.
type Failover struct {
	Failure       string  `json:"failure"`
	Led           bool    `json:"led"`               // the node that went was the leader of the metadata's Raft group, too
	FirstConfirm  float64 `json:"first_confirm_ms"`  // from the failure to the first confirm of a message that was due after it
	FirstDelivery float64 `json:"first_delivery_ms"` // the same for deliveries
	Lost          uint64  `json:"lost"`
	Doubled       uint64  `json:"doubled"` // deliveries of a message that had been delivered before
	Unmarked      uint64  `json:"doubled_without_redelivered"`
	Reconnects    int     `json:"reconnects"`
}

func (r *Result) use(u proc.Usage, client time.Duration, confirmed uint64) {
	per := func(d time.Duration) float64 { return float64(d.Microseconds()) / float64(max(confirmed, 1)) }
	for i, c := range u.CPU {
		r.NodeCPU = append(r.NodeCPU, per(c))
		r.NodeMB = append(r.NodeMB, float64(u.PeakRSS[i])/1e6)
	}
	r.CPU, r.ClientCPU, r.MB = per(u.Total()), per(client), float64(u.SumPeak)/1e6
}
