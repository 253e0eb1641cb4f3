package config

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestParseAccepts(t *testing.T) {
	for _, tc := range []struct {
		name, text string
		want       func(c *Config)
	}{
		{"empty", "", func(*Config) {}},
		{"comments and blank lines", "# a\n\n  ## b\r\n\t# c = d\n", func(*Config) {}},
		{"default port", "listeners.tcp.default = 5673", func(c *Config) { c.Listeners = []Listener{{Port: 5673}} }},
		{
			"numbered listeners in order", "listeners.tcp.10 = 5\nlisteners.tcp.2=127.0.0.1:4\nlisteners.tcp.1 = [::1]:3",
			func(c *Config) { c.Listeners = []Listener{{"::1", 3}, {"127.0.0.1", 4}, {"", 5}} },
		},
		{
			"IPv6 as RabbitMQ writes it", "listeners.tcp.1 = ::1:5672\nlisteners.tcp.2 = :::5673",
			func(c *Config) { c.Listeners = []Listener{{"::1", 5672}, {"::", 5673}} },
		},
		{
			"limits of clients", "handshake_timeout = 5000\nconnection_max = 7\nmax_message_size = 1000\nconsumer_timeout = 60000",
			func(c *Config) {
				c.HandshakeTimeout, c.ConnectionMax, c.MaxMessageSize, c.ConsumerTimeout = 5*time.Second, 7, 1000, time.Minute
			},
		},
		{
			"sockets", "tcp_listen_options.nodelay = false\ntcp_listen_options.keepalive = false\ntcp_listen_options.sndbuf = 1000\n" +
				"tcp_listen_options.recbuf = 2000\ntcp_listen_options.linger.on = true\ntcp_listen_options.linger.timeout = 3",
			func(c *Config) {
				c.TCP = TCP{SendBuffer: 1000, ReceiveBuffer: 2000, Linger: true, LingerTime: 3 * time.Second}
			},
		},
		{
			"default user", "default_user_tags.monitoring = true\ndefault_user_tags.policymaker = true\ndefault_user_tags.x = false\n" +
				"default_permissions.configure = a\ndefault_permissions.write = b\ndefault_permissions.read = c",
			func(c *Config) {
				c.DefaultUserTags, c.DefaultPermissions = []string{"monitoring", "policymaker"}, Permissions{"a", "b", "c"}
			},
		},
		{
			"definitions", "definitions.import_backend = local_filesystem\ndefinitions.local.path = /d\ndefinitions.skip_if_unchanged = true",
			func(c *Config) { c.Definitions = "/d" },
		},
		{"quorum queues", "warren.quorum_queues_as_mirrored = true", func(c *Config) { c.QuorumAsMirrored = true }},
		{"balanced", "queue_leader_locator = balanced", func(c *Config) { c.QueueMasterLocator = "min-masters" }},
		{"no listeners", "listeners.tcp = none", func(c *Config) { c.Listeners = nil }},
		{"last one wins", "heartbeat = 5\nheartbeat = 7 # seconds", func(c *Config) { c.Heartbeat = 7 * time.Second }},
		{"heartbeat off", "heartbeat=0", func(c *Config) { c.Heartbeat = 0 }},
		{"frames and channels", "frame_max = 4096\nchannel_max = 0", func(c *Config) { c.FrameMax, c.ChannelMax = 4096, 0 }},
		{
			"user", "default_user = ops\ndefault_pass = 'a # b = c'\ndefault_vhost = /prod",
			func(c *Config) { c.DefaultUser, c.DefaultPassword, c.DefaultVHost = "ops", "a # b = c", "/prod" },
		},
		{"guest from anywhere", "loopback_users.guest = false", func(c *Config) { c.LoopbackUsers = []string{} }},
		{"nobody", "loopback_users = none", func(c *Config) { c.LoopbackUsers = nil }},
		{"another, with a dot", `loopback_users.an\.na = true`, func(c *Config) { c.LoopbackUsers = []string{"an.na", "guest"} }},
		{
			"peers",
			"cluster_name = prod-1\ncluster_formation.peer_discovery_backend = classic_config\n" +
				"cluster_formation.classic_config.nodes.2 = b@h2\ncluster_formation.classic_config.nodes.1 = a@h1\n" +
				"warren.cluster_formation.address.2 = 127.0.0.1:25673",
			func(c *Config) {
				c.ClusterName = "prod-1"
				c.Peers = []Peer{{"a@h1", "h1:25672"}, {"b@h2", "127.0.0.1:25673"}}
			},
		},
		{"pause_minority", "cluster_partition_handling = pause_minority", func(*Config) {}},
		{"log level", "log.console.level = debug", func(c *Config) { c.LogLevel = slog.LevelDebug }},
		{"memory, relative", "vm_memory_high_watermark.relative = 0.6", func(c *Config) { c.MemoryLimit = Limit{Relative: 0.6} }},
		{"memory, absolute", "vm_memory_high_watermark.absolute = 2GiB", func(c *Config) { c.MemoryLimit = Limit{Absolute: 2 << 30} }},
		{"disk", "disk_free_limit.absolute = 500MB", func(c *Config) { c.DiskFree = Limit{Absolute: 500_000_000} }},
		{"disk, relative", "disk_free_limit.relative = 1.5", func(c *Config) { c.DiskFree = Limit{Relative: 1.5} }},
		{"locator", "queue_master_locator = min-masters", func(c *Config) { c.QueueMasterLocator = "min-masters" }},
		{"batch", "mirroring_sync_batch_size = 100", func(c *Config) { c.SyncBatchSize = 100 }},
		{"batch of one means the default", "mirroring_sync_batch_size = 1", func(*Config) {}},
		{
			"inter-node", "warren.internode.listen = 127.0.0.1:25674\nwarren.internode.address = node3:25674",
			func(c *Config) {
				c.Internode = Internode{Listen: Listener{"127.0.0.1", 25674}, Address: "node3:25674"}
			},
		},
		{
			"inter-node TLS",
			"warren.internode.tls.cacertfile = /ca.pem\nwarren.internode.tls.certfile = /c.pem\nwarren.internode.tls.keyfile = /k.pem",
			func(c *Config) { c.Internode.TLS = TLS{"/ca.pem", "/c.pem", "/k.pem"} },
		},
		{
			"timing",
			"warren.heartbeat_interval = 200ms\nwarren.lease = 1s\nwarren.unreachable_after = 1500ms\n" +
				"warren.mirror_replacement_delay = 2m\nwarren.recovery_wait = 0",
			func(c *Config) {
				c.Timing = Timing{200 * time.Millisecond, time.Second, 1500 * time.Millisecond, 2 * time.Minute, 0}
			},
		},
		{"snapshots", "warren.metadata_snapshot_after = 64", func(c *Config) { c.SnapshotAfter = 64 }},
		{"witness", "warren.witness = true", func(c *Config) { c.Witness = true }},
		{"debug", "warren.debug.listen = 127.0.0.1:6060", func(c *Config) { c.DebugListen = "127.0.0.1:6060" }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, warnings, err := Parse("rabbitmq.conf", []byte(tc.text))
			if err != nil || len(warnings) > 0 {
				t.Fatalf("error %v, warnings %v", err, warnings)
			}
			want := Default()
			tc.want(want)
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got\n%+v\nwant\n%+v", got, want)
			}
			checkSettings(t, got)
		})
	}
}

