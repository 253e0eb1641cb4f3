//go:build soak

package integration

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"warren/dataplane/broker/config"
	"warren/integration/cluster"
)

// site is a cluster on which the page's commands are run.
type site struct {
	*cluster.Cluster
	t      *testing.T
	backup string
	blocks []block
	ran    int
}

// next is the next block, which must be below that heading.
func (s *site) next(heading string) block {
	s.t.Helper()
	if s.ran == len(s.blocks) || s.blocks[s.ran].heading != heading {
		s.t.Fatalf("block %d of docs/operations.md is not the one below %q that this test runs next: change both together", s.ran+1, heading)
	}
	s.ran++
	return s.blocks[s.ran-1]
}

var (
	hostNames = regexp.MustCompile(`rabbit@host(\d)`)
	programs  = regexp.MustCompile(`^(rabbitmq|warren )`)
)

// here puts this cluster's names and places into a command; node is the one that NODE, and the paths of a node, stand for.
func (s *site) here(command string, node int) string {
	command = hostNames.ReplaceAllString(command, "rabbit$1@localhost")
	for _, r := range [][2]string{
		{"sudo -u warren XDG_RUNTIME_DIR=/run/warren ", ""}, {"sudo ", ""}, {"HOST:25672", s.InternodeAddress(node)},
		{"/etc/warren/cookie", s.CookieFile()}, {"/etc/warren/warren.conf", filepath.Join(filepath.Dir(s.DataDir(node)), "rabbitmq.conf")},
		{"/var/lib/warren/data", s.DataDir(node)}, {"/backup/data", filepath.Join(s.backup, fmt.Sprint(node))}, {"/backup", s.backup},
		{"NODE", s.Name(node)},
	} {
		command = strings.ReplaceAll(command, r[0], r[1])
	}
	return programs.ReplaceAllString(command, "bin/$1")
}

// run runs a block's commands on a node; each has to succeed.
func (s *site) run(b block, node int) {
	s.t.Helper()
	for _, line := range b.lines {
		switch line {
		case "systemctl stop warren":
			s.StopNode(node)
		case "systemctl start warren":
			s.StartNode(node)
		default:
			if out, err := s.Shell("export RABBITMQ_NODENAME=" + s.Name(node) + "; " + s.here(line, node)).CombinedOutput(); err != nil {
				s.t.Fatalf("%s (%s): %v\n%s", line, b.heading, err, out)
			}
		}
	}
}

// understood checks a block of configuration.
func understood(t *testing.T, b block) *config.Config {
	t.Helper()
	c, _, err := config.Parse("operations.md", []byte(strings.Join(b.lines, "\n")))
	if err != nil {
		t.Fatalf("the configuration below %q: %v", b.heading, err)
	}
	return c
}

// stranger runs a fourth node, which is in nobody's list, until the test ends; lines are added to its configuration.
func (s *site) stranger(lines []string) {
	s.t.Helper()
	dir := s.t.TempDir()
	internode := freeAddress(s.t)
	conf := fmt.Sprintf("listeners.tcp.1 = %s\nwarren.internode.listen = %s\nwarren.internode.address = %s\n", freeAddress(s.t), internode, internode)
	if err := os.WriteFile(filepath.Join(dir, "conf"), []byte(conf+strings.Join(lines, "\n")), 0o600); err != nil {
		s.t.Fatal(err)
	}
	cmd := s.Shell(fmt.Sprintf("exec bin/warren server --node rabbit4@localhost --data %s/data --config %s/conf --cookie-file %s", dir, dir, s.CookieFile()))
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { endProcess(s.t, cmd) })
	cluster.Eventually(s.t, hang, "the fourth node is up", func() bool {
		return s.Shell("bin/rabbitmqctl -n rabbit4@localhost await_startup -t 5").Run() == nil
	})
}

func endProcess(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Errorf("stop process %d: %v", cmd.Process.Pid, err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("process %d: %v", cmd.Process.Pid, err)
	}
}

// members waits until that many nodes are members, besides the witnesses, as node 1 sees it.
func (s *site) members(want int, witnesses ...string) {
	s.t.Helper()
	cluster.Eventually(s.t, hang, fmt.Sprintf("%d nodes are members, and %v", want, witnesses), func() bool {
		now := statusOf(s.Cluster, 1)
		return len(now.Disk) == want && slices.Equal(now.Witnesses, witnesses)
	})
}

