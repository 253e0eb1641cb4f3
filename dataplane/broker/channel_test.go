package broker

import (
	"testing"

	"warren/dataplane/amqp"
	"warren/dataplane/message"
	"warren/dataplane/origin"
)

// A reply to a client of another node may wait for that node's answer: what the channel published before leaves first.
func TestReplyDoesNotHoldBackPublishes(t *testing.T) {
	l := &life{}
	c := newChannel(&session{life: l}, amqp.ChannelInfo{}, nil, origin.Channel{Connection: 1, Channel: 1})
	c.cork(newAttachment(l, 1))
	c.unrouted(&amqp.Publish{Message: message.Message{RoutingKey: "other"}})
	if len(c.corked) != 1 {
		t.Fatal("what is not a reply waits for nobody")
	}
	c.unrouted(&amqp.Publish{Message: message.Message{RoutingKey: replyToPrefix + "x"}})
	if len(c.corked) != 0 {
		t.Error("what was published before a reply is still here")
	}
}
