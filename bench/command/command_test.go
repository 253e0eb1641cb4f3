package command

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"warren/bench/fakebroker"
	"warren/bench/measure"
	"warren/bench/report"
)

func TestFlags(t *testing.T) {
	o, err := parse("throughput", strings.Fields("-x 2 -y 3 -c 50 -q 100 -A 10 -s 2048 -z 1.5 -f transient --rate 30 --queues 4 --peer rabbitmq"), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	want := measure.Params{
		Publishers: 2, Consumers: 3, Window: 50, Prefetch: 100, AckEvery: 10, Size: 2048, Rate: 30, Queues: 4, Connect: measure.ConnectMaster,
		Duration: 1500 * time.Millisecond, Warmup: 3 * time.Second, Idle: 15 * time.Second, Failure: measure.FailKill, SideRate: 200, Prove: true,
	}
	if o.p != want {
		t.Errorf("%+v, want %+v", o.p, want)
	}
	o, err = parse("sync", strings.Fields("--depth 10k,300k --bodies 100,1024 --batch-size 2 --batch-size 50 --strategy online,blocking"), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if works := (&session{o: o}).works(); len(works) != 16 || works[0].Depth != 10_000 || works[15].BatchSize != 50 || works[15].Size != 1024 {
		t.Errorf("%d works, %+v", len(works), works)
	}
	if o, err = parse("latency", nil, io.Discard); err != nil || o.p.Rate != 2000 {
		t.Errorf("the default rate of latency is %v, %v", o.p.Rate, err)
	}
}

func TestWrongUsage(t *testing.T) {
	for _, args := range []string{
		"throughput -c 0", "throughput -s 3", "throughput -f durable", "throughput -A 9 -q 3", "latency -A 2", "throughput --connect x",
		"failover --failure fire", "throughput extra", "dance", "", "throughput --no-such-flag", "sync --depth many", "throughput -z 0",
		"report", "throughput --peer kafka --no-warren",
	} {
		var stderr bytes.Buffer
		if code := Run(t.Context(), strings.Fields(args), io.Discard, &stderr); code != exitUsage || stderr.Len() == 0 {
			t.Errorf("%q: status %d, %q", args, code, stderr.String())
		}
	}
	if code := Run(t.Context(), []string{"throughput", "-h"}, io.Discard, io.Discard); code != exitOK {
		t.Errorf("-h: status %d", code)
	}
}

// TestRunAgainstABroker goes the whole way: flags, load, table, JSON lines, and the exit status when the broker loses a message.
func TestRunAgainstABroker(t *testing.T) {
	file := filepath.Join(t.TempDir(), "results")
	run := func(f fakebroker.Faults) (int, string) {
		b := fakebroker.Start(t, f)
		var stdout, stderr bytes.Buffer
		args := strings.Fields("throughput --kinds plain -c 20 -s 100 -z 0.2 --warmup 0.1 --idle 0.3 --rate 1000 --json " + file + " --uris " + b.URI)
		code := Run(t.Context(), args, &stdout, &stderr)
		return code, stdout.String() + stderr.String()
	}
	code, out := run(fakebroker.Faults{})
	if code != exitOK || !strings.Contains(out, "named plain") || !strings.Contains(out, "confirmed/s") {
		t.Errorf("status %d:\n%s", code, out)
	}
	if code, out := run(fakebroker.Faults{Lose: 50}); code != exitFailed || !strings.Contains(out, "lost") {
		t.Errorf("a broker that loses a message: status %d:\n%s", code, out)
	}
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	results, err := report.ReadJSON(f)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	if len(results) != 1 || results[0].Measurement != "latency" || results[0].ConfirmedPerSec <= 0 {
		t.Errorf("%d results in the file, %+v", len(results), results)
	}
	var page bytes.Buffer
	if code := Run(t.Context(), []string{"report", file}, &page, io.Discard); code != exitOK || !strings.Contains(page.String(), "named plain") {
		t.Errorf("report: status %d, %s", code, page.String())
	}
}
