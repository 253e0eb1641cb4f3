package broker

import (
	"slices"

	"warren/dataplane/amqp"
)

// globalPrefetch is basic.qos with global set: a bound on what all consumers of a channel together have not settled
// (RabbitMQ's meaning). What exceeds it waits here: each consumer asks its queue for no more than the whole channel may have, so
// that a channel with one consumer takes nothing that another could have.
type globalPrefetch struct {
	limit     int // 0: none
	unsettled map[amqp.Token]bool
	waiting   []amqp.Delivery
}

// share is what a consumer asks of its queue: its own prefetch, or the channel's if that is less.
func (g *globalPrefetch) share(own uint32) uint32 {
	if limit := uint32(g.limit); limit != 0 && (own == 0 || limit < own) {
		return limit
	}
	return own
}

// admit says whether a delivery may go to the client now; otherwise it keeps it.
func (g *globalPrefetch) admit(d amqp.Delivery, noAck bool) bool {
	if g.limit == 0 || noAck {
		return true
	}
	if len(g.unsettled) >= g.limit || len(g.waiting) > 0 {
		g.waiting = append(g.waiting, d)
		return false
	}
	g.count(d)
	return true
}

func (g *globalPrefetch) count(d amqp.Delivery) {
	if g.unsettled == nil {
		g.unsettled = map[amqp.Token]bool{}
	}
	g.unsettled[d.Token] = true
}

// settled forgets deliveries and returns those that may go to the client now.
func (g *globalPrefetch) settled(tokens []amqp.Token) []amqp.Delivery {
	if g.limit == 0 {
		return nil
	}
	for _, t := range tokens {
		delete(g.unsettled, t)
	}
	return g.release()
}

// drop takes back what waits for a consumer that was cancelled: the client will not see it.
func (g *globalPrefetch) drop(tag string) (tokens []amqp.Token) {
	g.waiting = slices.DeleteFunc(g.waiting, func(d amqp.Delivery) bool {
		if d.ConsumerTag != tag {
			return false
		}
		tokens = append(tokens, d.Token)
		return true
	})
	return tokens
}

// set changes the limit; deliveries that went out before are not counted, as in RabbitMQ's limiter when it is switched on.
func (g *globalPrefetch) set(limit int) []amqp.Delivery {
	g.limit = limit
	if limit == 0 {
		g.unsettled = nil
	}
	return g.release()
}

func (g *globalPrefetch) release() []amqp.Delivery {
	var out []amqp.Delivery
	for len(g.waiting) > 0 && (g.limit == 0 || len(g.unsettled) < g.limit) {
		d := g.waiting[0]
		g.waiting = g.waiting[1:]
		if g.limit > 0 {
			g.count(d)
		}
		out = append(out, d)
	}
	return out
}
