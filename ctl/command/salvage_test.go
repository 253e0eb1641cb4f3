package command

import (
	"testing"

	"warren/ctl/admin"
)

func TestSalvage(t *testing.T) {
	s := newSession(t)
	s.run("rabbitmqctl", "-q", "salvage", "--formatter", "json").want(t, exitOK, "[]\n", "")
	s.node.aside = []admin.AsideSet{{
		Name: "17-queue-9", VHost: "/", Queue: "orders", ID: 9, Time: 1700000000, Reason: "why", Messages: 20, Bytes: 300, Published: 5,
		Path: "/data/aside/17-queue-9",
	}}
	s.run("rabbitmqctl", "-q", "salvage").want(t, exitOK,
		"set\tvhost\tqueue\tmessages\tmessage_bytes\tpublished\tset_aside\treason\tpath\n"+
			"17-queue-9\t/\torders\t20\t300\t5\t2023-11-14T22:13:20Z\twhy\t/data/aside/17-queue-9\n", "")
	s.run("rabbitmqctl", "-q", "salvage", "17-queue-9").want(t, exitOK,
		"15 messages are published to queue 'orders' in vhost '/' and confirmed; 5 were before. The set is removed\n", "")
	if want := (admin.Salvage{Set: "17-queue-9"}); s.node.salvage != want {
		t.Errorf("asked for %+v", s.node.salvage)
	}
	s.run("rabbitmqctl", "-q", "salvage", "17-queue-9", "-p", "v", "--exchange", "x", "--routing-key", "k", "--keep", "--restart").
		want(t, exitOK, "15 messages are published to queue 'orders' in vhost '/' and confirmed; 5 were before. The set is kept\n", "")
	if want := (admin.Salvage{Set: "17-queue-9", VHost: "v", Exchange: "x", RoutingKey: "k", Keep: true, Restart: true}); s.node.salvage != want {
		t.Errorf("asked for %+v", s.node.salvage)
	}
	s.node.damage = "0000000002.segment from 10 to 20"
	s.run("rabbitmqctl", "-q", "salvage", "17-queue-9", "--to-queue", "other").want(t, exitUnavailable, "", s.node.damage)
	s.run("rabbitmqctl", "-q", "salvage", "17").want(t, exitUnavailable, "", "Error:\nnothing is set aside as '17' on this node\n")
	for _, bad := range [][]string{
		{"--keep"}, {"17", "--to-queue", "q", "--exchange", "x"}, {"17", "--routing-key", "k"}, {"17", "--exchange", ""}, {"17", "18"},
	} {
		s.run(append([]string{"rabbitmqctl", "salvage"}, bad...)...).want(t, exitUsage, "", "argument")
	}
}