func TestParseRefuses(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{"hartbeat = 5", `f:1: unknown key "hartbeat"; did you mean "heartbeat"?`},
		{"\n\nwarren.leese = 3s", `f:3: unknown key "warren.leese"; did you mean "warren.lease"?`},
		{"listener.tcp.default = 1", `f:1: unknown key "listener.tcp.default"; did you mean "listeners.tcp.default"?`},
		{"managment.tcp.port = 15672", `f:1: unknown key "managment.tcp.port"`},
		{"auth_backends.1 = ldap", `f:1: auth_backends.1: "ldap" cannot be kept: users are those of the node's own database; possible is internal, rabbit_auth_backend_internal`},
		{"default_queue_type = quorum", `f:1: default_queue_type: "quorum" cannot be kept: queues are classic ones, and have mirrors only where a policy says so (ha-mode); possible is classic, rabbit_classic_queue`},
		{"proxy_protocol = true", `f:1: proxy_protocol: "true" cannot be kept: the PROXY protocol is not understood: no client could connect; possible is false, off, none`},
		{"default_limits.vhosts.1.max_queues = 5", `f:1: default_limits.vhosts.1.max_queues: "5" cannot be kept: set limits with set_vhost_limits; take the line out`},
		{"default_pass = encrypted:abc", `f:1: default_pass: encrypted values are not supported; write the password itself, and protect the file`},
		{"max_message_size = 0", `f:1: max_message_size: "0": the limit must be above 0`},
		{"max_message_size = 1073741824", `f:1: max_message_size: "1073741824" is not a number between 0 and 536870912`},
		{"consumer_timeout = 0", `f:1: consumer_timeout: "0" is less than 1 milliseconds`},
		{"connection_max = 0", `f:1: connection_max: 0 would let nobody in; "infinity" sets no limit`},
		{"definitions.import_backend = https", `f:1: definitions.import_backend: "https" is not supported; definitions come from a file or a directory: local_filesystem`},
		{"warren.internode.tls.certfile = c", `f: warren.internode.tls.cacertfile, .certfile and .keyfile must be set together`},
		{"heartbeat", `f:1: expected "key = value", found "heartbeat"`},
		{"[{rabbit, []}].", `f:1: expected "key = value", found "[{rabbit, []}]."; Erlang's terms, as in rabbitmq.config and advanced.config, are not read`},
		{"= 5", `f:1: a key is missing before "="`},
		{"heartbeat =", `f:1: heartbeat: a value is missing after "="`},
		{"heartbeat = # five", `f:1: heartbeat: a value is missing after "="`},
		{"default_pass = 'abc", `f:1: default_pass: the quote before "abc" is not closed`},
		{"default_pass = 'a' b", `f:1: default_pass: unexpected "b" after the quoted value`},
		{"log..level = info", `f:1: "log..level" is no key: a part between dots is empty`},
		{"log level = info", `f:1: "log level" is no key: letters, digits, _, - and dots only`},
		{"default_user = \xff", `f:1: not UTF-8 text`},
		{"heartbeat = 60s", `f:1: heartbeat: "60s" is not a number between 0 and 65535`},
		{"heartbeat = -1", `f:1: heartbeat: "-1" is not a number between 0 and 65535`},
		{"frame_max = 100", `f:1: frame_max: "100" is below AMQP's smallest maximum, 4096`},
		{"channel_max = 65536", `f:1: channel_max: "65536" is not a number between 0 and 65535`},
		{"listeners.tcp.1 = host:0", `f:1: listeners.tcp.1: "0" is not a port between 1 and 65535`},
		{"listeners.tcp.1 = ::g:5", `f:1: listeners.tcp.1: "::g:5" is not PORT or ADDRESS:PORT`},
		{"listeners.tcp.1 = 5\nlisteners.tcp.2 = 5", `f:2: listeners.tcp.2: :5 is listened on already`},
		{"loopback_users.guest = no", `f:1: loopback_users.guest: "no" is neither true nor false`},
		{"cluster_formation.peer_discovery_backend = dns", `f:1: cluster_formation.peer_discovery_backend: "dns" is not supported; the peers are listed: classic_config`},
		{"cluster_formation.classic_config.nodes.1 = rabbit", `f:1: cluster_formation.classic_config.nodes.1: "rabbit" is not a node name (name@host)`},
		{"cluster_formation.classic_config.nodes.1 = a@b\ncluster_formation.classic_config.nodes.2 = a@b", `f:2: cluster_formation.classic_config.nodes.2: a@b is listed twice`},
		{"warren.cluster_formation.address.3 = h:1", `f:1: warren.cluster_formation.address.3: there is no cluster_formation.classic_config.nodes.3`},
		{"cluster_partition_handling = sometimes", `f:1: cluster_partition_handling: "sometimes" is none of pause_minority, autoheal, ignore, pause_if_all_down`},
		{"log.level = loud", `f:1: log.level: "loud" is none of debug, info, notice, warning, error, critical, none`},
		{"vm_memory_high_watermark.relative = 40", `f:1: vm_memory_high_watermark.relative: "40" is not a number above 0 and up to 1`},
		{"vm_memory_high_watermark.relative = NaN", `f:1: vm_memory_high_watermark.relative: "NaN" is not a number above 0 and up to 1`},
		{"vm_memory_high_watermark.absolute = 2 bananas", `f:1: vm_memory_high_watermark.absolute: "2 bananas" is not an amount of bytes (examples: 2147483648, 512MB, 2GiB)`},
		{"disk_free_limit.absolute = 99999999999TiB", `f:1: disk_free_limit.absolute: "99999999999TiB" is too large`},
		{"queue_master_locator = max", `f:1: queue_master_locator: "max" is none of client-local, min-masters, random`},
		{"mirroring_sync_batch_size = 0", `f:1: mirroring_sync_batch_size: "0": a batch has at least one message`},
		{"warren.internode.address = 25672", `f:1: warren.internode.address: "25672" is not HOST:PORT`},
		{"warren.lease = soon", `f:1: warren.lease: "soon" is not a duration (examples: 500ms, 3s, 2m)`},
		{"warren.lease = -3s", `f:1: warren.lease: "-3s" is negative`},
		{"warren.lease = 30ms", `f:1: warren.lease: "30ms" is not between 100ms and 24h0m0s`},
		{"warren.lease = 600ms", `f: warren.lease (600ms) must be at least twice warren.heartbeat_interval (500ms): heartbeats renew leases`},
		{"warren.metadata_snapshot_after = 3", `f:1: warren.metadata_snapshot_after: "3" is less than 16`},
		{"warren.witness = yes", `f:1: warren.witness: "yes" is neither true nor false`},
		{"warren.debug.listen = 0.0.0.0:6060", `f:1: warren.debug.listen: "0.0.0.0:6060" is not an address of the loopback interface (example: 127.0.0.1:6060)`},
	} {
		c, _, err := Parse("f", []byte(tc.text))
		if err == nil || c != nil {
			t.Errorf("%q: accepted", tc.text)
			continue
		}
		if err.Error() != tc.want {
			t.Errorf("%q:\n got %s\nwant %s", tc.text, err, tc.want)
		}
	}
}

