package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// foreignKey is a key of RabbitMQ's that means nothing here. In its name "*" is any one segment, "**" one or more.
type foreignKey struct {
	name string
	why  string
	// harmless are the values with which it may be left aside; nil: all. Any other ends the start: dropping it would let
	// somebody in, or let somebody do something, that the file forbids, or leave messages with fewer copies than it asks for.
	harmless []string
}

// Why keys have no effect.
const (
	noPlugins   = "Warren has no plugins"
	noErlang    = "it is about Erlang's runtime"
	noLogFiles  = "the log goes to standard error; log.level sets its level"
	otherStore  = "Warren's store of messages has no such setting"
	otherMeta   = "Warren's store of metadata has no such setting"
	byList      = "nodes form a cluster by cluster_formation.classic_config"
	kernelsWork = "the system's setting holds"
	goTLS       = "Go's TLS has no such setting"
	notThere    = "Warren has no such thing"
)

// foreign is the table of RabbitMQ's keys (3.7 to 3.13) that have no effect here.
func foreign() []foreignKey {
	internal := []string{"internal", "rabbit_auth_backend_internal"}
	off := []string{"false", "off", "none"}
	never := []string{}
	return []foreignKey{
		{"auth_backends.*", "users are those of the node's own database", internal},
		{"auth_backends.*.authn", "users are those of the node's own database", internal},
		{"auth_backends.*.authz", "users are those of the node's own database", internal},
		{"proxy_protocol", "the PROXY protocol is not understood: no client could connect", off},
		{"credential_validator.validation_backend", "new passwords are not checked", []string{"rabbit_credential_validator_accept_everything"}},
		{"credential_validator.min_length", "it needs a validation_backend, which is refused", nil},
		{"credential_validator.regexp", "it needs a validation_backend, which is refused", nil},
		{"default_limits.**", "set limits with set_vhost_limits", never},
		{"default_policies.**", "set policies with set_operator_policy", never},
		{"default_users.**", "add users with add_user", never},
		{"message_interceptors.**", "messages are not changed on their way", never},
		{"definitions.https.**", "definitions come from a file: load_definitions", never},
		{"definitions.tls.**", "definitions come from a file: load_definitions", nil},
		{"definitions.hashing.algorithm", "definitions are not compared by a hash", nil},
		{"ssl_options.crl_check", "lists of revoked certificates are not read", off},
		{"ssl_options.cert", "certificates come from files: ssl_options.certfile", never},
		{"ssl_options.cacerts.*", "certificates come from files: ssl_options.cacertfile", never},
		{"ssl_options.key.*", "keys come from files: ssl_options.keyfile", never},
		{"ssl_options.psk_identity", "TLS is by certificates", never},
		{"ssl_options.client_renegotiation", "a client never may renegotiate", []string{"false", "off"}},
		{"ssl_allow_poodle_attack", "SSL 3 is not spoken", []string{"false", "off"}},
		{"ssl_options.secure_renegotiate", goTLS, nil},
		{"ssl_options.reuse_sessions", "sessions are not resumed", nil},
		{"ssl_options.dh", goTLS, nil},
		{"ssl_options.dhfile", goTLS, nil},
		{"ssl_options.log_alert", goTLS, nil},
		{"ssl_options.log_level", goTLS, nil},
		{"ssl_options.bypass_pem_cache", "changed files are read again by themselves", nil},

		{"management.**", noPlugins, nil},
		{"management_agent.**", noPlugins, nil},
		{"prometheus.**", noPlugins, nil},
		{"mqtt.**", noPlugins, nil},
		{"web_mqtt.**", noPlugins, nil},
		{"stomp.**", noPlugins, nil},
		{"web_stomp.**", noPlugins, nil},
		{"web_dispatch.**", noPlugins, nil},
		{"stream.**", noPlugins, nil},
		{"amqp1_0.**", noPlugins, nil},
		{"auth_ldap.**", noPlugins, nil},
		{"auth_http.**", noPlugins, nil},
		{"auth_oauth2.**", noPlugins, nil},
		{"auth_cache.**", noPlugins, nil},
		{"trust_store.**", noPlugins, nil},
		{"event_exchange.**", noPlugins, nil},
		{"federation.**", noPlugins, nil},
		{"shovel.**", noPlugins, nil},
		{"tracing.**", noPlugins, nil},
		{"aws.**", noPlugins, nil},

		{"distribution.**", noErlang, nil},
		{"erlang.**", noErlang, nil},
		{"sysmon_handler.**", noErlang, nil},
		{"net_ticktime", "warren.heartbeat_interval and warren.unreachable_after are how nodes notice each other", nil},
		{"cluster_keepalive_interval", "warren.heartbeat_interval and warren.unreachable_after are how nodes notice each other", nil},
		{"background_gc_enabled", noErlang, nil},
		{"background_gc_target_interval", noErlang, nil},
		{"default_worker_pool_size", noErlang, nil},
		{"delegate_count", noErlang, nil},
		{"hipe_compile", noErlang, nil},
		{"socket_writer.gc_threshold", noErlang, nil},
		{"num_acceptors.*", "connections are accepted as they come", nil},
		{"initial_frame_max", notThere, nil},
		{"reverse_dns_lookups", "lists show addresses", nil},
		{"collect_statistics", notThere, nil},
		{"collect_statistics_interval", notThere, nil},
		{"motd_file", notThere, nil},
		{"product.*", notThere, nil},
		{"password_hashing_module", "passwords are hashed with SHA-256", nil},
		{"vhost_restart_strategy", notThere, nil},
		{"default_queue_type", "queues are classic ones, and have mirrors only where a policy says so (ha-mode)", []string{"classic", "rabbit_classic_queue"}},
		{"deprecated_features.**", "mirrored queues are what Warren is for", nil},
		{"node_tags.*", notThere, nil},
		{"cluster_tags.*", notThere, nil},
		{"vhost_max", "this limit is not kept", nil},
		{"channel_max_per_node", "this limit is not kept", nil},
		{"consumer_max_per_channel", "this limit is not kept", nil},

		{"queue_index_embed_msgs_below", otherStore, nil},
		{"classic_queue.**", otherStore, nil},
		{"message_store_shutdown_timeout", otherStore, nil},
		{"vm_memory_high_watermark_paging_ratio", otherStore, nil},
		{"vm_memory_calculation_strategy", "what the system says of the process counts", nil},
		{"total_memory_available_override_value", "use vm_memory_high_watermark.absolute", nil},
		{"memory_monitor_interval", notThere, nil},
		{"quorum_queue.**", "there are no quorum queues", nil},
		{"mnesia_table_loading_retry_limit", otherMeta, nil},
		{"mnesia_table_loading_retry_timeout", otherMeta, nil},
		{"raft.**", otherMeta, nil},
		{"metadata_store.**", otherMeta, nil},

		{"log.console.**", noLogFiles, nil},
		{"log.dir", noLogFiles, nil},
		{"log.file", noLogFiles, nil},
		{"log.file.**", noLogFiles, nil},
		{"log.default.rotation.*", noLogFiles, nil},
		{"log.exchange", "there is no exchange for the log", nil},
		{"log.exchange.**", "there is no exchange for the log", nil},
		{"log.syslog", noLogFiles, nil},
		{"log.syslog.**", noLogFiles, nil},
		{"log.journald", noLogFiles, nil},
		{"log.journald.**", noLogFiles, nil},
		{"log.channel.**", noLogFiles, nil},
		{"log.connection.**", noLogFiles, nil},
		{"log.federation.**", noLogFiles, nil},
		{"log.mirroring.**", noLogFiles, nil},
		{"log.queue.**", noLogFiles, nil},
		{"log.ra.**", noLogFiles, nil},
		{"log.upgrade.**", noLogFiles, nil},
		{"log.prelaunch.**", noLogFiles, nil},
		{"log.summarize_process_state", noErlang, nil},
		{"log.error_logger_format_depth", noErlang, nil},

		{"cluster_formation.node_type", "a node keeps its data on disk", nil},
		{"cluster_formation.target_cluster_size_hint", byList, nil},
		{"cluster_formation.discovery_retry_interval", byList, nil},
		{"cluster_formation.discovery_retry_limit", byList, nil},
		{"cluster_formation.internal_lock_retries", byList, nil},
		{"cluster_formation.lock_retry_limit", byList, nil},
		{"cluster_formation.lock_retry_timeout", byList, nil},
		{"cluster_formation.randomized_startup_delay_range.*", byList, nil},
		{"cluster_formation.registration.**", byList, nil},
		{"cluster_formation.node_cleanup.**", "no node is forgotten by itself", nil},
		{"cluster_formation.proxy.**", byList, nil},
		{"cluster_formation.dns.**", byList, nil},
		{"cluster_formation.k8s.**", byList, nil},
		{"cluster_formation.consul.**", byList, nil},
		{"cluster_formation.etcd.**", byList, nil},
		{"cluster_formation.aws.**", byList, nil},
		{"cluster_partition_handling.pause_if_all_down.**", "pause_minority is used: a cluster never has two masters", nil},

		{"tcp_listen_options.backlog", kernelsWork, nil},
		{"tcp_listen_options.*", kernelsWork, nil},
	}
}

// matchForeign compares the segments of a key with those of a foreign one.
func matchForeign(pattern, parts []string) bool {
	for i, segment := range pattern {
		switch {
		case i >= len(parts):
			return false
		case segment == "**":
			return true
		case segment != "*" && segment != parts[i]:
			return false
		}
	}
	return len(pattern) == len(parts)
}

// setForeign leaves a key aside with a warning, or refuses it.
func (p *parser) setForeign(f foreignKey, s Setting) {
	if f.harmless != nil && !slices.Contains(f.harmless, s.Value) {
		text := fmt.Sprintf("%s: %q cannot be kept: %s", clip(s.Key), clip(s.Value), f.why)
		if len(f.harmless) > 0 {
			text += "; possible is " + strings.Join(f.harmless, ", ")
		} else {
			text += "; take the line out"
		}
		p.fail(errors.New(text))
		return
	}
	p.warn("%s has no effect: %s", clip(s.Key), f.why)
}
