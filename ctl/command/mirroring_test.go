package command

import (
	"testing"

	"warren/ctl/admin"
)

func TestTransfer(t *testing.T) {
	s := newSession(t)
	s.run("warren", "ctl", "transfer", "ha-all.orders", "rmq2@localhost").want(t, exitOK,
		"Moving the master of queue 'ha-all.orders' in vhost '/' to rmq2@localhost ...\n", "")
	if want := (admin.QueueOnNode{VHost: "/", Name: "ha-all.orders", Node: "rmq2@localhost"}); s.node.transferred != want {
		t.Errorf("asked for %+v", s.node.transferred)
	}
	s.run("rabbitmqctl", "-q", "transfer", "none", "rmq2").want(t, exitUnavailable, "", "Error:\nno queue 'none' in vhost '/'\n")
	s.node.byHand = admin.Errorf(admin.CodeRefused, "queue 'plain' in vhost '/' is not mirrored")
	s.run("rabbitmqctl", "-q", "transfer", "plain", "rmq2").want(t, exitUnavailable, "", "Error:\nqueue 'plain' in vhost '/' is not mirrored\n")
	s.run("rabbitmqctl", "transfer", "plain").want(t, exitUsage, "", "not enough arguments")
}

func TestPromoteTellsFirst(t *testing.T) {
	s := newSession(t)
	s.node.plan = admin.PromotionPlan{Name: "plain", Node: "rmq2@localhost", LastMaster: "rmq1@localhost", Messages: 7, ID: 5, Epoch: 2}
	told := "The copy on rmq2@localhost holds 7 messages and was NOT synchronised when the queue went down.\n" +
		"Messages that only other copies hold, such as that of its last master rmq1@localhost, are lost to the queue; when such a copy\n" +
		"comes back it is set aside on its node's disk and not merged.\n"
	s.run("rabbitmqctl", "-q", "promote", "plain").want(t, exitUnavailable, told, "nothing was changed")
	if s.node.promoted != (admin.PromotionPlan{}) {
		t.Error("it was promoted without --yes")
	}
	s.run("rabbitmqctl", "-q", "promote", "plain", "--yes").want(t, exitOK, told+"The copy on rmq2@localhost is the master\n", "")
	if s.node.promoted != s.node.plan {
		t.Errorf("promoted %+v", s.node.promoted)
	}
	s.node.plan.Vouched = true
	s.run("rabbitmqctl", "-q", "promote", "plain").want(t, exitUnavailable,
		"The copy on rmq2@localhost holds 7 messages and was synchronised when the queue went down: nothing that was confirmed is lost\n", "--yes")
	s.run("rabbitmqctl", "-q", "promote", "none").want(t, exitUnavailable, "", "no queue 'none'")
}
