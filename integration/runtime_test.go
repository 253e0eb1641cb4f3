package integration

import (
	"bufio"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"warren/integration/cluster"
)

// TestRunningNode changes how a running node works and looks at its process, with the commands that RabbitMQ has for that.
func TestRunningNode(t *testing.T) {
	c := cluster.Start(t, 1)
	conn, err := amqp.Dial(c.URI(1))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	run := func(code int, line string, want ...string) {
		t.Helper()
		r := inProcess(t, c, c.Name(1), line, "")
		for _, w := range want {
			if !strings.Contains(r.Stdout+r.Stderr, w) {
				t.Errorf("%s: %q is missing in\n%s%s", line, w, r.Stdout, r.Stderr)
			}
		}
		if r.Code != code {
			t.Errorf("%s: exit %d, want %d\n%s%s", line, r.Code, code, r.Stdout, r.Stderr)
		}
	}
	t.Run("columns", func(t *testing.T) { columnsOfClients(t, c, conn) })
	t.Run("alarms", func(t *testing.T) { alarmsByHand(t, c, conn, run) })
	t.Run("listeners", func(t *testing.T) {
		run(0, "rabbitmqctl suspend_listeners")
		if other, err := amqp.Dial(c.URI(1)); err == nil {
			other.Close()
			t.Error("a client was let in")
		}
		if ch, err := conn.Channel(); err != nil {
			t.Errorf("the client that was there: %v", err)
		} else {
			ch.Close()
		}
		run(0, "rabbitmqctl suspend_listeners")
		run(0, "rabbitmqctl resume_listeners")
		run(0, "rabbitmqctl resume_listeners")
		run(0, "rabbitmq-diagnostics check_port_connectivity", "Successfully connected")
	})
	t.Run("log", func(t *testing.T) { logByHand(t, c, run) })
	t.Run("events", func(t *testing.T) { eventsOfQueue(t, c, conn) })
	t.Run("logins", func(t *testing.T) {
		run(0, "rabbitmq-diagnostics enable_auth_attempt_source_tracking")
		if bad, err := amqp.Dial("amqp://guest:wrong@" + c.Address(1) + "/"); err == nil {
			bad.Close()
			t.Error("a wrong password was let in")
		}
		run(0, "rabbitmqctl list_node_auth_attempt_stats --by-source", "remote_address\tusername\tprotocol", "127.0.0.1\tguest\tamqp091\t1\t1\t0")
		run(0, "rabbitmq-diagnostics reset_node_auth_attempt_metrics")
		run(0, "rabbitmqctl list_node_auth_attempt_stats", "reported no authentication attempt stats")
	})
	t.Run("process", func(t *testing.T) {
		run(0, "rabbitmqctl force_gc")
		run(0, "rabbitmq-diagnostics os_env", "XDG_RUNTIME_DIR=")
		run(0, "rabbitmq-diagnostics command_line_arguments", `"server"`)
		run(0, "rabbitmq-diagnostics list_network_interfaces", "addr: 127.0.0.1/8")
		run(0, "rabbitmq-diagnostics resolve_hostname localhost", "127.0.0.1")
		run(65, "rabbitmq-diagnostics resolve_hostname nosuch.invalid", "Hostname does not resolve")
		run(0, "rabbitmq-diagnostics maybe_stuck", "Found 0 suspicious places")
		run(0, "rabbitmq-diagnostics runtime_thread_stats --sample-interval 1", "Stats per thread")
		run(0, "rabbitmq-diagnostics check_certificate_expiration", "No certificates are expiring within 4 weeks")
		run(0, "rabbitmq-diagnostics erlang_cookie_hash --formatter json", `"result":"ok"`)
		run(69, "rabbitmq-diagnostics remote_shell", "not written in Erlang")
	})
}

func alarmsByHand(t *testing.T, c *cluster.Cluster, conn *amqp.Connection, run func(int, string, ...string)) {
	blocked := conn.NotifyBlocked(make(chan amqp.Blocking, 4))
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	defer ch.Close()
	wait := func(active bool) {
		t.Helper()
		for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); {
			if active { // who does not publish is not told
				if err := ch.Publish("", "nowhere", false, false, amqp.Publishing{}); err != nil {
					t.Fatal(err)
				}
			}
			select {
			case b := <-blocked:
				if b.Active != active {
					t.Errorf("blocked: %t, want %t", b.Active, active)
				}
				return
			case <-time.After(50 * time.Millisecond):
			}
		}
		t.Fatalf("the publisher is not told (blocked: %t)", active)
	}
	run(0, "rabbitmqctl set_vm_memory_high_watermark 0")
	wait(true)
	run(69, "rabbitmq-diagnostics check_alarms", "Memory alarm on node "+c.Name(1))
	run(0, "rabbitmqctl set_vm_memory_high_watermark absolute 4GiB")
	wait(false)
	run(0, "rabbitmqctl status --formatter json", `"vm_memory_high_watermark_limit":4294967296`)
	run(0, "rabbitmqctl set_disk_free_limit 1000000TB")
	wait(true)
	run(69, "rabbitmq-diagnostics check_local_alarms", "Free disk space alarm on node "+c.Name(1))
	run(0, "rabbitmqctl set_disk_free_limit mem_relative 0.001")
	wait(false)
	run(0, "rabbitmq-diagnostics check_alarms")
}

