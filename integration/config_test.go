package integration

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"warren/integration/cluster"
)

// exceptionOf is why the server closes a channel on which act is done.
func exceptionOf(t *testing.T, conn *amqp.Connection, act func(*amqp.Channel) error) *amqp.Error {
	t.Helper()
	ch := channelOf(t, conn)
	closed := ch.NotifyClose(make(chan *amqp.Error, 1))
	if err := act(ch); err != nil {
		if e, ok := err.(*amqp.Error); ok {
			return e
		}
		t.Fatal(err)
	}
	return next(t, closed, "channel.close")
}

func channelOf(t *testing.T, conn *amqp.Connection) *amqp.Channel {
	t.Helper()
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	return ch
}

func dial(t *testing.T, uri string) *amqp.Connection {
	t.Helper()
	conn, err := amqp.Dial(uri)
	if err != nil {
		t.Fatalf("%s: %v", uri, err)
	}
	t.Cleanup(func() { _ = conn.Close() }) // the server may have closed it
	return conn
}

// ipv6Listener is a line for a listener on IPv6, as RabbitMQ writes it; "" where there is no IPv6.
func ipv6Listener(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp6", "[::1]:0")
	if err != nil {
		t.Logf("no IPv6 here: %v", err)
		return ""
	}
	defer ln.Close() // nobody has connected
	return fmt.Sprintf("listeners.tcp.2 = ::1:%d", ln.Addr().(*net.TCPAddr).Port)
}

