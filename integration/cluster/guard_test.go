package cluster

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestMain(m *testing.M) { os.Exit(Main(m)) }

// abandonEnv makes TestNodesEndWithTheirTest the process that is killed.
const abandonEnv = "WARREN_TEST_ABANDON"

// TestNodesEndWithTheirTest kills a test process while the first of its nodes run already and others are still being started: none is
// left, nor the binary that it built.
func TestNodesEndWithTheirTest(t *testing.T) {
	if os.Getenv(abandonEnv) != "" {
		c := Prepare(t, 3)
		fmt.Println(c.Dir)
		fmt.Println(c.bin)
		c.startAll(c.bin)
		_, _ = io.Copy(io.Discard, os.Stdin)
		t.Fatal("nobody killed this process")
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestNodesEndWithTheirTest$")
	cmd.Env = append(os.Environ(), abandonEnv+"=1")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stdout)
	lines.Scan()
	dir := lines.Text()
	lines.Scan()
	bin := lines.Text()
	if filepath.Base(bin) != "warren" {
		_ = cmd.Process.Kill()
		t.Fatalf("the test process said %q and %q: %v", dir, bin, cmd.Wait())
	}
	defer os.RemoveAll(dir)
	Eventually(t, startTimeout, "a node runs", func() bool { return running(t, filepath.Join(dir, "rabbit1")) > 0 })
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	Eventually(t, startTimeout, "the binary is removed", func() bool {
		_, err := os.Stat(bin)
		return errors.Is(err, fs.ErrNotExist)
	})
	if n := running(t, dir); n > 0 {
		t.Errorf("%d processes of %s are left", n, dir)
	}
}

// running counts the processes whose arguments name a directory.
func running(t *testing.T, dir string) (n int) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil || len(files) == 0 {
		t.Fatalf("list the processes: %d, %v", len(files), err)
	}
	for _, file := range files {
		args, err := os.ReadFile(file)
		if err == nil && bytes.Contains(args, []byte(dir)) {
			n++
		}
	}
	return n
}

// TestGuardSeesOnlyItsOwn: what has another registry is no process of this cluster.
func TestGuardSeesOnlyItsOwn(t *testing.T) {
	own, other := t.TempDir(), t.TempDir()
	var pids []int
	for _, dir := range []string{own, other} {
		cmd := exec.Command("sleep", "60")
		cmd.Env = []string{registryEnv + dir}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
		pids = append(pids, cmd.Process.Pid)
	}
	// exec has replaced what Start forked, with its environment, by the time that Start returns.
	if got := processesOf(map[string]bool{registryEnv + own: true}); len(got) != 1 || got[0] != pids[0] {
		t.Errorf("processes of the cluster: %v, want %v", got, pids[:1])
	}
	binaries := t.TempDir()
	began := time.Now()
	if err := watch(strings.NewReader(own+"x\n"), binaries); err != nil || time.Since(began) > 5*time.Second {
		t.Errorf("nothing was to be done: %v after %v", err, time.Since(began))
	}
	if _, err := os.Stat(binaries); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the binaries are still there: %v", err)
	}
	if got := processesOf(map[string]bool{registryEnv + own: true}); len(got) != 1 {
		t.Error("the guard of a cluster with a longer name killed a process of this one")
	}
}
