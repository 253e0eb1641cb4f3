package report

import (
	"fmt"
	"io"
	"strings"

	"warren/bench/measure"
)

// aim is a line of the headline: what is measured, on which results, and what Warren is to reach.
type aim struct {
	what   string
	format string // of a figure
	of     func(*measure.Result) bool
	value  func(*measure.Result) float64
	aim    string
	most   float64            // at most, 0: no such aim
	least  float64            // at least
	times  map[string]float64 // at least so many times a peer's
}

// Who stands in the columns.
const (
	ours          = "warren mirrored"
	peersMirrored = "rabbitmq mirrored"
	peersQuorum   = "rabbitmq quorum"
)

const kib = 1024 // the size of the messages that the aims speak of

func load(queues, window int, rate float64) func(*measure.Result) bool {
	return func(r *measure.Result) bool {
		p := r.Params
		return (r.Measurement == "throughput" || r.Measurement == "latency") && p.Queues == queues && p.Window == window && p.Rate == rate && p.Size == kib
	}
}

func latencyAt(rate float64) func(*measure.Result) bool {
	return func(r *measure.Result) bool {
		return r.Measurement == "latency" && r.Params.Rate == rate && r.Params.Size == kib
	}
}

// failing are failovers; those of a peer, which has no Raft group beside its queues, stand beside each of ours.
func failing(failure, victim string) func(*measure.Result) bool {
	return func(r *measure.Result) bool {
		return r.Measurement == "failover" && r.Params.Failure == failure && (r.Params.Victim == victim || victim == "" || r.Peer != "warren")
	}
}

// deep are synchronisations of 300,000 messages; a peer's own way stands beside each strategy that copies.
func deep(strategy string) func(*measure.Result) bool {
	return func(r *measure.Result) bool {
		p := r.Params
		same := p.Strategy == strategy || r.Peer != "warren" && p.Strategy == measure.StrategyDefault && strategy != measure.StrategyDelta
		return r.Measurement == "sync" && p.Depth == 300_000 && p.Size == kib && p.BatchSize == 0 && same
	}
}

func confirmed(r *measure.Result) float64    { return r.ConfirmedPerSec }
func firstConfirm(r *measure.Result) float64 { return r.Failover.FirstConfirm }

var aims = []aim{
	{
		what: "confirmed per second, one publisher and consumer, window 1000", format: "%.0f", of: load(1, 1000, 0), value: confirmed,
		aim: "≥ 8 × mirrored, ≥ 3 × quorum", times: map[string]float64{peersMirrored: 8, peersQuorum: 3},
	},
	{
		what: "CPU of all three nodes per message, same load", format: "%.1f µs", of: load(1, 1000, 0),
		value: func(r *measure.Result) float64 { return r.CPU }, aim: "≤ 20 µs", most: 20,
	},
	{
		what: "confirmed per second, ten queues with a publisher and a consumer each", format: "%.0f", of: load(10, 1000, 0), value: confirmed,
		aim: "≥ 8 × mirrored", times: map[string]float64{peersMirrored: 8},
	},
	{
		what: "confirm latency at window 1, p50", format: "%.2f ms", of: load(1, 1, 0),
		value: func(r *measure.Result) float64 { return r.Confirm.P50 }, aim: "≤ 0.65 ms", most: 0.65,
	},
	{
		what: "confirm latency at 2,000 per second, p99", format: "%.1f ms", of: latencyAt(2000),
		value: func(r *measure.Result) float64 { return r.Confirm.P99 }, aim: "≤ 4 ms", most: 4,
	},
	{
		what: "memory of three nodes under load (window 1000)", format: "%.0f MB", of: load(1, 1000, 0),
		value: func(r *measure.Result) float64 { return r.MB }, aim: "≤ 300 MB", most: 300,
	},
	{
		what: "SIGKILL of the master until the first confirm", format: "%.0f ms", of: failing(measure.FailKill, measure.VictimFollower),
		value: firstConfirm, aim: "≤ 100 ms", most: 100,
	},
	{
		what: "… if it was the Raft leader too", format: "%.0f ms", of: failing(measure.FailKill, measure.VictimLeader), value: firstConfirm,
		aim: "≤ 300 ms", most: 300,
	},
	{
		what: "the master falls silent (SIGSTOP) until the first confirm", format: "%.0f ms", of: failing(measure.FailPartition, ""),
		value: firstConfirm, aim: "–",
	},
	{
		what: "synchronising 300,000 × 1 KiB, online", format: "%.2f s", of: deep(measure.StrategyOnline),
		value: func(r *measure.Result) float64 { return r.Sync.Seconds }, aim: "≤ 1.5 s", most: 1.5,
	},
	{
		what: "… bytes of messages per second", format: "%.0f MB/s", of: deep(measure.StrategyOnline),
		value: func(r *measure.Result) float64 { return r.Sync.MBPerSec }, aim: "≥ 200 MB/s", least: 200,
	},
	{
		what: "… longest wait for a confirm", format: "%.0f ms", of: deep(measure.StrategyOnline),
		value: func(r *measure.Result) float64 { return r.Sync.Queue.ConfirmDuring.Max }, aim: "≤ 50 ms", most: 50,
	},
	{
		what: "… longest wait for a delivery", format: "%.0f ms", of: deep(measure.StrategyOnline),
		value: func(r *measure.Result) float64 { return r.Sync.Queue.DeliverDuring.Max }, aim: "≤ 50 ms", most: 50,
	},
	{
		what: "… longest wait for a confirm on a neighbour queue", format: "%.0f ms", of: deep(measure.StrategyOnline),
		value: func(r *measure.Result) float64 { return r.Sync.Neighbour.ConfirmDuring.Max }, aim: "≤ 20 ms", most: 20,
	},
	{
		what: "… longest time from publisher to consumer on a neighbour queue", format: "%.0f ms", of: deep(measure.StrategyOnline),
		value: func(r *measure.Result) float64 { return r.Sync.Neighbour.DeliverDuring.Max }, aim: "≤ 20 ms", most: 20,
	},
	{
		what: "the same copy, blocking: longest wait for a confirm", format: "%.0f ms", of: deep(measure.StrategyBlocking),
		value: func(r *measure.Result) float64 { return r.Sync.Queue.ConfirmDuring.Max }, aim: "–",
	},
	{
		what: "back after a restart, queue of 300,000 (start of the process included)", format: "%.2f s", of: deep(measure.StrategyDelta),
		value: func(r *measure.Result) float64 { return r.Sync.Seconds }, aim: "≤ 1 s", most: 1,
	},
}

