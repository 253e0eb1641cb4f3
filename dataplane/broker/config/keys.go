package config

import (
	"fmt"
	"log/slog"
	"slices"
	"sort"
	"time"
)

// key is one entry of the table of keys. A name may have one segment "*", whose text set gets as wild.
type key struct {
	name string
	set  setter
}

// setter takes the value of a key.
type setter func(p *parser, wild, value string) error

// keys is the table of all keys that are understood; lookup is by name. It is a function so that it is no global state.
func keys() []key {
	return append(sslKeys(), []key{
		{"listeners.tcp", (*parser).setNoListeners},
		{"listeners.tcp.*", (*parser).setListener},
		{"heartbeat", (*parser).setHeartbeat},
		{"frame_max", (*parser).setFrameMax},
		{"channel_max", (*parser).setChannelMax},
		{"handshake_timeout", milliseconds(func(c *Config) *time.Duration { return &c.HandshakeTimeout }, 100*time.Millisecond)},
		{"connection_max", (*parser).setConnectionMax},
		{"max_message_size", (*parser).setMaxMessageSize},
		{"consumer_timeout", milliseconds(func(c *Config) *time.Duration { return &c.ConsumerTimeout }, time.Millisecond)},
		{"tcp_listen_options", none},
		{"tcp_listen_options.nodelay", flag(func(c *Config) *bool { return &c.TCP.NoDelay })},
		{"tcp_listen_options.keepalive", flag(func(c *Config) *bool { return &c.TCP.KeepAlive })},
		{"tcp_listen_options.sndbuf", buffer(func(c *Config) *int { return &c.TCP.SendBuffer })},
		{"tcp_listen_options.recbuf", buffer(func(c *Config) *int { return &c.TCP.ReceiveBuffer })},
		{"tcp_listen_options.linger.on", flag(func(c *Config) *bool { return &c.TCP.Linger })},
		{"tcp_listen_options.linger.timeout", (*parser).setLingerTime},

		{"default_user", text(func(c *Config) *string { return &c.DefaultUser })},
		{"default_pass", secret(func(c *Config) *Secret { return &c.DefaultPassword })},
		{"default_user_tags.*", (*parser).setDefaultTag},
		{"default_permissions.configure", text(func(c *Config) *string { return &c.DefaultPermissions.Configure })},
		{"default_permissions.write", text(func(c *Config) *string { return &c.DefaultPermissions.Write })},
		{"default_permissions.read", text(func(c *Config) *string { return &c.DefaultPermissions.Read })},
		{"default_vhost", text(func(c *Config) *string { return &c.DefaultVHost })},
		{"load_definitions", (*parser).setDefinitions},
		{"management.load_definitions", (*parser).setDefinitions},
		{"definitions.import_backend", (*parser).setDefinitionsBackend},
		{"definitions.local.path", (*parser).setDefinitions},
		{"definitions.skip_if_unchanged", (*parser).setSkipUnchanged},
		{"loopback_users", (*parser).setNoLoopbackUsers},
		{"loopback_users.*", (*parser).setLoopbackUser},

		{"cluster_name", text(func(c *Config) *string { return &c.ClusterName })},
		{"cluster_formation.peer_discovery_backend", (*parser).setDiscovery},
		{"cluster_formation.classic_config.nodes.*", (*parser).setPeer},
		{"cluster_partition_handling", (*parser).setPartitionHandling},

		{"log.level", (*parser).setLogLevel},
		{"log.default.level", (*parser).setLogLevel},
		{"log.console", (*parser).setConsole},
		{"log.console.level", (*parser).setLogLevel},

		{"vm_memory_high_watermark.relative", relative(func(c *Config) *Limit { return &c.MemoryLimit }, 1)},
		{"vm_memory_high_watermark.absolute", absolute(func(c *Config) *Limit { return &c.MemoryLimit })},
		{"disk_free_limit.relative", relative(func(c *Config) *Limit { return &c.DiskFree }, 1000)},
		{"disk_free_limit.absolute", absolute(func(c *Config) *Limit { return &c.DiskFree })},

		{"queue_master_locator", (*parser).setLocator},
		{"queue_leader_locator", (*parser).setLocator},
		{"mirroring_sync_batch_size", (*parser).setSyncBatchSize},
		{"mirroring_sync_max_throughput", (*parser).setSyncMaxThroughput},

		{"warren.internode.listen", (*parser).setInternodeListen},
		{"warren.internode.address", checked(parseAddress, func(c *Config) *string { return &c.Internode.Address })},
		{"warren.internode.tls.cacertfile", text(func(c *Config) *string { return &c.Internode.TLS.CACertFile })},
		{"warren.internode.tls.certfile", text(func(c *Config) *string { return &c.Internode.TLS.CertFile })},
		{"warren.internode.tls.keyfile", text(func(c *Config) *string { return &c.Internode.TLS.KeyFile })},
		{"warren.cluster_formation.address.*", (*parser).setPeerAddress},
		{"warren.heartbeat_interval", duration(func(t *Timing) *time.Duration { return &t.HeartbeatInterval }, 10*time.Millisecond)},
		{"warren.lease", duration(func(t *Timing) *time.Duration { return &t.Lease }, 100*time.Millisecond)},
		{"warren.unreachable_after", duration(func(t *Timing) *time.Duration { return &t.UnreachableAfter }, 100*time.Millisecond)},
		{"warren.mirror_replacement_delay", duration(func(t *Timing) *time.Duration { return &t.MirrorReplacementDelay }, 0)},
		{"warren.recovery_wait", duration(func(t *Timing) *time.Duration { return &t.RecoveryWait }, 0)},
		{"warren.metadata_snapshot_after", (*parser).setSnapshotAfter},
		{"warren.witness", flag(func(c *Config) *bool { return &c.Witness })},
		{"warren.quorum_queues_as_mirrored", flag(func(c *Config) *bool { return &c.QuorumAsMirrored })},
		{"warren.debug.listen", checked(parseLoopback, func(c *Config) *string { return &c.DebugListen })},
	}...)
}