func TestParseReportsEverything(t *testing.T) {
	_, _, err := Parse("f", []byte("a = 1\nheartbeat = 5\nframe_max = x\nb\n"))
	if err == nil || len(strings.Split(err.Error(), "\n")) != 3 {
		t.Fatalf("want three faults, got %v", err)
	}
	var e *Error
	if !errors.As(err, &e) || e.Line != 1 {
		t.Errorf("first fault: %+v", e)
	}
}

func TestParseWarns(t *testing.T) {
	c, warnings, err := Parse("f", []byte("cluster_partition_handling = autoheal"))
	if err != nil || len(warnings) != 1 || c.PartitionHandling != PauseMinority {
		t.Fatalf("%v %v %v", c, warnings, err)
	}
	if w := warnings[0]; w.Line != 1 || !strings.Contains(w.Text, "autoheal is not supported") {
		t.Errorf("%+v", w)
	}
}

// TestParseTakesRabbitMQsFile: a file of a RabbitMQ with plugins starts a node, and each key that means nothing is named with
// its line.
func TestParseTakesRabbitMQsFile(t *testing.T) {
	_, warnings, err := Parse("rabbitmq.conf", []byte(strings.Join([]string{
		"listeners.tcp.default = 5672", "management.tcp.port = 15672", "management.ssl.port = 15671", "prometheus.return_per_object_metrics = true",
		"log.file = rabbit.log", "log.file.level = info", "log.dir = /var/log/rabbitmq", "log.connection.level = info",
		"auth_backends.1 = internal", "num_acceptors.tcp = 10", "net_ticktime = 60", "collect_statistics_interval = 10000",
		"tcp_listen_options.backlog = 4096", "queue_index_embed_msgs_below = 4096", "mqtt.vhost = /", "vm_memory_high_watermark_paging_ratio = 0.5",
		"cluster_formation.randomized_startup_delay_range.min = 5", "deprecated_features.permit.classic_queue_mirroring = true",
	}, "\n")))
	if err != nil {
		t.Fatal(err)
	}
	if len(warnings) != 17 {
		t.Errorf("%d warnings: %v", len(warnings), warnings)
	}
	want := Warning{File: "rabbitmq.conf", Line: 2, Text: "management.tcp.port has no effect: Warren has no plugins"}
	if len(warnings) == 0 || warnings[0] != want {
		t.Errorf("%+v, not %+v", warnings, want)
	}
}

