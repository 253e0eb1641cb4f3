package broker

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"strings"
	"sync"

	"warren/dataplane/amqp"
	"warren/dataplane/link"
	"warren/dataplane/message"
	"warren/dataplane/message/wire"
	"warren/dataplane/queue/protocol"
)

// Direct reply-to (RabbitMQ's extension): a client consumes from amq.rabbitmq.reply-to and publishes requests with that name as
// reply-to, which becomes a name that leads to its channel. Replies go to the channel's node and from there to the client;
// no queue is in between. A reply that the client has no room for is dropped, like one to a client that is gone.

const (
	replyTo       = "amq.rabbitmq.reply-to"
	replyToPrefix = replyTo + "."
)

// replyMark is the property reply-to with that name, as it stands among the properties.
var replyMark = []byte("\x15" + replyTo)

// replies are the channels of a life that wait for replies, by their full names.
type replies struct {
	mu     sync.RWMutex
	byName map[string]*channel
}

// replyConsumer is a channel's consumer of replies.
type replyConsumer struct {
	tag, name string
	under     int64 // deliveries that were not written yet
}

// consumeReplies makes the channel's one consumer of replies.
func (c *channel) consumeReplies(r amqp.Consume) error {
	if !r.NoAck {
		return amqp.Errorf(amqp.PreconditionFailed, "reply consumer cannot acknowledge")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.replyTo != nil {
		return amqp.Errorf(amqp.PreconditionFailed, "reply consumer already set")
	}
	var secret [16]byte
	if _, err := rand.Read(secret[:]); err != nil {
		return err
	}
	l := c.sess.life
	b := wire.AppendUint(wire.AppendString(wire.AppendArray(nil, 5), l.self.Name), l.self.Incarnation)
	b = wire.AppendBytes(wire.AppendUint(wire.AppendUint(b, c.key.Connection), c.key.Channel), secret[:])
	name := replyToPrefix + base64.RawURLEncoding.EncodeToString(b)
	c.replyTo = &replyConsumer{tag: r.Tag, name: name}
	l.replies.mu.Lock()
	defer l.replies.mu.Unlock()
	if l.replies.byName == nil {
		l.replies.byName = map[string]*channel{}
	}
	l.replies.byName[name] = c
	return nil
}

// endReplies forgets the consumer of replies if it has that tag, or whatever its tag ("").
func (c *channel) endReplies(tag string) bool {
	c.mu.Lock()
	r := c.replyTo
	if r == nil || tag != "" && r.tag != tag {
		c.mu.Unlock()
		return false
	}
	c.replyTo = nil
	c.mu.Unlock()
	l := c.sess.life
	l.replies.mu.Lock()
	delete(l.replies.byName, r.name)
	l.replies.mu.Unlock()
	return true
}

// withReplyTo replaces the name that a client may give as reply-to by the channel's own.
func (c *channel) withReplyTo(m *message.Message) error {
	if !bytes.Contains(m.Properties, replyMark) {
		return nil
	}
	p, err := amqp.DecodeProperties(m.Properties)
	if err != nil || p.Present&amqp.PropReplyTo == 0 || p.ReplyTo != replyTo {
		return err
	}
	c.mu.Lock()
	r := c.replyTo
	c.mu.Unlock()
	if r == nil {
		return amqp.Errorf(amqp.PreconditionFailed, "fast reply consumer does not exist")
	}
	p.ReplyTo = r.name
	m.Properties, err = amqp.AppendProperties(nil, p)
	return err
}

// isReply: the message goes to somebody's reply consumer.
func isReply(m *message.Message) bool {
	return m.Exchange == "" && strings.HasPrefix(m.RoutingKey, replyToPrefix)
}

// reply sends a reply on its way; it reports whether there seems to be somebody to take it. Of a mandatory one that is asked before.
func (l *life) reply(m *message.Message, mandatory bool) bool {
	node, ok := l.replyNode(m.RoutingKey)
	switch {
	case !ok:
		return false
	case node == l.self:
		return l.takeReply(m)
	case mandatory && !l.awaitsReplies(node, m.RoutingKey):
		return false
	}
	return l.node.links.Send(node.Name, frameReply, message.Append(make([]byte, 0, message.Size(m)), m)) == nil
}

// replyNode is the incarnation that a reply name leads to; ok is false if it is none, or is not up.
func (l *life) replyNode(name string) (id protocol.NodeID, ok bool) {
	b, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(name, replyToPrefix))
	if err != nil {
		return id, false
	}
	r := wire.NewReader(b)
	if r.Array() < 5 {
		return id, false
	}
	id = protocol.NodeID{Name: r.String(), Incarnation: r.Uint()}
	return id, r.Err() == nil && l.incarnationUp(id.Name, id.Incarnation)
}

