package report

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"warren/bench/measure"
)

func results() []*measure.Result {
	r := func(peer string, perSec float64) *measure.Result {
		return &measure.Result{
			Measurement: "throughput", Peer: peer, Queue: measure.Mirrored, ConfirmedPerSec: perSec, CPU: 1e6 / perSec,
			Params: measure.Params{Publishers: 1, Consumers: 1, Queues: 1, Window: 1000, Size: 1024}, Command: "warren-bench throughput",
		}
	}
	sync := &measure.Result{
		Measurement: "sync", Peer: "rabbitmq", Queue: measure.Mirrored, Params: measure.Params{Depth: 1000, Size: 100},
		Sync: &measure.Sync{Depth: 1000, Seconds: 2, BeganAt: 1, EndedAt: 3, Queue: measure.Beside{
			ConfirmSeries: []measure.Point{{At: 0, MS: 1}, {At: 3, MS: 2000}}, ConfirmDuring: measure.Latency{Max: 2000},
		}},
	}
	failover := &measure.Result{
		Measurement: "failover", Peer: "warren", Queue: measure.Mirrored, Params: measure.Params{Failure: "kill", Rate: 2000, Size: 100},
		Failover: &measure.Failover{FirstConfirm: 12}, ConfirmSeries: []measure.Point{{At: 1, MS: 2}},
	}
	return []*measure.Result{r("warren", 30000), r("rabbitmq", 6000), r("warren", 50000), r("warren", 41000), sync, failover}
}

func TestTableGivesMedianAndSpread(t *testing.T) {
	var out bytes.Buffer
	if err := Table(&out, results()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"41000 (30000–50000)", "  6000  ", "rabbitmq mirrored", "failover kill, 2000/s × 100 B", "sync 1000 × 100 B"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

func TestJSONLinesComeBack(t *testing.T) {
	var b bytes.Buffer
	for _, r := range results() {
		if err := WriteJSON(&b, r); err != nil {
			t.Fatal(err)
		}
	}
	if n := bytes.Count(b.Bytes(), []byte("\n")); n != len(results()) {
		t.Errorf("%d lines", n)
	}
	got, err := ReadJSON(&b)
	if err != nil || !reflect.DeepEqual(got, results()) {
		t.Errorf("%v, %+v", err, got)
	}
	if _, err := ReadJSON(strings.NewReader("{\"peer\": 3}\n")); err == nil {
		t.Error("what is no result is read")
	}
}

func TestDocumentNamesPicturesThatExist(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pictures")
	var out bytes.Buffer
	if err := Document(&out, dir, results(), []string{"warren-bench dance: no music"}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"6 runs", "| no peer in this run |", "warren-bench dance: no music"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	n := 0
	for _, part := range strings.Split(out.String(), "](")[1:] {
		name, _, _ := strings.Cut(part, ")")
		for _, ending := range []string{".png", ".svg"} {
			info, err := os.Stat(filepath.Join(filepath.Dir(dir), strings.TrimSuffix(name, ".png")+ending))
			if err != nil || info.Size() < 1000 {
				t.Errorf("picture %s%s: %v", name, ending, err)
			}
		}
		n++
	}
	if n != 6 { // throughput, CPU, the queue's and the neighbour's time line, the failover's, stalls
		t.Errorf("%d pictures:\n%s", n, out.String())
	}
}