// TestOperationsNamesEveryKey: docs/operations.md lists the keys that are understood, and those that have no effect.
func TestOperationsNamesEveryKey(t *testing.T) {
	doc, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "operations.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range keys() {
		if !strings.Contains(string(doc), "`"+k.name+"`") {
			t.Errorf("docs/operations.md does not name `%s`", k.name)
		}
	}
	for _, f := range foreign() {
		if !strings.Contains(string(doc), "`"+f.name+"`") {
			t.Errorf("docs/operations.md does not name `%s`, which has no effect", f.name)
		}
	}
}

func TestParseLimits(t *testing.T) {
	if _, _, err := Parse("f", make([]byte, MaxText+1)); err == nil {
		t.Error("an oversize file was accepted")
	}
	var b strings.Builder
	for i := range MaxPeer + 1 {
		b.WriteString("listeners.tcp." + strings.Repeat("x", i+1) + " = 1\n")
	}
	if _, _, err := Parse("f", []byte(b.String())); err == nil || !strings.Contains(err.Error(), "more than 64 entries") {
		t.Errorf("got %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("listeners.tcp.1 = [::1]:5672\nloopback_users.a\\.b = true # c")
	f.Fuzz(func(t *testing.T, text string) {
		c, _, err := Parse("f", []byte(text))
		if (c == nil) == (err == nil) {
			t.Errorf("config %v and error %v", c, err)
		}
	})
}