// takeReply gives a reply to the channel that waits for it here.
func (l *life) takeReply(m *message.Message) bool {
	l.replies.mu.RLock()
	c := l.replies.byName[m.RoutingKey]
	l.replies.mu.RUnlock()
	if c == nil {
		return false
	}
	c.mu.Lock()
	r := c.replyTo
	if r == nil || r.name != m.RoutingKey || r.under >= consumerWindow.Count {
		c.mu.Unlock()
		return false
	}
	r.under++
	c.mu.Unlock()
	c.sink.Deliver([]amqp.Delivery{{ConsumerTag: r.tag, Message: *m}})
	return true
}

// repliesDrained gives room back; it reports whether the tag is that of the consumer of replies. Called with mu held.
func (c *channel) repliesDrained(tag string, n int) bool {
	if c.replyTo == nil || c.replyTo.tag != tag {
		return false
	}
	c.replyTo.under -= int64(n)
	return true
}

// replyQueue answers a declaration of a reply name, which clients use to ask whether the requester is still there.
func (c *channel) replyQueue(_ context.Context, name string) (amqp.QueueInfo, error) {
	l := c.sess.life
	ok := name == replyTo
	if !ok {
		var node protocol.NodeID
		if node, ok = l.replyNode(name); ok {
			ok = l.awaitsReplies(node, name)
		}
	}
	if !ok {
		return amqp.QueueInfo{}, noQueue(name, c.sess.info.VHost)
	}
	return amqp.QueueInfo{Name: name, Consumers: 1}, nil
}

// awaitsReplies asks the node that a reply name leads to whether its channel is still there. A node that cannot be asked, or is of an
// earlier version, is believed to have it.
func (l *life) awaitsReplies(node protocol.NodeID, name string) bool {
	if node == l.self {
		return l.hasReplies(name)
	}
	ctx, cancel := context.WithTimeout(l.ctx, callTimeout)
	defer cancel()
	b, err := l.node.links.Call(ctx, node.Name, callReplies, []byte(name))
	return err != nil || len(b) != 1 || b[0] == 1
}

func (l *life) hasReplies(name string) bool {
	l.replies.mu.RLock()
	defer l.replies.mu.RUnlock()
	return l.replies.byName[name] != nil
}

// answerReplies is the other side of awaitsReplies.
func (n *Node) answerReplies(_ context.Context, _ link.PeerID, body []byte) ([]byte, error) {
	if l := n.currentLife(); l != nil && l.hasReplies(string(body)) {
		return []byte{1}, nil
	}
	return []byte{0}, nil
}

func isReplyName(name string) bool { return name == replyTo || strings.HasPrefix(name, replyToPrefix) }

// replyFrame takes a reply that was published on another node.
func (n *Node) replyFrame(from link.PeerID, body []byte) {
	m, err := message.Parse(body)
	if err != nil {
		n.log.Error("a reply cannot be read", "peer", from.Node, "error", err)
		return
	}
	if l := n.currentLife(); l != nil {
		l.takeReply(&m)
	}
}
