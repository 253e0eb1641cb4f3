package command

import (
	"strings"

	"warren/ctl/admin"
)

func pid(node int, id uint64) admin.PID {
	creations := []uint64{0, 1795966129, 1795966136, 1795966136}
	return admin.PID{Node: "rmq" + string(rune('0'+node)) + "@localhost", Creation: creations[node], ID: id}
}

func longstr(name, value string) admin.Argument {
	return admin.Argument{Name: name, Value: admin.Value{Kind: admin.KindLongStr, Text: value}}
}

func integer(name string, kind admin.Kind, value int64) admin.Argument {
	return admin.Argument{Name: name, Value: admin.Value{Kind: kind, Int: value}}
}

// recordedState is the state in which a transcript was made.
func recordedState(file string) *fakeNode {
	f := &fakeNode{
		status:  admin.NodeStatus{Name: "rmq1@localhost", Running: true, State: "running"},
		vhosts:  []string{"/test", "/", "v1", "v2"},
		cluster: recordedCluster(),
		users: []admin.UserInfo{
			{Name: "bob"}, {Name: "erin"}, {Name: "alice"}, {Name: "dave"}, {Name: "guest", Tags: []string{"administrator"}}, {Name: "carol"},
		},
		invalid: map[string]string{
			"{}": "no policy provided", `{"ha-mode":"exactly","ha-params":0,"ha-sync-mode":"x","message-ttl":-1}`: "-1 is not a valid message TTL",
			"(":      `pattern should be regular expression but is invalid: {"missing )",1}`,
			"queue":  "apply-to 'queue' unrecognised; should be 'queues', 'exchanges' or 'all'",
			"QUEUES": "apply-to 'QUEUES' unrecognised; should be 'queues', 'exchanges' or 'all'",
		},
	}
	f.masters = []admin.NodeMasters{{Node: "rmq3@localhost", Masters: 3}, {Node: "rmq2@localhost", Masters: 2}, {Node: "rmq1@localhost", Masters: 3}}
	if strings.HasPrefix(file, "policy-") {
		f.strict, f.invalid = true, nil
	}
	if strings.HasPrefix(file, "lifecycle") {
		f.critical = []admin.QueueName{{VHost: "/", Name: "late"}}
	}
	if strings.HasPrefix(file, "down") {
		f.queues = downQueues()
		return f
	}
	f.queues = recordedQueues()
	f.exchanges, f.bindings = recordedExchanges()
	return f
}

func recordedQueues() []admin.QueueInfo {
	q := func(name string, node int, id uint64, messages uint64) admin.QueueInfo {
		return admin.QueueInfo{
			Name: name, VHost: "/", Node: pid(node, 0).Node, PID: pid(node, id), Durable: true, State: "running",
			Known: true, Messages: messages, MessagesReady: messages,
		}
	}
	all := []admin.QueueInfo{
		q("héllo-☃", 1, 3659, 0), q("plain", 1, 3609, 5), q("ha-all.orders", 1, 3619, 10), q("plain.transient", 1, 3614, 0),
		q("name with space\tand tab", 1, 3654, 0), q("ha-nodes.a", 1, 3639, 0), q("late", 2, 1298, 100), q("ha-two.jobs", 2, 1268, 0),
		q("auto", 3, 1289, 0), q("own", 3, 1294, 0), q("only3", 3, 1299, 3),
	}
	mirrors := func(i int, policy string, synchronised int, pids ...admin.PID) {
		all[i].Policy, all[i].Mirrored, all[i].Slaves, all[i].SynchronisedSlaves = policy, true, pids, pids[:synchronised]
	}
	mirrors(2, "ha-all", 2, pid(2, 1257), pid(3, 1257))
	mirrors(5, "ha-nodes", 1, pid(2, 1291))
	mirrors(6, "late", 0, pid(1, 3753), pid(3, 1351))
	mirrors(7, "ha-two", 1, pid(3, 1272))
	all[2].MessagesReady, all[2].MessagesUnacknowledged, all[2].Consumers = 7, 3, 1
	all[3].Durable, all[3].Consumers = false, 1
	all[7].Consumers = 1
	all[7].Arguments = []admin.Argument{integer("x-max-priority", admin.KindSignedInt, 5), integer("x-message-ttl", admin.KindSignedInt, 3600000)}
	all[8].AutoDelete = true
	all[9].Durable, all[9].Exclusive, all[9].OwnerPID, all[9].Consumers = false, true, pid(3, 1238), 1
	v1 := q("vq", 1, 1, 0)
	v1.VHost = "v1"
	return append(all, v1)
}

