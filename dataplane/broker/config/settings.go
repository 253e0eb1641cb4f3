package config

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Settings are the keys of c with their values, the defaults among them, as a file would have them that Parse reads as c. Passwords are
// hidden; a text or an amount that c leaves to the system is left out.
func (c *Config) Settings() []Setting {
	var s settings
	s.clients(c)
	s.tls(c)
	s.cluster(c)
	s.warren(c)
	return s
}

type settings []Setting

func (s *settings) add(key string, value any) { *s = append(*s, Setting{key, fmt.Sprint(value)}) }

// given adds what is not the zero value.
func given[T comparable](s *settings, key string, value T) {
	var zero T
	if value != zero {
		s.add(key, value)
	}
}

// numbered adds a list that is numbered from 1.
func numbered[T any](s *settings, group string, values []T) {
	for i, v := range values {
		s.add(group+"."+strconv.Itoa(i+1), v)
	}
}

// names adds a set of names, and those of the default one that are not in it.
func (s *settings) names(group string, now, standard []string) {
	for _, name := range standard {
		if !slices.Contains(now, name) {
			s.add(group+"."+escape(name), false)
		}
	}
	for _, name := range now {
		s.add(group+"."+escape(name), true)
	}
}

func (s *settings) listeners(group string, all []Listener) {
	if len(all) == 0 {
		s.add(group, "none")
	}
	numbered(s, group, all)
}

func (s *settings) limit(group string, l Limit) {
	if l.Absolute > 0 {
		s.add(group+".absolute", l.Absolute)
	} else {
		s.add(group+".relative", l.Relative)
	}
}

func (s *settings) clients(c *Config) {
	s.listeners("listeners.tcp", c.Listeners)
	s.add("heartbeat", int64(c.Heartbeat/time.Second))
	s.add("frame_max", c.FrameMax)
	s.add("channel_max", c.ChannelMax)
	s.add("handshake_timeout", c.HandshakeTimeout.Milliseconds())
	if c.ConnectionMax == 0 {
		s.add("connection_max", "infinity")
	} else {
		s.add("connection_max", c.ConnectionMax)
	}
	s.add("max_message_size", c.MaxMessageSize)
	s.add("consumer_timeout", c.ConsumerTimeout.Milliseconds())
	s.add("tcp_listen_options.nodelay", c.TCP.NoDelay)
	s.add("tcp_listen_options.keepalive", c.TCP.KeepAlive)
	given(s, "tcp_listen_options.sndbuf", c.TCP.SendBuffer)
	given(s, "tcp_listen_options.recbuf", c.TCP.ReceiveBuffer)
	s.add("tcp_listen_options.linger.on", c.TCP.Linger)
	s.add("tcp_listen_options.linger.timeout", int64(c.TCP.LingerTime/time.Second))

	s.add("default_user", c.DefaultUser)
	s.add("default_pass", c.DefaultPassword)
	s.names("default_user_tags", c.DefaultUserTags, Default().DefaultUserTags)
	s.add("default_permissions.configure", c.DefaultPermissions.Configure)
	s.add("default_permissions.write", c.DefaultPermissions.Write)
	s.add("default_permissions.read", c.DefaultPermissions.Read)
	s.add("default_vhost", c.DefaultVHost)
	given(s, "load_definitions", c.Definitions)
	s.names("loopback_users", c.LoopbackUsers, Default().LoopbackUsers)
}

func (s *settings) tls(c *Config) {
	t := c.ClientTLS
	s.listeners("listeners.ssl", c.SSLListeners)
	given(s, "ssl_options.cacertfile", t.CACertFile)
	given(s, "ssl_options.certfile", t.CertFile)
	given(s, "ssl_options.keyfile", t.KeyFile)
	given(s, "ssl_options.password", t.Password)
	s.add("ssl_options.verify", map[bool]string{true: "verify_peer", false: "verify_none"}[t.VerifyPeer])
	s.add("ssl_options.fail_if_no_peer_cert", t.FailIfNoPeerCert)
	s.add("ssl_options.depth", t.Depth)
	var versions, ciphers []string
	for _, v := range slices.Backward(sslVersions) {
		if v.version >= t.MinVersion && v.version <= t.MaxVersion {
			versions = append(versions, v.name)
		}
	}
	numbered(s, "ssl_options.versions", versions)
	for _, id := range t.Ciphers {
		ciphers = append(ciphers, tls.CipherSuiteName(id))
	}
	numbered(s, "ssl_options.ciphers", ciphers)
	s.add("ssl_handshake_timeout", c.TLSHandshakeTimeout.Milliseconds())
	numbered(s, "auth_mechanisms", c.AuthMechanisms)
	s.add("ssl_cert_login_from", c.CertLogin.From)
	s.add("ssl_cert_login_san_type", c.CertLogin.SANType)
	s.add("ssl_cert_login_san_index", c.CertLogin.SANIndex)
}

func (s *settings) cluster(c *Config) {
	given(s, "cluster_name", c.ClusterName)
	for i, p := range c.Peers {
		s.add(fmt.Sprintf("cluster_formation.classic_config.nodes.%d", i+1), p.Node)
		s.add(fmt.Sprintf("warren.cluster_formation.address.%d", i+1), p.Address)
	}
	s.add("cluster_partition_handling", c.PartitionHandling)
	s.add("log.level", levelName(c.LogLevel))
	s.limit("vm_memory_high_watermark", c.MemoryLimit)
	s.limit("disk_free_limit", c.DiskFree)
	s.add("queue_master_locator", c.QueueMasterLocator)
	s.add("mirroring_sync_batch_size", c.SyncBatchSize)
	s.add("mirroring_sync_max_throughput", c.SyncMaxThroughput)
}

func (s *settings) warren(c *Config) {
	s.add("warren.internode.listen", c.Internode.Listen)
	given(s, "warren.internode.address", c.Internode.Address)
	given(s, "warren.internode.tls.cacertfile", c.Internode.TLS.CACertFile)
	given(s, "warren.internode.tls.certfile", c.Internode.TLS.CertFile)
	given(s, "warren.internode.tls.keyfile", c.Internode.TLS.KeyFile)
	s.add("warren.heartbeat_interval", durationText(c.Timing.HeartbeatInterval))
	s.add("warren.lease", durationText(c.Timing.Lease))
	s.add("warren.unreachable_after", durationText(c.Timing.UnreachableAfter))
	s.add("warren.mirror_replacement_delay", durationText(c.Timing.MirrorReplacementDelay))
	s.add("warren.recovery_wait", durationText(c.Timing.RecoveryWait))
	given(s, "warren.metadata_snapshot_after", c.SnapshotAfter)
	s.add("warren.witness", c.Witness)
	s.add("warren.quorum_queues_as_mirrored", c.QuorumAsMirrored)
	given(s, "warren.debug.listen", c.DebugListen)
}

// String is what a file has for l: PORT, or HOST:PORT.
func (l Listener) String() string { return strings.TrimPrefix(l.Address(), ":") }

// durationText is a duration in the largest of s and ms that it is a whole number of.
func durationText(d time.Duration) string {
	switch {
	case d%time.Second == 0:
		return fmt.Sprintf("%ds", d/time.Second)
	case d%time.Millisecond == 0:
		return fmt.Sprintf("%dms", d/time.Millisecond)
	}
	return d.String()
}

// levelName is the name by which ParseLogLevel knows a level.
func levelName(level slog.Level) string {
	for _, name := range []string{"debug", "info", "warning", "error"} {
		if l, err := ParseLogLevel(name); err == nil && level <= l {
			return name
		}
	}
	return "none"
}
