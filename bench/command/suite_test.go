package command

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"warren/bench/fakebroker"
	"warren/bench/peer"
)

// TestSuite: a measurement that fails takes nothing from the others; the page is written, names it, and the exit status tells.
func TestSuite(t *testing.T) {
	set := shortSet
	defer func() { shortSet = set }()
	b := fakebroker.Start(t, fakebroker.Faults{})
	dir := t.TempDir()
	page, file := filepath.Join(dir, "docs", "page.md"), filepath.Join(dir, "out", "results")
	run := func(lines ...string) (int, string) {
		shortSet = lines
		var stdout, stderr bytes.Buffer
		code := Run(t.Context(), strings.Fields("suite --page "+page+" --json "+file+" -- --idle 0.3 --kinds plain --uris "+b.URI), &stdout, &stderr)
		text, _ := os.ReadFile(page)
		return code, string(text) + stderr.String()
	}
	const good = "throughput -c 20 -s 100 -z 0.2 --warmup 0.1 --rate 1000"
	if code, out := run("failover -z 0.1", good); code != exitFailed || !strings.Contains(out, "named plain") ||
		!strings.Contains(out, "What failed") || !strings.Contains(out, "failover of a queue that has one copy") {
		t.Errorf("one fails: status %d\n%s", code, out)
	}
	if code, out := run(good); code != exitOK || !strings.Contains(out, "named plain") || strings.Contains(out, "What failed") {
		t.Errorf("none fails: status %d\n%s", code, out)
	}
	before, _ := os.ReadFile(page)
	if code, out := run("failover -z 0.1"); code != exitFailed || !strings.Contains(out, "is left as it is") {
		t.Errorf("all fail: status %d\n%s", code, out)
	}
	if after, _ := os.ReadFile(page); !bytes.Equal(before, after) {
		t.Error("the page was overwritten with nothing")
	}
}

// The sets consist of commands that exist, with flags that they have.
func TestSetsAreValid(t *testing.T) {
	for _, s := range []suite{{json: "x"}, {json: "x", peer: "rabbitmq"}} {
		n := 0
		for _, line := range fullSet {
			measurement, args, ok := s.call(line)
			if !ok {
				continue
			}
			n++
			o, err := parse(measurement, args, os.Stderr)
			if err != nil {
				t.Errorf("%s: %v", line, err)
			} else if peer := len(o.peers) > 0; peer != (s.peer != "" && measurement != "ring" && !strings.Contains(line, "--no-peer")) {
				t.Errorf("%s: peer %v", line, peer)
			}
		}
		if want := len(fullSet) - 2; s.peer == "" && n != want {
			t.Errorf("%d commands without a peer, want %d", n, want)
		}
	}
}

func TestParseRing(t *testing.T) {
	rs := parseRing("goos: linux\nBenchmarkRing/size=1k/ring=3-2   \t 1000\t 7 ns/op\t 12.5 cpu-µs/msg\t 250000 msg/s\t 3 allocs/op\nPASS\n")
	if len(rs) != 1 || rs[0].Ring.Name != "Ring/size=1k/ring=3" || rs[0].Ring.Figures["msg/s"] != 250000 || rs[0].Ring.Figures["cpu-µs/msg"] != 12.5 {
		t.Errorf("%+v", rs)
	}
}

// A peer does once what Warren does by several strategies, or with several victims, and no more often than it is told.
func TestWorkOfAPeer(t *testing.T) {
	o, err := parse("sync", strings.Fields("--strategy online,blocking --runs 3 --peer-runs 1"), os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	o.uris = words{"amqp://127.0.0.1:1"}
	s := &session{o: o, progress: newProgress(os.Stderr)}
	clusters, err := s.start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	peer := s.targets(clusters)[0]
	var got []string
	for _, w := range s.works() {
		for run := range o.runs {
			if w, ok := s.workOf(peer, w, run); ok {
				got = append(got, w.Strategy)
			}
		}
	}
	if len(got) != 1 || got[0] != "" {
		t.Errorf("%q, want the broker's own way once", got)
	}
}

// poolCluster is a cluster that counts its starts and ends.
type poolCluster struct {
	peer.Cluster
	ended *int
	dead  bool
}

func (c *poolCluster) PIDs() ([]int, error) {
	if c.dead {
		return nil, errors.New("a node does not run")
	}
	return nil, nil
}

func (c *poolCluster) Shutdown(context.Context) error {
	*c.ended++
	return nil
}

// Clusters run on from one measurement to the next, unless a node is missing; what the next does not need is stopped.
func TestPool(t *testing.T) {
	started, ended := 0, 0
	p := &pool{map[string]peer.Cluster{}}
	get := func(name string) *poolCluster {
		t.Helper()
		c, err := p.get(t.Context(), name, func() (peer.Cluster, error) {
			started++
			return &poolCluster{ended: &ended}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return c.(*poolCluster)
	}
	a := get("warren")
	if get("warren") != a || started != 1 {
		t.Errorf("%d starts", started)
	}
	a.dead = true
	if get("warren") == a || started != 2 || ended != 1 {
		t.Errorf("a node is missing: %d starts, %d ends", started, ended)
	}
	get("rabbitmq")
	if err := p.keep(t.Context(), needs("sync", []string{"--runs", "3"})...); err != nil || ended != 2 || len(p.clusters) != 1 {
		t.Errorf("the peer is not needed: %d ends, %v", ended, err)
	}
	if err := p.keep(t.Context(), needs("ring", nil)...); err != nil || ended != 3 {
		t.Errorf("none is needed: %d ends, %v", ended, err)
	}
	if got := needs("sync", strings.Fields("--no-warren --peer rabbitmq")); len(got) != 1 || got[0] != "rabbitmq" {
		t.Errorf("%q", got)
	}
}
