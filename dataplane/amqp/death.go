package amqp

import (
	"fmt"
	"slices"

	"warren/dataplane/message"
)

// Death is one dying of a message, as x-death tells it.
type Death struct {
	Queue  string
	Reason string // rejected, expired, maxlen
	Time   Timestamp
	// Exchange is where the message goes now. HasKey: under Key alone, else under all the keys that it had.
	Exchange string
	HasKey   bool
	Key      string
}

// DeadLetter is the message as it goes to a dead letter exchange (RabbitMQ's rabbit_dead_letter): its death is counted in x-death,
// its first one is kept in x-first-death-…, and it does not expire by itself any more.
func DeadLetter(m *message.Message, d Death) (message.Message, error) {
	var p Properties
	if len(m.Properties) > 0 {
		var err error
		if p, err = DecodeProperties(m.Properties); err != nil {
			return message.Message{}, fmt.Errorf("make a dead letter: %w", err)
		}
	}
	if p.Headers == nil || p.Present&PropHeaders == 0 {
		p.Headers = Table{}
	}
	keys := []any{m.RoutingKey}
	if cc, ok := p.Headers["CC"].([]any); ok {
		for _, key := range cc {
			if _, ok := key.(string); ok {
				keys = append(keys, key)
			}
		}
	}
	entry := Table{
		"reason": d.Reason, "queue": d.Queue, "time": d.Time, "exchange": m.Exchange, "routing-keys": keys, "count": int64(1),
	}
	if p.Present&PropExpiration != 0 {
		entry["original-expiration"] = p.Expiration
	}
	countDeath(p.Headers, entry)
	out := *m
	out.Exchange, out.Expiry = d.Exchange, 0
	if d.HasKey {
		out.RoutingKey = d.Key
		delete(p.Headers, "CC")
		delete(p.Headers, "BCC")
	}
	p.Present = p.Present&^PropExpiration | PropHeaders
	b, err := AppendProperties(nil, p)
	if err != nil {
		return message.Message{}, fmt.Errorf("make a dead letter: %w", err)
	}
	out.Properties = b
	return out, nil
}

// countDeath puts the death in front, or raises the count of the same queue's and reason's, which then stands in front.
func countDeath(headers, entry Table) {
	old, there := headers["x-death"]
	deaths, isArray := old.([]any)
	if !there {
		headers["x-first-death-reason"] = entry["reason"]
		headers["x-first-death-queue"] = entry["queue"]
		headers["x-first-death-exchange"] = entry["exchange"]
	}
	if !isArray { // a client's own idea of it is replaced
		headers["x-death"] = []any{entry}
		return
	}
	deaths = grouped(deaths)
	for i, e := range deaths {
		if t := e.(Table); sameDeath(t, entry) {
			t["count"] = deathCount(t) + 1
			entry = t
			deaths = slices.Delete(deaths, i, i+1)
			break
		}
	}
	headers["x-death"] = append([]any{entry}, deaths...)
}

// grouped has one entry for each queue and reason, with a count, and turns their order round, as RabbitMQ does at every death: after
// three of them the second stands last.
func grouped(deaths []any) (out []any) {
	for i, e := range deaths {
		t, ok := e.(Table)
		if !ok || slices.ContainsFunc(deaths[:i], func(e any) bool { return sameDeath(e, t) }) {
			continue
		}
		if deathCount(t) <= 0 {
			n := int64(0)
			for _, e := range deaths[i:] {
				if sameDeath(e, t) {
					n++
				}
			}
			t["count"] = max(n, 1)
		}
		out = append(out, t)
	}
	slices.Reverse(out)
	return out
}

// deathCount is a count as a broker or a client wrote it, 0 if it is none.
func deathCount(t Table) int64 {
	switch n := t["count"].(type) {
	case int64:
		return n
	case int32:
		return int64(n)
	case int16:
		return int64(n)
	case int8:
		return int64(n)
	}
	return 0
}

// sameDeath compares only texts: a client may have put anything there.
func sameDeath(e any, t Table) bool {
	d, ok := e.(Table)
	if !ok {
		return false
	}
	for _, key := range []string{"queue", "reason"} {
		a, isText := d[key].(string)
		if b, ok := t[key].(string); !isText || !ok || a != b {
			return false
		}
	}
	return true
}

// Cycles tells whether a message that died would come to a queue again without any client having had a hand in it: it was
// there before, and was rejected nowhere since. RabbitMQ drops it then.
func Cycles(headers Table, queue string) bool {
	deaths, _ := headers["x-death"].([]any)
	for _, e := range deaths {
		t, ok := e.(Table)
		if !ok || t["reason"] == "rejected" {
			return false
		}
		if t["queue"] == queue {
			return true
		}
	}
	return false
}
