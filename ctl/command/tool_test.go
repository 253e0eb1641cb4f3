package command

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"warren/ctl/admin"
	"warren/ctl/locate"
)

func newSession(t *testing.T) *session {
	return &session{t: t, node: recordedState("queues"), nodeName: "rmq1@localhost"}
}

func (r result) want(t *testing.T, status int, stdout, stderr string) {
	t.Helper()
	if r.status != status || r.stdout != stdout || !strings.Contains(r.stderr, stderr) || stderr == "" && r.stderr != "" {
		t.Errorf("got exit %d\nstdout %q\nstderr %q\nwant exit %d\nstdout %q\nstderr %q", r.status, r.stdout, r.stderr, status, stdout, stderr)
	}
}

func TestToolByNameAndBySubcommand(t *testing.T) {
	s := newSession(t)
	for _, argv := range [][]string{
		{"/usr/sbin/rabbitmqctl", "-q", "ping"},
		{"warren", "ctl", "ping", "-q"},
		{"bin/warren", "diagnostics", "ping", "--quiet"},
		{"rabbitmq-diagnostics", "-q", "ping"},
	} {
		s.run(argv...).want(t, exitOK, "Ping succeeded\n", "")
	}
	s.run("rabbitmq-queues", "list_users").want(t, exitUsage, "", "Command 'list_users' not found.")
}

func TestWhichNode(t *testing.T) {
	s := newSession(t)
	for _, tc := range []struct {
		flags string
		want  Target
	}{
		{"", Target{Node: "rmq1@localhost"}},
		{"-n x", Target{Node: "x@HOST"}},
		{"--node x@y --address 127.0.0.1:9 --cookie-file c", Target{Node: "x@y", Address: "127.0.0.1:9", CookieFile: "c"}},
		{"--tls-cacertfile a --tls-certfile c --tls-keyfile k", Target{Node: "rmq1@localhost", TLS: locate.TLS{CACertFile: "a", CertFile: "c", KeyFile: "k"}}},
	} {
		s.run(append([]string{"rabbitmqctl", "list_users"}, strings.Fields(tc.flags)...)...)
		if s.target != tc.want {
			t.Errorf("%q: %+v", tc.flags, s.target)
		}
	}
	s.nodeName = ""
	s.run("rabbitmqctl", "list_users")
	if s.target.Node != "rabbit@HOST" {
		t.Errorf("default: %+v", s.target)
	}
}

func TestUnreachable(t *testing.T) {
	s := newSession(t)
	s.dialErr = errors.New("nobody home")
	for _, line := range []string{"list_queues", "status -q", "await_startup", "list_vhosts --formatter json"} {
		s.run(append([]string{"rabbitmqctl"}, strings.Fields(line)...)...).want(t, exitUnavailable, "",
			"Error: unable to perform an operation on node 'rmq1@localhost'.")
	}
	s.run("rabbitmqctl", "stop").want(t, exitUnavailable, "Stopping and halting node rmq1@localhost ...\n", "nobody home")
	s.run("rabbitmqctl", "stop", "--idempotent", "-q").want(t, exitOK, "Node rmq1@localhost is no longer running\n", "")
	s.run("rabbitmqctl", "ping").want(t, exitUnavailable,
		"Will ping rmq1@localhost. This only checks if the OS process is running and registered with epmd. Timeout: 60000 ms.\n",
		"Error:\nFailed to connect and authenticate to rmq1@localhost in 60000 ms\n")
}

func TestNodeThatHangs(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	s.node.hang = true
	s.run("rabbitmqctl", "-t", "1", "list_users").want(t, exitTempFail, "",
		"Error: operation list_users on node rmq1@localhost timed out. Timeout value used: 1000\n")
}

