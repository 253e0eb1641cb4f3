package report

import (
	"bytes"
	"strings"
	"testing"

	"warren/bench/measure"
)

func headline(t *testing.T, results ...*measure.Result) map[string][]string {
	t.Helper()
	var out bytes.Buffer
	if err := Headline(&out, results); err != nil {
		t.Fatal(err)
	}
	rows := map[string][]string{}
	for _, line := range strings.Split(out.String(), "\n") {
		if cells := strings.Split(strings.Trim(line, "| "), " | "); len(cells) == 6 {
			rows[cells[0]] = cells[1:]
		}
	}
	return rows
}

func rate(peer string, kind measure.Kind, perSec float64) *measure.Result {
	return &measure.Result{
		Measurement: "throughput", Peer: peer, Queue: kind, ConfirmedPerSec: perSec, CPU: 25,
		Params: measure.Params{Publishers: 1, Consumers: 1, Queues: 1, Window: 1000, Size: 1024},
	}
}

func syncOf(peer, strategy string, depth int, seconds float64) *measure.Result {
	return &measure.Result{
		Measurement: "sync", Peer: peer, Queue: measure.Mirrored, Params: measure.Params{Depth: depth, Size: 1024, Strategy: strategy},
		Sync: &measure.Sync{Depth: depth, Seconds: seconds},
	}
}

// A line of the headline has the median of our runs, their spread and number, the peers' with the ratio, and the verdict. Whether a
// multiple of a peer is reached is not told without the peer.
func TestHeadline(t *testing.T) {
	const what = "confirmed per second, one publisher and consumer, window 1000"
	ours := []*measure.Result{rate("warren", measure.Mirrored, 50000), rate("warren", measure.Mirrored, 70000), rate("warren", measure.Mirrored, 58000)}
	mirrored, quorum := rate("rabbitmq", measure.Mirrored, 7000), rate("rabbitmq", measure.Quorum, 20000)
	got := headline(t, append(ours, mirrored, quorum)...)[what]
	want := []string{
		"58000 (50000–70000), 3 runs", "7000, 1 run; Warren 8.29 ×", "20000, 1 run; Warren 2.9 ×", "≥ 8 × mirrored, ≥ 3 × quorum",
		"**no** (0.967 × the aim)",
	}
	if strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("%q, want %q", got, want)
	}
	quorum.ConfirmedPerSec = 19000
	if got := headline(t, append(ours, mirrored, quorum)...)[what][4]; got != "yes" {
		t.Errorf("an aim that is reached: %q", got)
	}
	if got := headline(t, append(ours, mirrored)...)[what][4]; got != "no peer in this run" {
		t.Errorf("without a quorum queue: %q", got)
	}
	if got := headline(t, ours...)["CPU of all three nodes per message, same load"][4]; got != "**no** (1.25 × the aim)" {
		t.Errorf("25 µs of at most 20: %q", got)
	}
}

// Synchronisations of another depth or strategy are not taken for the ones that the aims speak of, and what a peer does by itself
// stands beside our strategies.
func TestHeadlineTakesWhatItNames(t *testing.T) {
	rows := headline(t, syncOf("warren", "online", 300_000, 1.25), syncOf("warren", "online", 100_000, 0.1), syncOf("warren", "blocking", 300_000, 0.2),
		syncOf("warren", "delta", 300_000, 2), syncOf("rabbitmq", "", 300_000, 5), syncOf("rabbitmq", "delta", 300_000, 9))
	online, back := rows["synchronising 300,000 × 1 KiB, online"], rows["back after a restart, queue of 300,000 (start of the process included)"]
	if online[0] != "1.25 s, 1 run" || !strings.HasPrefix(online[1], "5.00 s") || online[4] != "yes" {
		t.Errorf("online: %q", online)
	}
	if back[0] != "2.00 s, 1 run" || !strings.HasPrefix(back[1], "9.00 s") || back[4] != "**no** (2 × the aim)" {
		t.Errorf("delta: %q", back)
	}
	if got := rows["confirm latency at window 1, p50"]; got[0] != notMeasured || got[4] != notMeasured {
		t.Errorf("what was not measured: %q", got)
	}
}