func logByHand(t *testing.T, c *cluster.Cluster, run func(int, string, ...string)) {
	run(0, "rabbitmqctl set_log_level error")
	dialOnce := func() {
		t.Helper()
		conn, err := amqp.Dial(c.URI(1))
		if err != nil {
			t.Fatal(err)
		}
		conn.Close()
	}
	before := strings.Count(inProcess(t, c, c.Name(1), "rabbitmq-diagnostics log_tail -N 10000", "").Stdout, "connection opened")
	dialOnce()
	if n := strings.Count(inProcess(t, c, c.Name(1), "rabbitmq-diagnostics log_tail -N 10000", "").Stdout, "connection opened"); n != before {
		t.Errorf("%d connections in the log, want %d: the level is error", n, before)
	}
	run(0, "rabbitmqctl set_log_level info")
	dialOnce()
	run(0, "rabbitmq-diagnostics log_tail --number 10", "Last 10 log lines on node", "connection opened")
	run(69, "rabbitmqctl set_log_level nosuch", "level nosuch is not supported")
}

// eventsOfQueue watches the node while a queue comes and goes.
func eventsOfQueue(t *testing.T, c *cluster.Cluster, conn *amqp.Connection) {
	watch := c.Shell("exec bin/rabbitmq-diagnostics -n " + c.Name(1) + " consume_event_stream --duration 60 --pattern '^queue'")
	out, err := watch.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := watch.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = watch.Process.Kill(); _ = watch.Wait() }()
	lines := make(chan string)
	go func() {
		defer close(lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			lines <- s.Text()
		}
	}()
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	defer ch.Close()
	// The watch may begin a moment later: queues come and go until one is seen.
	for seen := map[string]bool{}; !seen["queue.created"] || !seen["queue.deleted"]; {
		if _, err := ch.QueueDeclare("watched", true, false, false, false, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := ch.QueueDelete("watched", false, false, false); err != nil {
			t.Fatal(err)
		}
		select {
		case line, ok := <-lines:
			var e struct {
				Event, Name, VHost string
				At                 int64 `json:"timestamp_in_ms"`
			}
			if err := json.Unmarshal([]byte(line), &e); !ok || err != nil || e.Name != "watched" || e.VHost != "/" || e.At == 0 {
				t.Fatalf("event %q: %v", line, err)
			}
			seen[e.Event] = true
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// columnsOfClients looks at what lists tell of connections, consumers and messages.
func columnsOfClients(t *testing.T, c *cluster.Cluster, conn *amqp.Connection) {
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	defer ch.Close()
	if _, err := ch.QueueDeclare("sole", true, false, false, false, amqp.Table{"x-single-active-consumer": true}); err != nil {
		t.Fatal(err)
	}
	if _, err := ch.QueueDeclare("only", true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	for _, k := range []struct {
		queue, tag string
		exclusive  bool
	}{{"sole", "first", false}, {"sole", "second", false}, {"only", "lonely", true}} {
		if _, err := ch.Consume(k.queue, k.tag, false, k.exclusive, false, false, nil); err != nil {
			t.Fatal(err)
		}
	}
	consumers := func() string {
		return c.Ctl(1, "-s", "list_consumers", "queue_name", "consumer_tag", "active", "activity_status")
	}
	if got := sortedLines(consumers()); got != "only\tlonely\ttrue\tup\nsole\tfirst\ttrue\tsingle_active\nsole\tsecond\tfalse\twaiting" {
		t.Errorf("consumers:\n%s", got)
	}
	if err := ch.Cancel("first", false); err != nil {
		t.Fatal(err)
	}
	cluster.Eventually(t, hang, "the second consumer is active", func() bool { return strings.Contains(consumers(), "sole\tsecond\ttrue\tsingle_active") })
	if err := ch.Publish("", "sole", false, false, amqp.Publishing{Body: make([]byte, 1000)}); err != nil {
		t.Fatal(err)
	}
	queues := func() string {
		return sortedLines(c.Ctl(1, "-s", "list_queues", "name", "exclusive_consumer_tag", "message_bytes_ready", "message_bytes_unacknowledged"))
	}
	cluster.Eventually(t, hang, "the message is unacknowledged", func() bool { return queues() == "only\tlonely\t0\t0\nsole\t\t0\t1000" })
	var received, reads, sent, writes, pending int
	line := c.Ctl(1, "-s", "list_connections", "recv_oct", "recv_cnt", "send_oct", "send_cnt", "send_pend", "ssl")
	if _, err := fmt.Sscanf(line, "%d\t%d\t%d\t%d\t%d\tfalse", &received, &reads, &sent, &writes, &pending); err != nil ||
		received < 1000 || sent < 1000 || reads < 5 || writes < 5 || pending > sent {
		t.Errorf("traffic %q: %v", line, err)
	}
}

func sortedLines(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}