const notMeasured = "not in this run"

// Headline writes the table of the aims: the median of what was measured on each target, with the least and the greatest run,
// and whether Warren's median reaches the aim. Nothing is written where none of it was measured.
func Headline(w io.Writer, results []*measure.Result) error {
	out := "\n| measured on the same work | Warren | RabbitMQ mirrored | RabbitMQ quorum | aim | met? |\n| --- | --- | --- | --- | --- | --- |\n"
	found := false
	for _, a := range aims {
		of := map[string][]*measure.Result{}
		for _, r := range results {
			if a.of(r) {
				label := fmt.Sprintf("%s %s", r.Peer, r.Queue)
				of[label] = append(of[label], r)
			}
		}
		found = found || len(of) > 0
		cells := []string{a.what, a.cell(of[ours]), a.beside(of, peersMirrored), a.beside(of, peersQuorum), a.aim, a.met(of)}
		out += "| " + strings.Join(cells, " | ") + " |\n"
	}
	if !found {
		return nil
	}
	out += "\nEach figure is the median of its runs, with the least and the greatest in brackets where they differ, and the number of runs.\n"
	if _, err := io.WriteString(w, out); err != nil {
		return fmt.Errorf("write the headline: %w", err)
	}
	return nil
}

func (a *aim) cell(runs []*measure.Result) string {
	if len(runs) == 0 {
		return notMeasured
	}
	mid, least, most := median(runs, a.value)
	out := fmt.Sprintf(a.format, mid)
	number, _, _ := strings.Cut(a.format, " ")
	if low, high := fmt.Sprintf(number, least), fmt.Sprintf(number, most); low != high {
		out += fmt.Sprintf(" (%s–%s)", low, high)
	}
	if len(runs) == 1 {
		return out + ", 1 run"
	}
	return fmt.Sprintf("%s, %d runs", out, len(runs))
}

// beside is a peer's cell, with how many times more or less Warren's figure is.
func (a *aim) beside(of map[string][]*measure.Result, label string) string {
	out := a.cell(of[label])
	if len(of[label]) == 0 || len(of[ours]) == 0 {
		return out
	}
	mine, _, _ := median(of[ours], a.value)
	theirs, _, _ := median(of[label], a.value)
	if theirs == 0 || mine == 0 {
		return out
	}
	return fmt.Sprintf("%s; Warren %s ×", out, ratio(mine/theirs))
}

// met says whether the aim is reached, by how much it is missed, or that it cannot be told.
func (a *aim) met(of map[string][]*measure.Result) string {
	if a.aim == "–" {
		return "–"
	}
	if len(of[ours]) == 0 {
		return notMeasured
	}
	mid, _, _ := median(of[ours], a.value)
	switch {
	case a.most > 0:
		return verdict(mid <= a.most, mid/a.most)
	case a.least > 0:
		return verdict(mid >= a.least, mid/a.least)
	}
	for label := range a.times {
		if len(of[label]) == 0 {
			return "no peer in this run"
		}
	}
	ok, worst := true, 0.0
	for label, times := range a.times {
		theirs, _, _ := median(of[label], a.value)
		part := mid / (times * max(theirs, 1e-9))
		if ok = ok && part >= 1; worst == 0 || part < worst {
			worst = part
		}
	}
	return verdict(ok, worst)
}

// verdict names a miss with the figure as a part of the aim.
func verdict(ok bool, part float64) string {
	if ok {
		return "yes"
	}
	return fmt.Sprintf("**no** (%s × the aim)", ratio(part))
}

// ratio is a quotient with as many digits as tell it from 1.
func ratio(v float64) string {
	if v >= 100 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.3g", v)
}
