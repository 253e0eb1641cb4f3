package command

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"warren/ctl/admin"
)

// Every command of the tools of RabbitMQ 3.10.8 (recorded from their help) is one of ours, with help and completion.
func TestCommandsOfRabbitMQ(t *testing.T) {
	recorded, err := os.ReadFile("testdata/commands-3.10.8.txt")
	if err != nil {
		t.Fatal(err)
	}
	s := newSession(t)
	count := 0
	for line := range strings.Lines(string(recorded)) {
		count++
		name, cmd, _ := strings.Cut(strings.TrimSpace(line), " ")
		tool := newTool(name, name)
		if tool.find(cmd) == nil {
			t.Errorf("%s has no command %s", name, cmd)
			continue
		}
		if words := tool.completions(nil, cmd); !slices.Contains(words, cmd) {
			t.Errorf("%s %s is not completed", name, cmd)
		}
		for _, help := range [][]string{{name, "help", cmd}, {name, cmd, "--help"}} {
			if r := s.run(help...); r.status != exitOK || !strings.Contains(r.stdout, " "+cmd) {
				t.Errorf("%q: %+v", help, r)
			}
		}
		if near := tool.nearest(cmd + "x"); near != cmd && tool.find(near) == nil {
			t.Errorf("%s %sx: no suggestion", name, cmd)
		}
	}
	if count < 190 {
		t.Errorf("only %d commands are recorded", count)
	}
}

// Every command is under a heading of the help, once, and says what it does.
func TestCommandsAreListed(t *testing.T) {
	for _, name := range allTools() {
		tool := newTool(name, name)
		help := tool.help()
		for _, cmd := range tool.commands {
			if n := strings.Count(help, "\n   "+cmd.name+" "); n != 1 {
				t.Errorf("%s: the help lists %s %d times", name, cmd.name, n)
			}
			if cmd.summary == "" || cmd.run == nil {
				t.Errorf("%s %s has no summary or does nothing", name, cmd.name)
			}
		}
	}
}

// list_queues prints rows as they come, and is done with 10,000 of them in no time; the bound is ten times the aim.
func TestListOfManyQueues(t *testing.T) {
	const queues = 10_000
	s := newSession(t)
	s.node.queues = nil
	for i := range queues {
		s.node.queues = append(s.node.queues, admin.QueueInfo{
			Name: fmt.Sprintf("q%d", i), VHost: "/", State: "running", Known: true, Messages: uint64(i), Mirrored: true,
			Slaves: []admin.PID{{Node: "a@h", Creation: 1, ID: uint64(i)}, {Node: "b@h", Creation: 1, ID: uint64(i)}},
		})
	}
	began := time.Now()
	r := s.run("rabbitmqctl", "-s", "list_queues", "name", "messages", "slave_pids")
	if took := time.Since(began); strings.Count(r.stdout, "\n") != queues || r.status != exitOK || took > 10*time.Second {
		t.Errorf("%d rows in %v, exit %d", strings.Count(r.stdout, "\n"), took, r.status)
	}
}