// downQueues: rmq3 was killed.
func downQueues() []admin.QueueInfo {
	on3 := admin.QueueInfo{Name: "on3", VHost: "/", Node: "rmq3@localhost", PID: pid(3, 1835), Durable: true, State: "down"}
	late := admin.QueueInfo{
		Name: "late", VHost: "/", Node: "rmq2@localhost", PID: pid(2, 1881), Durable: true, State: "running", Policy: "late", Known: true, Messages: 5,
		Mirrored: true, Slaves: []admin.PID{pid(1, 5318)}, SynchronisedSlaves: []admin.PID{pid(1, 5318)},
	}
	on := func(name string, p admin.PID) admin.QueueInfo {
		return admin.QueueInfo{Name: name, VHost: "/", Node: p.Node, PID: p, Durable: true, State: "running", Known: true, Messages: 5}
	}
	two, all := on("ha-two.m3", pid(2, 1866)), on("ha-all.m3", pid(2, 1847))
	two.Policy, two.Mirrored, two.Slaves = "ha-two", true, []admin.PID{pid(1, 5371)}
	all.Policy, all.Mirrored, all.Slaves, all.SynchronisedSlaves = "ha-all", true, []admin.PID{pid(1, 5294)}, []admin.PID{pid(1, 5294)}
	return []admin.QueueInfo{on3, on("on1", pid(1, 5272)), on("on2", pid(2, 1829)), late, two, all}
}

func recordedExchanges() ([]admin.ExchangeInfo, []admin.BindingInfo) {
	var all []admin.ExchangeInfo
	for _, nameType := range [][2]string{
		{"amq.fanout", "fanout"}, {"amq.direct", "direct"}, {"amq.topic", "topic"}, {"amq.match", "headers"}, {"amq.rabbitmq.trace", "topic"},
		{"x.fan", "fanout"}, {"x.int", "direct"}, {"", "direct"}, {"amq.headers", "headers"}, {"x.hdr", "headers"}, {"x.topic", "topic"},
	} {
		x := admin.ExchangeInfo{Name: nameType[0], VHost: "/", Type: nameType[1], Durable: true}
		switch {
		case x.Name == "x.hdr":
			x.Arguments = []admin.Argument{longstr("alternate-exchange", "x.topic")}
		case x.Name == "x.fan":
			x.Durable, x.AutoDelete = false, true
		case x.Name == "x.int":
			x.Durable, x.Internal = false, true
		case x.Name == "amq.rabbitmq.trace":
			x.Internal = true
		}
		if strings.HasPrefix(x.Name, "x.") {
			x.Policy = "ha-x"
		} else {
			v1 := x
			v1.VHost = "v1"
			all = append(all, v1)
		}
		all = append(all, x)
	}
	b := func(source, to, kind, key string, args ...admin.Argument) admin.BindingInfo {
		return admin.BindingInfo{VHost: "/", Source: source, Destination: to, DestinationKind: kind, RoutingKey: key, Arguments: args}
	}
	hdr := func(kind admin.Kind) []admin.Argument {
		return []admin.Argument{integer("n", kind, 3), longstr("type", "pdf"), longstr("x-match", "any")}
	}
	bindings := []admin.BindingInfo{
		b("x.fan", "plain", "queue", ""),
		b("x.hdr", "plain", "queue", "", hdr(admin.KindLong)...), b("x.hdr", "plain", "queue", "", hdr(admin.KindSignedInt)...),
		b("x.topic", "x.int", "exchange", "#"), b("x.topic", "ha-all.orders", "queue", "order.*.new"),
	}
	for _, q := range recordedQueues() {
		if q.VHost == "/" {
			bindings = append(bindings, b("", q.Name, "queue", q.Name))
		}
	}
	v1 := b("", "vq", "queue", "vq")
	v1.VHost = "v1"
	return all, append(bindings, v1)
}

func recordedCluster() admin.ClusterStatus {
	s := admin.ClusterStatus{Node: "rmq1@localhost", ClusterName: "prod-1", HasLeader: true}
	for i, n := range []string{"rmq1@localhost", "rmq2@localhost", "rmq3@localhost"} {
		s.Nodes = append(s.Nodes, admin.NodeInfo{Name: n, Version: "3.10.8", Status: "running"})
		s.Listeners = append(
			s.Listeners,
			admin.Listener{Node: n, Interface: "[::]", Port: uint16(20011 + i), Protocol: "http", Purpose: "HTTP API"},
			admin.Listener{Node: n, Interface: "[::]", Port: uint16(20021 + i), Protocol: "http/prometheus", Purpose: "Prometheus exporter API over HTTP"},
			admin.Listener{Node: n, Interface: "127.0.0.1", Port: uint16(20031 + i), Protocol: "clustering", Purpose: "inter-node and CLI tool communication"},
			admin.Listener{Node: n, Interface: "127.0.0.1", Port: uint16(20001 + i), Protocol: "amqp", Purpose: "AMQP 0-9-1 and AMQP 1.0"},
		)
	}
	for _, name := range []string{
		"classic_mirrored_queue_version", "drop_unroutable_metric", "empty_basic_get_metric", "implicit_default_bindings",
		"maintenance_mode_status", "quorum_queue", "stream_queue", "user_limits", "virtual_host_metadata",
	} {
		s.FeatureFlags = append(s.FeatureFlags, admin.FeatureFlag{Name: name, State: "enabled", Stability: "stable"})
	}
	return s
}