// TestOperationsAsWritten runs every command of docs/operations.md in turn; what was confirmed at its beginning is there at its end.
func TestOperationsAsWritten(t *testing.T) {
	s := &site{Cluster: cluster.Start(t, 3), t: t, backup: t.TempDir(), blocks: operations(t)}
	s.Ctl(1, "set_policy", "ha-all", "^", `{"ha-mode":"all","ha-sync-mode":"automatic"}`)
	declareQueue(t, s.Cluster, 1, "orders")
	mirrorsListed(t, s.Cluster, 1, "orders", 2)
	p := newPublisher("p1")
	if p.run(s.URI(2), "orders", 2000); p.err != nil {
		t.Fatal(p.err)
	}

	s.run(s.next("Operations"), 1)
	s.next("Installing") // it is for a machine of its own
	understood(t, s.next("TLS for clients"))
	if peers := understood(t, s.next("Forming a cluster")).Peers; len(peers) != 3 || peers[2].Node != "rabbit@host3" {
		t.Errorf("peers %v", peers)
	}
	joining, witness := s.next("Forming a cluster"), s.next("A witness")
	s.stranger(witness.lines)
	s.run(joining, 1)
	s.members(3, "rabbit4@localhost")
	s.run(s.next("Taking a node out"), 1)
	s.members(3)
	s.StopNode(3)
	s.run(s.next("Taking a node out"), 1)
	s.members(2)
	if err := os.RemoveAll(s.DataDir(3)); err != nil {
		t.Fatal(err)
	}
	s.StartNode(3)
	allAgree(t, s.Cluster, 1, 2, 3)
	mirrorsListed(t, s.Cluster, 1, "orders", 2)
	s.run(s.next("Maintenance and upgrades"), 2)

	s.loseTwo(s.next("When the majority is lost"))
	if b := s.next("Messages that a copy had to give up"); len(b.lines) != 4 { // TestPromotionOnShutdown has sets to do it with
		t.Errorf("%d commands below %q", len(b.lines), b.heading)
	}
	s.backups()
	if s.ran != len(s.blocks) {
		t.Errorf("%d of %d blocks of docs/operations.md were run", s.ran, len(s.blocks))
	}
	drainAll(t, s.Cluster, 3, "orders", map[string]map[int]bool{p.name: p.confirmed})
}

// loseTwo loses two nodes with their disks, and has the third go on by that block.
func (s *site) loseTwo(b block) {
	s.t.Helper()
	mirrorsListed(s.t, s.Cluster, 3, "orders", 2)
	awaitCopiesAt(s.t, s.Cluster, 3, "orders", "every mirror is synchronised", inSync(2))
	for i := 1; i <= 3; i++ {
		s.Kill(i)
	}
	s.run(b, 3)
	s.StartNode(3)
	for i := 1; i <= 2; i++ {
		if err := os.RemoveAll(s.DataDir(i)); err != nil {
			s.t.Fatal(err)
		}
	}
	s.StartNodes(1, 2)
	allAgree(s.t, s.Cluster, 1, 2, 3)
}

// backups goes back with the whole cluster to an earlier time.
func (s *site) backups() {
	s.t.Helper()
	s.run(s.next("Backup"), 1)
	copying, restoring := s.next("Backup"), s.next("Backup")
	awaitCopiesAt(s.t, s.Cluster, 3, "orders", "every mirror is synchronised", inSync(2))
	nodes := []int{1, 2, 3}
	for _, i := range nodes {
		s.run(copying, i)
	}
	s.StartNodes(3, 2, 1)
	declareQueue(s.t, s.Cluster, 1, "made.after")
	for _, i := range nodes {
		s.StopNode(i)
	}
	start := restoring.lines[len(restoring.lines)-1]
	if start != "systemctl start warren" {
		s.t.Fatalf("the restoring ends with %q", start)
	}
	restoring.lines = restoring.lines[:len(restoring.lines)-1]
	for _, i := range nodes {
		s.run(restoring, i)
	}
	s.StartNodes(nodes...)
	allAgree(s.t, s.Cluster, nodes...)
	if cols := queueColumns(s.Cluster, 1, "made.after", "state"); cols != nil {
		s.t.Errorf("what came after the backup is still there: %v", cols)
	}
}

// TestBackupOfDefinitions exports definitions, empties the node, and imports them: they are the same again.
func TestBackupOfDefinitions(t *testing.T) {
	c := cluster.Start(t, 1)
	c.Ctl(1, "import_definitions", filepath.Join("testdata", "definitions.json"))
	first, second := filepath.Join(t.TempDir(), "1.json"), filepath.Join(t.TempDir(), "2.json")
	c.Ctl(1, "export_definitions", first)
	c.StopNode(1)
	if err := os.RemoveAll(c.DataDir(1)); err != nil {
		t.Fatal(err)
	}
	c.StartNode(1)
	c.Ctl(1, "import_definitions", first)
	c.Ctl(1, "export_definitions", second)
	want, got := objects(t, first), objects(t, second)
	for section, all := range want {
		for o := range all {
			if !got[section][o] && section != "global_parameters" { // the new cluster's id is another
				t.Errorf("%s: %s did not come back", section, o)
			}
		}
	}
	if len(want["queues"]) == 0 || len(want["policies"]) == 0 || len(want["users"]) < 2 {
		t.Error("the definitions are not worth the name")
	}
	mustDial(t, c, 1, "imported", "s3cret", "imp")
}
