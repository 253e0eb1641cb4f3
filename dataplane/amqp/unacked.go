package amqp

import "sort"

// unackedEntry is a delivery that waits for its acknowledgement.
type unackedEntry struct {
	tag     uint64
	token   Token
	settled bool
}

// unacked are a channel's deliveries that wait for their acknowledgement, in the order of their tags. Settled entries in
// the middle stay as holes until they are the majority, so memory is proportional to what waits.
type unacked struct {
	entries []unackedEntry
	holes   int
}

func (u *unacked) add(tag uint64, t Token) {
	u.entries = append(u.entries, unackedEntry{tag: tag, token: t})
}

func (u *unacked) len() int { return len(u.entries) - u.holes }

// take removes the entry with the tag, or with multiple all entries up to it (tag 0: all), and appends them to out. It
// reports false, and removes nothing, if no entry has the tag (RabbitMQ: "unknown delivery tag").
func (u *unacked) take(tag uint64, multiple bool, out []unackedEntry) ([]unackedEntry, bool) {
	last := len(u.entries) - 1
	if tag != 0 || !multiple {
		last = sort.Search(len(u.entries), func(i int) bool { return u.entries[i].tag >= tag })
		if last == len(u.entries) || u.entries[last].tag != tag || u.entries[last].settled {
			return out, false
		}
	}
	first := last
	if multiple {
		first = 0
	}
	for i := first; i <= last; i++ {
		if e := &u.entries[i]; !e.settled {
			out = append(out, *e)
			e.settled, e.token = true, Token{}
			u.holes++
		}
	}
	u.compact()
	return out, true
}

// putBack adds entries that take removed (tx.rollback).
func (u *unacked) putBack(es []unackedEntry) {
	for _, e := range u.entries {
		if !e.settled {
			es = append(es, e)
		}
	}
	sort.Slice(es, func(i, j int) bool { return es[i].tag < es[j].tag })
	u.entries, u.holes = es, 0
}

func (u *unacked) compact() {
	if u.holes == len(u.entries) {
		u.entries, u.holes = u.entries[:0], 0
		return
	}
	if u.holes < 32 || u.holes*2 < len(u.entries) {
		return
	}
	kept := u.entries[:0]
	for _, e := range u.entries {
		if !e.settled {
			kept = append(kept, e)
		}
	}
	clear(u.entries[len(kept):])
	u.entries, u.holes = kept, 0
}
