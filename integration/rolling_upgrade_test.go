//go:build upgrade

package integration

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"warren/integration/cluster"
)

// upgradeFrom is the oldest commit that a running cluster can be upgraded from, and back to; with the first tag it becomes that. Nodes of
// commits before do not know what mirrors are synchronised with.
const upgradeFrom = "7c3a63f"

// oldBinary builds warren as it was at upgradeFrom.
func oldBinary(t *testing.T) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	dir := t.TempDir()
	run := func(dir, name string, args ...string) error {
		cmd := exec.CommandContext(ctx, name, args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Logf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
			return err
		}
		return nil
	}
	if err := run("..", "git", "cat-file", "-e", upgradeFrom+"^{commit}"); err != nil {
		t.Fatalf("the history does not reach back to %s: this looks like a shallow clone; get the rest with `git fetch --unshallow`", upgradeFrom)
	}
	archive := filepath.Join(dir, "old.tar")
	for _, step := range []error{
		run("..", "git", "archive", "-o", archive, upgradeFrom), os.Mkdir(filepath.Join(dir, "src"), 0o700),
		run(dir, "tar", "-xf", archive, "-C", "src"),
		run(filepath.Join(dir, "src"), "go", "build", "-o", filepath.Join(dir, "warren"), "./ctl/warren"),
	} {
		if step != nil {
			t.Fatalf("build %s: %v", upgradeFrom, step)
		}
	}
	return filepath.Join(dir, "warren")
}

// TestRollingUpgrade rolls a cluster of an older build to this one and back, with publishers in confirm mode and a consumer at
// work: nothing is lost, nothing that was acknowledged comes again, and the longest wait for a confirm is measured. It needs
// the history and takes a minute: `make upgrade-test`.
func TestRollingUpgrade(t *testing.T) {
	old := oldBinary(t)
	for _, nodes := range []int{3, 2} {
		c := cluster.StartWith(t, nodes, old)
		c.Ctl(1, mirrorAll...)
		declareQueue(t, c, 1, "orders")
		mirrorsListed(t, c, 1, "orders", nodes-1)
		for _, to := range []string{cluster.Binary(t), old} {
			rollUnderLoad(t, c, to)
		}
	}
}