// dialSixth connects by the listener of that line, if there is one.
func dialSixth(t *testing.T, line, uri string) {
	t.Helper()
	if _, port, ok := strings.Cut(line, "::1:"); ok {
		if err := dial(t, fmt.Sprintf(uri, port)).Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestConfigurationOfClients starts a node with a file as RabbitMQ's users have it: what it says of clients holds, what means
// nothing here is named in the log with its line, and the first user is the one that it describes.
func TestConfigurationOfClients(t *testing.T) {
	sixth := ipv6Listener(t)
	c := cluster.StartConfigured(t, 1, strings.Join([]string{
		sixth, "management.tcp.port = 15672", "log.file.level = info",
		"default_user = ops", "default_pass = s3cret", "default_vhost = /prod", "default_user_tags.monitoring = true",
		"default_permissions.write = ^(amq.default|q)$", "max_message_size = 1000", "consumer_timeout = 400", "connection_max = 3",
		"heartbeat = 7", "channel_max = 5", "frame_max = 8192",
	}, "\n"))
	for _, want := range []string{"management.tcp.port has no effect", "log.file.level has no effect", "line=", "rabbitmq.conf"} {
		if !strings.Contains(c.Log(1), want) {
			t.Errorf("the log does not say %q", want)
		}
	}
	uri := "amqp://ops:s3cret@" + c.Address(1) + "/%2Fprod"
	dialSixth(t, sixth, "amqp://ops:s3cret@[::1]:%s/%%2Fprod")
	conn := dial(t, uri)
	if conn.Config.Heartbeat.Seconds() != 7 || conn.Config.ChannelMax != 5 || conn.Config.FrameSize != 8192 {
		t.Errorf("tuned %+v", conn.Config)
	}
	if out := c.Ctl(1, "list_users", "-q"); !strings.Contains(out, "ops\t[monitoring]") || strings.Contains(out, "guest") {
		t.Errorf("users: %s", out)
	}
	if out := c.Ctl(1, "list_vhosts", "-q"); strings.Contains(out, "/\n") {
		t.Errorf("vhosts: %s", out)
	}
	for _, name := range []string{"q", "r"} {
		if _, err := channelOf(t, conn).QueueDeclare(name, true, false, false, false, nil); err != nil {
			t.Fatal(err)
		}
	}
	bind := func(ch *amqp.Channel) error { return ch.QueueBind("r", "k", "amq.direct", false, nil) }
	if e := exceptionOf(t, conn, bind); e.Code != amqp.AccessRefused {
		t.Errorf("a write that default_permissions forbid: %v", e)
	}
	quorum := func(ch *amqp.Channel) error {
		_, err := ch.QueueDeclare("z", true, false, false, false, amqp.Table{"x-queue-type": "quorum"})
		return err
	}
	if e := exceptionOf(t, conn, quorum); e.Code != amqp.PreconditionFailed || !strings.Contains(e.Reason, "set warren.quorum_queues_as_mirrored") {
		t.Errorf("a quorum queue: %v", e)
	}
	publish := func(size int) func(*amqp.Channel) error {
		return func(ch *amqp.Channel) error {
			return ch.PublishWithContext(t.Context(), "", "q", false, false, amqp.Publishing{Body: make([]byte, size)})
		}
	}
	if e := exceptionOf(t, conn, publish(1001)); e.Reason != "PRECONDITION_FAILED - message size 1001 is larger than configured max size 1000" {
		t.Errorf("a message that is too large: %v", e)
	}
	if err := publish(1000)(channelOf(t, conn)); err != nil {
		t.Fatal(err)
	}
	consume := func(ch *amqp.Channel) error {
		deliveries, err := ch.Consume("q", "", false, false, false, false, nil)
		if err == nil {
			next(t, deliveries, "a delivery")
		}
		return err
	}
	if e := exceptionOf(t, conn, consume); e.Code != amqp.PreconditionFailed || !strings.Contains(e.Reason, "timed out. Timeout value used: 400 ms.") {
		t.Errorf("a consumer that does not acknowledge: %v", e)
	}
	dial(t, uri)
	dial(t, uri)
	if extra, err := amqp.Dial(uri); err == nil {
		_ = extra.Close()
		t.Error("a fourth connection is let in")
	}
}

// TestDefinitionsAtTheStart: load_definitions brings users and queues, and no guest; a file that the cluster refuses ends the
// start, as does one that cannot be read.
func TestDefinitionsAtTheStart(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "definitions.json")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(`{"vhosts":[{"name":"/"}],"users":[{"name":"app","password":"pw","tags":"management"}],
		"permissions":[{"user":"app","vhost":"/","configure":".*","write":".*","read":".*"}],
		"queues":[{"name":"orders","vhost":"/","durable":true,"auto_delete":false,"arguments":{}}]}`)
	c := cluster.StartConfigured(t, 1, "load_definitions = "+dir)
	cluster.Eventually(t, hang, "the definitions are imported", func() bool { return strings.Contains(c.Log(1), "definitions were imported") })
	conn := dial(t, "amqp://app:pw@"+c.Address(1)+"/")
	if _, err := channelOf(t, conn).QueueDeclarePassive("orders", true, false, false, false, nil); err != nil {
		t.Error(err)
	}
	if conn, err := amqp.Dial(c.URI(1)); err == nil {
		_ = conn.Close()
		t.Error("there is a guest beside the defined users")
	}
	c.StopNode(1)
	write(`{"queues":[{"name":"q","vhost":"/nowhere","durable":true}]}`)
	c.Spawn(1)
	cluster.Eventually(t, hang, "the node ends and says why", func() bool {
		return !c.Up(1) && strings.Contains(c.Log(1), "import the definitions that load_definitions names")
	})
}

// TestListSingleActiveConsumer: list_consumers says which consumer of a queue with a single active one is given messages, wherever it
// is asked, and who takes over.
func TestListSingleActiveConsumer(t *testing.T) {
	c := cluster.Start(t, 3)
	first, second := dial(t, c.URI(2)), channelOf(t, dial(t, c.URI(3)))
	ch := channelOf(t, first)
	if _, err := ch.QueueDeclare("q", true, false, false, false, amqp.Table{"x-single-active-consumer": true}); err != nil {
		t.Fatal(err)
	}
	if _, err := ch.Consume("q", "a", false, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := second.Consume("q", "b", false, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := second.QueueDeclare("plain", true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := second.Consume("plain", "p", false, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	list := func() string {
		return c.Ctl(1, "list_consumers", "-q", "queue_name", "consumer_tag", "active", "activity_status")
	}
	for _, row := range []string{"q\ta\ttrue\tsingle_active\n", "q\tb\tfalse\twaiting\n", "plain\tp\ttrue\tup\n"} {
		if out := list(); !strings.Contains(out, row) {
			t.Errorf("no %q in\n%s", row, out)
		}
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	cluster.Eventually(t, hang, "the other one is active", func() bool { return strings.Contains(list(), "q\tb\ttrue\tsingle_active\n") })
}
