package integration

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"warren/integration/cluster"
)

// dialAs connects through node i.
func dialAs(c *cluster.Cluster, i int, user, password, vhost string) (*amqp.Connection, error) {
	return amqp.DialConfig("amqp://"+c.Address(i)+"/", amqp.Config{
		Vhost: vhost, SASL: []amqp.Authentication{&amqp.PlainAuth{Username: user, Password: password}},
	})
}

// mustRefuse checks that err, or what closes the channel or the connection soon, has the code and the text.
func mustRefuse(t *testing.T, what string, err error, closed <-chan *amqp.Error, code int, text string) {
	t.Helper()
	var e *amqp.Error
	if err == nil && closed != nil {
		select {
		case e = <-closed:
		case <-time.After(hang):
		}
	} else if err != nil {
		e, _ = err.(*amqp.Error)
	}
	if e == nil || e.Code != code || !strings.Contains(e.Reason, text) {
		t.Errorf("%s: %v (%v), want %d %q", what, e, err, code, text)
	}
}

func mustDial(t *testing.T, c *cluster.Cluster, i int, user, password, vhost string) *amqp.Connection {
	t.Helper()
	conn, err := dialAs(c, i, user, password, vhost)
	if err != nil {
		t.Fatalf("connect to %s as %s: %v", c.Name(i), user, err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func mustChannel(t *testing.T, conn *amqp.Connection) (*amqp.Channel, <-chan *amqp.Error) {
	t.Helper()
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	return ch, ch.NotifyClose(make(chan *amqp.Error, 1))
}

// TestOperators checks over one cluster that what operators set is kept to, through other nodes than the one that was told.
func TestOperators(t *testing.T) {
	c := cluster.Start(t, 3)
	t.Run("permissions", func(t *testing.T) { permissionsRefuse(t, c) })
	t.Run("limits", func(t *testing.T) { limitsRefuse(t, c) })
	t.Run("ring", func(t *testing.T) { ringIsExplained(t, c) })
	t.Run("clients", func(t *testing.T) { clientsAreListedAndClosed(t, c) })
	t.Run("definitions", func(t *testing.T) { definitionsComeBack(t, c) })
}

func permissionsRefuse(t *testing.T, c *cluster.Cluster) {
	c.Ctl(1, "add_user", "pal", "pw")
	if _, err := dialAs(c, 2, "pal", "pw", "/"); err == nil {
		t.Error("a user without permissions entered the vhost")
	}
	c.Ctl(1, "set_permissions", "pal", "^a", "^(aq|amq.topic)", "^(aq|amq.topic)")
	c.Ctl(1, "set_topic_permissions", "pal", "amq.topic", "^a", "^b.{username}$")
	conn := mustDial(t, c, 2, "pal", "pw", "/")
	type step struct {
		what string
		do   func(*amqp.Channel) error
		text string
	}
	declare := func(name string) func(*amqp.Channel) error {
		return func(ch *amqp.Channel) error {
			_, err := ch.QueueDeclare(name, true, false, false, false, nil)
			return err
		}
	}
	publish := func(exchange, key string) func(*amqp.Channel) error {
		return func(ch *amqp.Channel) error {
			return ch.PublishWithContext(context.Background(), exchange, key, false, false, amqp.Publishing{})
		}
	}
	bind := func(key string) func(*amqp.Channel) error {
		return func(ch *amqp.Channel) error { return ch.QueueBind("aq", key, "amq.topic", false, nil) }
	}
	for _, s := range []step{
		{"declare", declare("zq"), "access to queue 'zq' in vhost '/' refused for user 'pal'"},
		{"publish", publish("amq.fanout", "k"), "access to exchange 'amq.fanout' in vhost '/' refused for user 'pal'"},
		{"topic", publish("amq.topic", "b.b"), "access to topic 'b.b' in exchange 'amq.topic' in vhost '/' refused for user 'pal'"},
		{"allowed", func(ch *amqp.Channel) error {
			return firstOf(declare("aq")(ch), publish("amq.topic", "a.b")(ch), bind("b.pal")(ch))
		}, ""},
		{"bind", bind("zz"), "access to topic 'zz' in exchange 'amq.topic'"},
		{"dead letters", func(ch *amqp.Channel) error {
			_, err := ch.QueueDeclare("aqd", true, false, false, false, amqp.Table{"x-dead-letter-exchange": "amq.fanout"})
			return err
		}, "access to exchange 'amq.fanout' in vhost '/' refused for user 'pal'"},
		{"alternate", func(ch *amqp.Channel) error {
			return ch.ExchangeDeclare("aqx", "fanout", true, false, false, false, amqp.Table{"alternate-exchange": "amq.fanout"})
		}, "access to exchange 'amq.fanout' in vhost '/' refused for user 'pal'"},
	} {
		ch, closed := mustChannel(t, conn)
		err := s.do(ch)
		if s.text != "" {
			mustRefuse(t, s.what, err, closed, amqp.AccessRefused, s.text)
		} else if err != nil {
			t.Errorf("%s: %v", s.what, err)
		}
		_ = ch.Close()
	}
	// A change counts for a connection that is open.
	c.Ctl(3, "set_permissions", "pal", "^z", ".*", ".*")
	ch, _ := mustChannel(t, conn)
	if err := declare("zq")(ch); err != nil {
		t.Errorf("after the permissions were changed: %v", err)
	}
	closed := conn.NotifyClose(make(chan *amqp.Error, 1))
	c.Ctl(1, "delete_user", "pal")
	mustRefuse(t, "deleted user", nil, closed, amqp.ConnectionForced, "user 'pal' is deleted")
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func limitsRefuse(t *testing.T, c *cluster.Cluster) {
	c.Ctl(1, "add_vhost", "lim")
	c.Ctl(1, "set_permissions", "-p", "lim", "guest", ".*", ".*", ".*")
	c.Ctl(1, "set_vhost_limits", "-p", "lim", `{"max-connections":2,"max-queues":1}`)
	first := mustDial(t, c, 1, "guest", "guest", "lim")
	mustDial(t, c, 2, "guest", "guest", "lim")
	_, err := dialAs(c, 3, "guest", "guest", "lim")
	mustRefuse(t, "third connection", err, nil, amqp.NotAllowed, "access to vhost 'lim' refused for user 'guest': connection limit (2) is reached")
	ch, closed := mustChannel(t, first)
	if _, err := ch.QueueDeclare("one", true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	_, err = ch.QueueDeclare("two", true, false, false, false, nil)
	mustRefuse(t, "second queue", err, closed, amqp.PreconditionFailed, "cannot declare queue 'two': queue limit in vhost 'lim' (1) is reached")
	c.Ctl(1, "clear_vhost_limits", "-p", "lim")
	mustDial(t, c, 3, "guest", "guest", "lim")

	c.Ctl(1, "add_user", "few", "pw")
	c.Ctl(1, "set_permissions", "-p", "lim", "few", ".*", ".*", ".*")
	c.Ctl(1, "set_user_limits", "few", `{"max-connections":1,"max-channels":1}`)
	few := mustDial(t, c, 2, "few", "pw", "lim")
	_, err = dialAs(c, 1, "few", "pw", "lim")
	mustRefuse(t, "second connection of the user", err, nil, amqp.NotAllowed, "connection refused for user 'few': user connection limit (1) is reached")
	mustChannel(t, few)
	_, err = few.Channel()
	mustRefuse(t, "second channel of the user", err, nil, amqp.NotAllowed, "number of channels opened for user 'few' has reached the maximum allowed user limit of (1)")

	gone := first.NotifyClose(make(chan *amqp.Error, 1))
	c.Ctl(3, "delete_vhost", "lim")
	mustRefuse(t, "deleted vhost", nil, gone, amqp.ConnectionForced, "vhost 'lim' is deleted")
}

// ringIsExplained asks another node than the master's.
func ringIsExplained(t *testing.T, c *cluster.Cluster) {
	c.Ctl(1, "set_policy", "ring", "^ringed$", `{"ha-mode":"exactly","ha-params":2}`)
	declareQueue(t, c, 2, "ringed")
	cluster.Eventually(t, hang, "node 3 tells of the ring", func() bool {
		out := c.Ctl(3, "ring", "ringed")
		return strings.Contains(out, c.Name(2)+"  master, synchronised, not behind") && strings.Contains(out, "mirror, synchronised, not behind")
	})
	out := c.Ctl(3, "why", "ringed")
	if !strings.Contains(out, "policy 'ring' sets ha-mode to exactly") || !strings.Contains(out, "If "+c.Name(2)+" fails: ") {
		t.Errorf("why:\n%s", out)
	}
}

func clientsAreListedAndClosed(t *testing.T, c *cluster.Cluster) {
	conn := mustDial(t, c, 2, "guest", "guest", "/")
	ch, _ := mustChannel(t, conn)
	if _, err := ch.QueueDeclare("listed", true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	if err := firstOf(ch.Confirm(false), ch.Qos(7, 0, false)); err != nil {
		t.Fatal(err)
	}
	if _, err := ch.Consume("listed", "tag-1", false, false, false, false, amqp.Table{"x-priority": int32(3)}); err != nil {
		t.Fatal(err)
	}
	if err := ch.PublishWithContext(t.Context(), "", "listed", false, false, amqp.Publishing{}); err != nil {
		t.Fatal(err)
	}
	cluster.Eventually(t, hang, "the channel is listed with its delivery", func() bool {
		out := c.Ctl(1, "-s", "list_channels", "number", "user", "confirm", "consumer_count", "messages_unacknowledged", "prefetch_count")
		return out == "1\tguest\ttrue\t1\t1\t7\n"
	})
	fields := strings.Split(strings.TrimSpace(c.Ctl(3, "-s", "list_connections", "pid", "user", "vhost", "channels", "state", "protocol")), "\t")
	if len(fields) != 6 || strings.Join(fields[1:], " ") != "guest / 1 running {0,9,1}" || !strings.HasPrefix(fields[0], "<"+c.Name(2)+".") {
		t.Errorf("connections: %q", fields)
	}
	consumers := strings.Split(strings.TrimSpace(c.Ctl(1, "-s", "list_consumers")), "\t")
	if len(consumers) != 7 || consumers[0] != "listed" || strings.Join(consumers[2:], " ") != `tag-1 true 7 true [{"x-priority",3}]` {
		t.Errorf("consumers: %q", consumers)
	}
	closed := conn.NotifyClose(make(chan *amqp.Error, 1))
	c.Ctl(1, "close_connection", fields[0], "maintenance now")
	mustRefuse(t, "closed by pid", nil, closed, amqp.ConnectionForced, "maintenance now")
	cluster.Eventually(t, hang, "no connection is listed", func() bool { return c.Ctl(1, "-s", "list_connections") == "" })

	for i := 1; i <= c.Nodes; i++ {
		mustDial(t, c, i, "guest", "guest", "/")
	}
	if out := c.Ctl(1, "-q", "close_all_connections", "--limit", "2", "batch"); out != "Closed 2 connections\n" {
		t.Errorf("close_all_connections --limit 2: %q", out)
	}
	c.Ctl(1, "close_all_user_connections", "guest", "bye")
	cluster.Eventually(t, hang, "no connection is listed", func() bool { return c.Ctl(1, "-s", "list_connections") == "" })
}

// definitionsComeBack imports a file that RabbitMQ 3.10.8 exported, logs in with a password that only its hash is known of, and
// exports it again.
func definitionsComeBack(t *testing.T, c *cluster.Cluster) {
	source := filepath.Join("testdata", "definitions.json")
	c.Ctl(1, "import_definitions", source)
	conn := mustDial(t, c, 3, "imported", "s3cret", "imp")
	ch, _ := mustChannel(t, conn)
	if q, err := ch.QueueDeclarePassive("iq", true, false, false, false, nil); err != nil || q.Messages != 0 {
		t.Errorf("%+v, %v", q, err)
	}
	if _, err := dialAs(c, 3, "imported", "wrong", "imp"); err == nil {
		t.Error("a wrong password was taken")
	}
	if out := c.Ctl(2, "-s", "list_queues", "-p", "imp", "name", "arguments", "policy"); out != "iq\t[{\"x-message-ttl\",3600000}]\tp\n" {
		t.Errorf("queues: %q", out)
	}
	if out := c.Ctl(2, "-s", "list_operator_policies", "-p", "imp"); !strings.Contains(out, `{"max-length":100000}`) {
		t.Errorf("operator policies: %q", out)
	}
	target := filepath.Join(t.TempDir(), "out.json")
	c.Ctl(2, "export_definitions", target)
	want, got := objects(t, source), objects(t, target)
	for section, all := range want {
		for o := range all {
			// RabbitMQ writes an operator policy's definition as pairs, and it reads both.
			if !got[section][o] && !strings.Contains(o, "operator_policy") && !strings.Contains(o, `"guest"`) {
				t.Errorf("%s: %s was imported, and is not exported", section, o)
			}
		}
	}
	c.Ctl(1, "import_definitions", target) // changes nothing
	if again := objects(t, target); len(again["queues"]) != len(got["queues"]) {
		t.Errorf("%d queues, then %d", len(got["queues"]), len(again["queues"]))
	}
}

// objects are the objects of a definitions file, each as JSON with sorted keys.
func objects(t *testing.T, name string) map[string]map[string]bool {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var file map[string]any
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	out := map[string]map[string]bool{}
	for section, v := range file {
		list, _ := v.([]any)
		out[section] = map[string]bool{}
		for _, o := range list {
			b, err := json.Marshal(o)
			if err != nil {
				t.Fatal(err)
			}
			out[section][string(b)] = true
		}
	}
	return out
}
