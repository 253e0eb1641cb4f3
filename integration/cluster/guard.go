package cluster

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"
)

// guardEnv makes a test binary the guard of another one; its value is the directory of that one's binaries.
const guardEnv = "WARREN_TEST_GUARD"

// Nodes are detached, so nothing ends them when a test process is killed or panics (as it does on its timeout). Its guard does: a
// process in a session of its own whose standard input is a pipe from the test process. It reads there where clusters are, and where the
// pipe ends, it kills what is left of them.
var guard struct {
	mu   sync.Mutex
	may  bool // Main was called: this binary knows how to be a guard
	pipe io.WriteCloser
	cmd  *exec.Cmd
	said bytes.Buffer // its standard error; to be read when it has ended
}

// Main runs the tests of a package that starts clusters, and cleans up after them; TestMain is to call it first of all and to exit with
// what it returns.
func Main(m *testing.M) (code int) {
	if dir := os.Getenv(guardEnv); dir != "" {
		if err := watch(os.Stdin, dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return 0
	}
	guard.may = true
	code = m.Run()
	if err := endGuard(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// startGuard starts the guard, which removes binaries in the end.
func startGuard(binaries string) error {
	guard.mu.Lock()
	defer guard.mu.Unlock()
	if !guard.may {
		return errors.New("guard the clusters of this test: its TestMain must call cluster.Main")
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("guard the clusters of this test: %w", err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), guardEnv+"="+binaries)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // Ctrl-C, and what kills the test's process group, are not for it
	cmd.Stderr = &guard.said
	pipe, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return fmt.Errorf("start the guard of this test's clusters: %w", err)
	}
	guard.pipe, guard.cmd = pipe, cmd
	return nil
}

// protect tells the guard of a cluster.
func protect(dir string) error {
	guard.mu.Lock()
	defer guard.mu.Unlock()
	if _, err := fmt.Fprintln(guard.pipe, dir); err != nil {
		return fmt.Errorf("tell the guard of the cluster in %s: %w", dir, err)
	}
	return nil
}

// endGuard waits until the guard has cleaned up.
func endGuard() error {
	guard.mu.Lock()
	defer guard.mu.Unlock()
	if guard.cmd == nil {
		return nil
	}
	err := guard.pipe.Close()
	if err = errors.Join(err, guard.cmd.Wait()); err != nil {
		return fmt.Errorf("end the guard of this test's clusters: %w: %s", err, guard.said.String())
	}
	return nil
}

// watch reads the directories of clusters, one a line, until there are no more; then it kills their processes and removes the
// binaries. The directories stay: they hold the logs.
func watch(in io.Reader, binaries string) error {
	owned := map[string]bool{}
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		owned[registryEnv+lines.Text()] = true
	}
	err := lines.Err()
	// What was killed may have started another just before: it takes two looks without any to be done.
	const limit, pause = 10 * time.Second, 50 * time.Millisecond
	began := time.Now()
	for clean := 0; clean < 2; time.Sleep(pause) {
		left := processesOf(owned)
		if clean++; len(left) > 0 {
			clean = 0
		}
		for _, pid := range left {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may be gone by now
		}
		if len(left) > 0 && time.Since(began) > limit {
			err = errors.Join(err, fmt.Errorf("processes %v do not end", left))
			break
		}
	}
	return errors.Join(err, os.RemoveAll(binaries))
}

// processesOf are the processes whose environment has one of these entries: nodes, and tools that are about to start some.
func processesOf(entries map[string]bool) (pids []int) {
	files, _ := filepath.Glob("/proc/[0-9]*/environ") // the pattern is well formed
	for _, file := range files {
		environ, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended, or is another user's
		}
		for entry := range bytes.SplitSeq(environ, []byte{0}) {
			if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil && entries[string(entry)] {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}
