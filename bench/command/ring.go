package command

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
)

// ringPackage holds the ring's benchmarks.
const ringPackage = "./dataplane/gm/driver"

// runRing runs the ring's own Go benchmarks: a ring over loopback in one process, without AMQP and storage, and a bare chain
// to compare it with. An argument is a pattern of benchmarks. It is called in the module's directory and needs Go.
func runRing(ctx context.Context, o *options, stdout, stderr io.Writer) error {
	pattern := "BenchmarkRing|BenchmarkChain"
	if len(o.inputs) > 0 {
		pattern = strings.Join(o.inputs, "|")
	}
	cmd := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-bench", pattern, "-benchmem", "-count", strconv.Itoa(o.runs), ringPackage)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("run the benchmarks of %s: %w", ringPackage, err)
	}
	return nil
}
