package localcluster

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"warren/ctl/locate"
)

// Process is the node's process; ok is false when none runs.
func (n Node) Process() (p locate.Process, ok bool) {
	content, err := os.ReadFile(n.PIDFile())
	if err != nil {
		return locate.Process{}, false
	}
	fields := strings.Fields(string(content))
	if len(fields) != 2 {
		return locate.Process{}, false
	}
	pid, err := strconv.Atoi(fields[0])
	if err != nil {
		return locate.Process{}, false
	}
	start, err := strconv.ParseUint(fields[1], 10, 64)
	if err != nil {
		return locate.Process{}, false
	}
	p = locate.Process{PID: pid, Start: start}
	return p, p.Alive()
}

// checkPorts finds out whether somebody else listens where the node will.
func (n Node) checkPorts() error {
	for _, port := range []struct {
		number int
		use    string
	}{{n.AMQPPort, "AMQP"}, {n.InternodePort, "inter-node"}} {
		l, err := net.Listen("tcp", loopback(port.number))
		if errors.Is(err, syscall.EADDRINUSE) {
			return fmt.Errorf("port %d (%s of %s) is in use; stop what listens there, or choose other ports with --port-offset",
				port.number, port.use, n.Name)
		}
		if err != nil {
			return fmt.Errorf("port %d (%s of %s): %w", port.number, port.use, n.Name, err)
		}
		if err := l.Close(); err != nil {
			return fmt.Errorf("port %d (%s of %s): %w", port.number, port.use, n.Name, err)
		}
	}
	return nil
}

// child is a process that this one started.
type child struct {
	node    Node
	process locate.Process
	ended   chan struct{} // closed when it was waited for
}

// spawn starts the node's process in a session of its own, so that Ctrl-C in the terminal is for the tool alone.
func (c *Cluster) spawn(n Node, binary string) (*child, error) {
	fail := func(err error) (*child, error) { return nil, fmt.Errorf("start %s: %w", n.Name, err) }
	if p, ok := n.Process(); ok {
		return nil, fmt.Errorf("start %s: it runs already, as process %d", n.Name, p.PID)
	}
	if err := n.checkPorts(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(n.Dir, 0o755); err != nil {
		return fail(err)
	}
	if _, err := locate.EnsureCookie(n.CookieFile); err != nil {
		return fail(err)
	}
	extra, err := os.ReadFile(n.ExtraConfigFile())
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fail(err)
	}
	if err := os.WriteFile(n.ConfigFile(), append([]byte(c.config(n)), extra...), 0o644); err != nil {
		return fail(err)
	}
	log, err := os.OpenFile(n.LogFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fail(err)
	}
	defer log.Close() // the child has its own
	cmd := exec.Command(binary, "server", "--node", n.Name, "--data", n.DataDir(), "--config", n.ConfigFile(), "--cookie-file", n.CookieFile)
	cmd.Dir = c.dir
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return fail(err)
	}
	p, err := locate.ProcessOf(cmd.Process.Pid)
	if err == nil {
		err = writePIDFile(n.PIDFile(), p)
	}
	if err != nil {
		return fail(errors.Join(err, cmd.Process.Kill(), cmd.Wait()))
	}
	started := &child{node: n, process: p, ended: make(chan struct{})}
	go func() { // owned by the process: it ends with the child, or with the tool that leaves it behind
		defer close(started.ended)
		_ = cmd.Wait() // how it ended is in its log
	}()
	return started, nil
}

func writePIDFile(file string, p locate.Process) error {
	temp := file + ".new"
	if err := os.WriteFile(temp, fmt.Appendf(nil, "%d\n%d\n", p.PID, p.Start), 0o644); err != nil {
		return fmt.Errorf("write pid file: %w", err)
	}
	if err := os.Rename(temp, file); err != nil {
		return fmt.Errorf("write pid file: %w", err)
	}
	return nil
}

// lastLog is the end of the node's log, for the message about why it did not start.
func (n Node) lastLog() string {
	const tail = 2048
	f, err := os.Open(n.LogFile())
	if err != nil {
		return ""
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > tail {
		if _, err := f.Seek(-tail, io.SeekEnd); err != nil {
			return ""
		}
	}
	content, err := io.ReadAll(io.LimitReader(f, tail))
	if err != nil {
		return ""
	}
	return lastErrors(string(content))
}

// lastErrors are the lines at the end of a log that tell faults, such as all those of a configuration, or else its last line.
func lastErrors(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	first := len(lines) - 1
	for strings.HasPrefix(lines[first], "Error: ") && first > 0 && strings.HasPrefix(lines[first-1], "Error: ") {
		first--
	}
	return strings.Join(lines[first:], "\n")
}

// Tool is how the user calls one of the tools: by the link beside the binary, or as its subcommand.
func Tool(binary string) string {
	link := filepath.Join(filepath.Dir(binary), "rabbitmqctl")
	if _, err := os.Stat(link); err == nil {
		return link
	}
	return binary + " ctl"
}