func text(field func(*Config) *string) setter {
	return func(p *parser, _, value string) error {
		*field(p.c) = value
		return nil
	}
}

func checked(parse func(string) (string, error), field func(*Config) *string) setter {
	return func(p *parser, _, value string) error {
		v, err := parse(value)
		if err == nil {
			*field(p.c) = v
		}
		return err
	}
}

func duration(field func(*Timing) *time.Duration, least time.Duration) setter {
	return func(p *parser, _, value string) error {
		d, err := parseDuration(value)
		if err != nil {
			return err
		}
		const most = 24 * time.Hour
		if d < least || d > most {
			return fmt.Errorf("%q is not between %v and %v", clip(value), least, most)
		}
		*field(&p.c.Timing) = d
		return nil
	}
}

func relative(field func(*Config) *Limit, most float64) setter {
	return func(p *parser, _, value string) error {
		f, err := parseFraction(value, most)
		if err == nil {
			*field(p.c) = Limit{Relative: f}
		}
		return err
	}
}

func absolute(field func(*Config) *Limit) setter {
	return func(p *parser, _, value string) error {
		n, err := ParseBytes(value)
		if err != nil {
			return err
		}
		if n == 0 {
			return fmt.Errorf("%q: the limit must be above 0", clip(value))
		}
		*field(p.c) = Limit{Absolute: n}
		return nil
	}
}

func (p *parser) setNoListeners(_, value string) error {
	if value != "none" {
		return fmt.Errorf("%q: only \"none\" is possible here; a port is set by listeners.tcp.default", clip(value))
	}
	p.noListeners = true
	return nil
}

func (p *parser) setListener(wild, value string) error {
	l, err := parseListener(value)
	if err != nil {
		return err
	}
	return add(&p.listeners, entry[Listener]{wild, p.line, l})
}

func (p *parser) setHeartbeat(_, value string) error {
	n, err := parseUint(value, 65535)
	if err == nil {
		p.c.Heartbeat = time.Duration(n) * time.Second
	}
	return err
}

func (p *parser) setFrameMax(_, value string) error {
	const least = 4096 // AMQP 0-9-1, 4.2.3: frame-min-size
	n, err := parseUint(value, MaxFrame)
	if err != nil {
		return err
	}
	if n != 0 && n < least {
		return fmt.Errorf("%q is below AMQP's smallest maximum, %d", clip(value), least)
	}
	p.c.FrameMax = uint32(n)
	return nil
}

func (p *parser) setChannelMax(_, value string) error {
	n, err := parseUint(value, 65535)
	if err == nil {
		p.c.ChannelMax = uint16(n)
	}
	return err
}