func TestNodeThatDoesNotRun(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	s.node.status.Running = false
	s.run("rabbitmqctl", "list_users").want(t, exitUsage, "", "Error: this command requires the 'rabbit' app to be running on the "+
		"target node. Start it with 'rabbitmqctl start_app'.\nArguments given:\n\tlist_users\n")
	s.run("rabbitmqctl", "await_startup", "-t", "1").want(t, exitTempFail, "", "timed out")
	s.node.status.State = "starting"
	s.run("rabbitmqctl", "list_users").want(t, exitUsage, "", "Error:\nnode "+s.node.status.Name+" is starting, and takes commands when it is up")
}

// Queues whose node does not answer in time: the rest is listed, and the exit status is 0.
func TestListQueuesWithUnresponsive(t *testing.T) {
	s := newSession(t)
	s.node.queues = s.node.queues[1:2]
	s.node.queueErr = admin.Errorf(admin.CodeTimeout, "rmq2")
	s.run("rabbitmqctl", "-t", "3", "list_queues").want(t, exitOK, "Timeout: 3.0 seconds ...\nListing queues for vhost / ...\nname\tmessages\nplain\t5\n"+
		"{:badrpc, {:timeout, 3.0, \"Some queue(s) are unresponsive, use list_unresponsive_queues command.\"}}\n", "")
	s.run("rabbitmqctl", "list_queues", "--formatter", "json").want(t, exitOK, "[\n{\"name\":\"plain\",\"messages\":5}\n]\n", "unresponsive")
}

func TestSyncingState(t *testing.T) {
	s := newSession(t)
	s.node.queues = s.node.queues[:2]
	s.node.queues[1].State, s.node.queues[1].Syncing = "syncing", 56040
	s.run("rabbitmqctl", "-s", "list_queues", "state").want(t, exitOK, "running\n{syncing, 56040}\n", "")
	s.run("rabbitmqctl", "list_queues", "state", "--formatter=json").want(t, exitOK, "[\n{\"state\":\"running\"}\n,{\"state\":[\"syncing\",56040]}\n]\n", "")
}

func TestMachineFormats(t *testing.T) {
	s := newSession(t)
	s.run("rabbitmqctl", "set_policy", "x", "^x", `{"ha-mode":"all"}`, "--formatter", "json").want(t, exitOK, "{\"node\":\"rmq1@localhost\",\"result\":\"ok\"}\n", "")
	s.run("rabbitmqctl", "ping", "--formatter", "json").want(t, exitOK, "{\"message\":\"Ping succeeded\"}\n", "")
	s.run("rabbitmqctl", "list_queues", "--formatter", "nosuch").want(t, exitFormatter, "", `the formatter "nosuch" is not supported`)
	s.run("rabbitmqctl", "cluster_status", "--formatter", "csv").want(t, exitSoftware, "", "the formatter csv is for lists")
	r := s.run("rabbitmqctl", "cluster_status", "--formatter", "json")
	for _, part := range []string{`"running_nodes":["rmq1@localhost","rmq2@localhost","rmq3@localhost"]`, `"partitions":{}`, `"alarms":[]`} {
		if !strings.Contains(r.stdout, part) {
			t.Errorf("%s is not in %s", part, r.stdout)
		}
	}
}

func TestDryRun(t *testing.T) {
	s := newSession(t)
	s.run("rabbitmqctl", "--dry-run", "clear_policy", "x").want(t, exitOK, "Clearing policy \"x\" on vhost \"/\" ...\n", "")
	if s.target.Node != "" {
		t.Error("a dry run connected")
	}
}

func TestStopWaits(t *testing.T) {
	s := newSession(t)
	s.run("rabbitmqctl", "stop").want(t, exitOK, "Stopping and halting node rmq1@localhost ...\n", "")
	if !s.node.stopped {
		t.Error("the node was not stopped")
	}
}

