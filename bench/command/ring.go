package command

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"warren/bench/measure"
	"warren/bench/report"
)

// ringPackage holds the ring's benchmarks.
const ringPackage = "./dataplane/gm/driver"

// runRing runs the ring's own Go benchmarks: a ring over loopback in one process, without AMQP and storage, and a bare chain
// to compare it with. An argument is a pattern of benchmarks, without the word Benchmark. It is called in the module's directory
// and needs Go.
func runRing(ctx context.Context, o *options, command string, stdout, stderr io.Writer) error {
	pattern := "BenchmarkRing|BenchmarkChain"
	if len(o.inputs) > 0 {
		pattern = "Benchmark" + o.inputs[0]
	}
	began := time.Now()
	cmd := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-bench", pattern, "-benchmem", "-count", strconv.Itoa(o.runs), ringPackage)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = io.MultiWriter(&out, stderr), stderr
	runErr := cmd.Run()
	if runErr != nil {
		runErr = fmt.Errorf("run the benchmarks of %s: %w", ringPackage, runErr)
	}
	results := parseRing(out.String())
	for _, r := range results {
		r.Start, r.Command, r.Machine = began, command, machine()
		if err := o.save(r); err != nil {
			return err
		}
	}
	if len(results) == 0 {
		if runErr == nil {
			runErr = fmt.Errorf("no benchmark of %s is called %q", ringPackage, pattern)
		}
		return runErr
	}
	if err := report.Table(stdout, results); err != nil {
		return err
	}
	return runErr
}

// parseRing reads what Go's benchmarks print: a name, how often, and pairs of a value and its unit.
func parseRing(out string) (results []*measure.Result) {
	for _, line := range strings.Split(out, "\n") {
		f := strings.Fields(line)
		if len(f) < 4 || !strings.HasPrefix(f[0], "Benchmark") {
			continue
		}
		name := strings.TrimPrefix(f[0], "Benchmark")
		if i := strings.LastIndexByte(name, '-'); i > 0 {
			name = name[:i] // the number of processors
		}
		figures := map[string]float64{}
		for i := 2; i+1 < len(f); i += 2 {
			if v, err := strconv.ParseFloat(f[i], 64); err == nil {
				figures[f[i+1]] = v
			}
		}
		results = append(results, &measure.Result{Measurement: "ring", Peer: "warren", Ring: &measure.Ring{Name: name, Figures: figures}})
	}
	return results
}