func (p *parser) setNoLoopbackUsers(_, value string) error {
	if value != "none" {
		return fmt.Errorf("%q: only \"none\" is possible here; one user is set by loopback_users.NAME", clip(value))
	}
	p.c.LoopbackUsers = nil
	return nil
}

func (p *parser) setLoopbackUser(user, value string) error {
	only, err := parseBool(value)
	if err != nil {
		return err
	}
	users := slices.DeleteFunc(slices.Clone(p.c.LoopbackUsers), func(u string) bool { return u == user })
	if only {
		users = append(users, user)
	}
	sort.Strings(users)
	p.c.LoopbackUsers = users
	return nil
}

func (p *parser) setDiscovery(_, value string) error {
	switch value {
	case "classic_config", "rabbit_peer_discovery_classic_config":
		return nil
	}
	return fmt.Errorf("%q is not supported; the peers are listed: classic_config", clip(value))
}

func (p *parser) setPeer(wild, value string) error {
	node, err := parseNode(value)
	if err != nil {
		return err
	}
	return add(&p.peers, entry[string]{wild, p.line, node})
}

func (p *parser) setPeerAddress(wild, value string) error {
	address, err := parseAddress(value)
	if err != nil {
		return err
	}
	return add(&p.addresses, entry[string]{wild, p.line, address})
}

func (p *parser) setPartitionHandling(_, value string) error {
	switch value {
	case PauseMinority:
	case "ignore", "autoheal", "pause_if_all_down":
		p.warn("cluster_partition_handling = %s is not supported, %s is used: a cluster never has two masters", value, PauseMinority)
	default:
		return fmt.Errorf("%q is none of pause_minority, autoheal, ignore, pause_if_all_down", clip(value))
	}
	return nil
}

func (p *parser) setConsole(_, value string) error {
	on, err := parseBool(value)
	if err == nil && !on {
		p.warn("log.console = false has no effect: the log goes to standard error")
	}
	return err
}

func (p *parser) setLogLevel(_, value string) error {
	level, err := ParseLogLevel(value)
	if err == nil {
		p.c.LogLevel = level
	}
	return err
}

// ParseLogLevel reads one of RabbitMQ's names of log levels.
func ParseLogLevel(value string) (slog.Level, error) {
	switch value {
	case "debug":
		return slog.LevelDebug, nil
	case "info", "notice":
		return slog.LevelInfo, nil
	case "warning", "warn":
		return slog.LevelWarn, nil
	case "error", "critical", "alert", "emergency":
		return slog.LevelError, nil
	case "none":
		return slog.LevelError + 100, nil
	}
	return 0, fmt.Errorf("%q is none of debug, info, notice, warning, error, critical, none", clip(value))
}

func (p *parser) setLocator(_, value string) error {
	switch value {
	case "client-local", "min-masters", "random":
		p.c.QueueMasterLocator = value
		return nil
	case "balanced":
		p.c.QueueMasterLocator = "min-masters" // RabbitMQ's newer name of it
		return nil
	}
	return fmt.Errorf("%q is none of client-local, min-masters, random", clip(value))
}

func (p *parser) setSnapshotAfter(_, value string) error {
	const least, most = 16, 1_000_000
	n, err := parseUint(value, most)
	if err == nil && n < least {
		err = fmt.Errorf("%q is less than %d", clip(value), least)
	}
	if err == nil {
		p.c.SnapshotAfter = n
	}
	return err
}

func (p *parser) setSyncBatchSize(_, value string) error {
	const most = 1_000_000
	n, err := parseUint(value, most)
	if err != nil {
		return err
	}
	if n == 0 {
		return fmt.Errorf("%q: a batch has at least one message", clip(value))
	}
	if n > 1 { // RabbitMQ reads 1 as "the default" (rabbit_mirror_queue_sync)
		p.c.SyncBatchSize = int(n)
	}
	return nil
}

// setSyncMaxThroughput: bytes per second, 0 for no limit (RabbitMQ's default).
func (p *parser) setSyncMaxThroughput(_, value string) error {
	n, err := ParseBytes(value)
	if err == nil {
		p.c.SyncMaxThroughput = n
	}
	return err
}

func (p *parser) setInternodeListen(_, value string) error {
	l, err := parseListener(value)
	if err == nil {
		p.c.Internode.Listen = l
	}
	return err
}