func TestStopWithPIDFile(t *testing.T) {
	s := newSession(t)
	missing := filepath.Join(t.TempDir(), "none")
	s.run("rabbitmqctl", "stop", missing).want(t, exitDataErr,
		"Stopping and halting node rmq1@localhost (will monitor pid file "+missing+") ...\n", "could not read the pid file")
	file := filepath.Join(t.TempDir(), "pid")
	process := exec.Command("true")
	if err := process.Run(); err != nil {
		t.Fatal(err)
	}
	pid := strconv.Itoa(process.Process.Pid)
	if err := os.WriteFile(file, []byte(pid+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.run("rabbitmqctl", "-q", "stop", file).want(t, exitOK, "process "+pid+" (take from pid file "+file+") is no longer running\n", "")
}

func TestStatusText(t *testing.T) {
	s := newSession(t)
	s.node.status.MemoryTotal, s.node.status.DiskFree, s.node.status.PID = 142_200_000, 79_220_273_152, 14882
	r := s.run("rabbitmqctl", "status")
	for _, part := range []string{
		"Status of node rmq1@localhost ...\n\x1b[1mRuntime\x1b[0m\n\nOS PID: 14882\n", "Total memory used: 0.1422 gb\n",
		"Free disk space: 79.2203 gb\n", "\x1b[1mAlarms\x1b[0m\n\n(none)\n", "Low free disk space watermark: 0.0 gb\n",
	} {
		if !strings.Contains(r.stdout, part) {
			t.Errorf("%q is not in\n%s", part, r.stdout)
		}
	}
	s.run("rabbitmqctl", "status", "--unit", "kb").want(t, exitUsage, "", `"unit 'kb' is not supported. Please use one of: bytes, mb, gb"`)
}

func TestClusterStatusSaysWhyNothingMoves(t *testing.T) {
	s := newSession(t)
	s.node.cluster.HasLeader = false
	s.node.cluster.Paused = "it reaches 1 of 3 voters"
	s.node.cluster.Nodes[2].Status = "down"
	s.node.cluster.Unreachable = []admin.NodeText{{Node: "rmq3@localhost", Text: "no answer for 3 s"}}
	r := s.run("rabbitmqctl", "cluster_status")
	for _, part := range []string{
		"Metadata: no leader", "This node is paused: it reaches 1 of 3 voters",
		"Running Nodes\x1b[0m\n\nrmq1@localhost\nrmq2@localhost\n\n",
		"Node rmq1@localhost cannot communicate with rmq3@localhost (no answer for 3 s)",
	} {
		if !strings.Contains(r.stdout, part) {
			t.Errorf("%q is not in\n%s", part, r.stdout)
		}
	}
}

func TestHelp(t *testing.T) {
	s := newSession(t)
	if r := s.run("rabbitmqctl", "help"); r.status != exitOK || !strings.HasPrefix(r.stdout, "\n\x1b[1mUsage\x1b[0m\n\nrabbitmqctl [--node <node>]") {
		t.Errorf("%+v", r)
	}
	if r := s.run("rabbitmqctl", "help", "set_policy"); r.status != exitOK || !strings.Contains(r.stdout, "--priority <priority>\n\tpolicy priority\n") {
		t.Errorf("%+v", r)
	}
	if r := s.run("rabbitmqctl", "list_users", "--help"); r.status != exitOK || !strings.Contains(r.stdout, "Shows the users and their tags.") {
		t.Errorf("%+v", r)
	}
	s.run("rabbitmqctl", "help", "set_polic").want(t, exitUsage, "", "Did you mean 'set_policy'?")
	s.run("rabbitmqctl").want(t, exitUsage, "", "Available commands:")
	s.run("rabbitmqctl", "--version").want(t, exitOK, Version+"\n", "")
}

// The names of a tool's commands are a column, however long the longest is.
func TestHelpIsAligned(t *testing.T) {
	for _, name := range []string{"rabbitmqctl", "rabbitmq-queues", "rabbitmq-diagnostics", "rabbitmq-upgrade"} {
		columns := map[int]string{}
		for _, line := range strings.Split(newSession(t).run(name, "help").stdout, "\n") {
			if command, found := strings.CutPrefix(line, "   "); found {
				word, rest, _ := strings.Cut(command, " ")
				columns[len(word)+len(rest)-len(strings.TrimLeft(rest, " "))] = line
			}
		}
		if len(columns) != 1 {
			t.Errorf("%s: the summaries begin in %d columns: %v", name, len(columns), columns)
		}
	}
}
