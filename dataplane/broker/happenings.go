package broker

import (
	"context"
	"time"

	"warren/dataplane/feed"
	"warren/metadata/state"
)

// What happens on a node, for operators who watch it live (consume_event_stream). Names and fields are RabbitMQ's where it has the
// event. Nothing is kept for those who come later.

// Happening is one event. The values of Fields are strings, booleans and integers.
type Happening struct {
	Name   string
	At     time.Time
	Fields []HappeningField
	Missed int // events before this one that the watcher was too slow for
}

// HappeningField is one property of a Happening.
type HappeningField struct {
	Name  string
	Value any
}

// happenings hands events to those who watch.
type happenings struct{ feed feed.Feed[Happening] }

// Watch calls row for what happens on this node, until ctx ends (nil) or row fails.
func (n *Node) Watch(ctx context.Context, row func(Happening) error) error {
	w := n.happenings.feed.Follow()
	defer w.Close()
	return w.Each(ctx, func(h Happening, missed int) error {
		h.Missed = missed
		return row(h)
	})
}

// tell hands an event to those who watch; it never waits. fields are names and values in turn.
func (h *happenings) tell(name string, fields ...any) {
	if !h.feed.Followed() {
		return
	}
	e := Happening{Name: name, At: time.Now()}
	for i := 0; i+1 < len(fields); i += 2 {
		e.Fields = append(e.Fields, HappeningField{fields[i].(string), fields[i+1]})
	}
	h.feed.Send(e)
}

// change tells what a change of the metadata means to an operator.
func (h *happenings) change(c state.Change) {
	switch c.Kind {
	case state.NodeChanged:
		h.nodeChanged(c.OldNode, c.Node)
	case state.NodeForgotten:
		h.tell("node.deleted", "node", c.OldNode.Name)
	case state.QueueCreated:
		h.tell("queue.created", "name", c.Queue.Name, "vhost", c.Queue.Vhost, "durable", c.Queue.Durable,
			"auto_delete", c.Queue.AutoDelete, "exclusive", c.Queue.Exclusive, "type", "classic", "node", c.Queue.Master)
	case state.QueueChanged:
		h.queueChanged(c.OldQueue, c.Queue)
	case state.QueueDeleted:
		h.tell("queue.deleted", "name", c.OldQueue.Name, "vhost", c.OldQueue.Vhost)
	case state.ExchangeCreated, state.ExchangeDeleted:
		name := map[state.ChangeKind]string{state.ExchangeCreated: "exchange.created", state.ExchangeDeleted: "exchange.deleted"}[c.Kind]
		h.tell(name, "name", c.Exchange.Name, "vhost", c.Exchange.Vhost, "type", c.Exchange.Type, "durable", c.Exchange.Durable)
	case state.BindingAdded, state.BindingRemoved:
		name := map[state.ChangeKind]string{state.BindingAdded: "binding.created", state.BindingRemoved: "binding.deleted"}[c.Kind]
		h.tell(name, "source_name", c.Binding.Source, "vhost", c.Binding.Vhost, "destination_name", c.Binding.Destination,
			"destination_kind", string(c.Binding.Kind), "routing_key", c.Binding.RoutingKey)
	case state.PoliciesChanged:
		h.tell("policies.changed", "vhost", c.Vhost)
	case state.VhostCreated:
		h.tell("vhost.created", "name", c.Vhost)
	case state.VhostDeleted:
		h.tell("vhost.deleted", "name", c.Vhost)
	case state.UsersChanged:
		if c.User != "" {
			h.tell("user.deleted", "name", c.User)
		} else {
			h.tell("users.changed")
		}
	}
}

func (h *happenings) nodeChanged(old, now *state.Node) {
	switch {
	case now.Status.Up() && (old == nil || !old.Status.Up() || old.Incarnation != now.Incarnation):
		h.tell("node.up", "node", now.Name)
	case old != nil && old.Status.Up() && !now.Status.Up():
		h.tell("node.down", "node", now.Name)
	case old != nil && old.Status != now.Status:
		h.tell("node."+now.Status.String(), "node", now.Name)
	}
}

func (h *happenings) queueChanged(old, now *state.Queue) {
	if old == nil {
		return
	}
	switch {
	case old.Status != now.Status:
		h.tell("queue."+now.Status.String(), "name", now.Name, "vhost", now.Vhost, "node", now.Master)
	case old.Master != now.Master:
		h.tell("queue.promoted", "name", now.Name, "vhost", now.Vhost, "node", now.Master, "was", old.Master)
	case old.Policy != now.Policy:
		h.tell("queue.policy.updated", "name", now.Name, "vhost", now.Vhost, "policy", now.Policy)
	}
	for _, m := range now.Members {
		was, known := old.Member(m.Node)
		switch {
		case !known && m.Node != now.Master:
			h.tell("queue.mirror.added", "name", now.Name, "vhost", now.Vhost, "node", m.Node)
		case known && m.Synchronised && !was.Synchronised && m.Node != now.Master:
			h.tell("queue.mirror.synchronised", "name", now.Name, "vhost", now.Vhost, "node", m.Node)
		}
	}
}
