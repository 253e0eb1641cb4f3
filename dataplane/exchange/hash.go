package exchange

import (
	"fmt"
	"hash/fnv"
	"slices"
	"sort"
	"strconv"
)

// A consistent-hash exchange (RabbitMQ's plugin rabbitmq_consistent_hash_exchange) sends each message to one of its bindings, by
// a hash of the routing key, or of what the argument hash-header or hash-property names. A binding's key is its weight: how many
// places it has on the circle. A binding that comes or goes moves only what falls to it. Of several bindings of one target the
// heaviest counts: the plugin takes the earliest, but bindings have no order that all nodes know after a restart.

// place is a point on the circle that belongs to a target.
type place struct {
	at uint64
	to target
}

// placesPerWeight evens the shares out: the plugin's buckets are assigned in turn, places on a circle fall at random.
const placesPerWeight = 64

// MaxWeight is the highest weight of a binding.
const MaxWeight = 1000

// Weight reads a binding key of a consistent-hash exchange.
func Weight(key string) (weight int, ok bool) {
	n, err := strconv.Atoi(key)
	return n, err == nil && n >= 0 && n <= MaxWeight
}

func hashOf(s string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(s)) // never fails
	x := h.Sum64()
	x ^= x >> 33 // FNV leaves short inputs close together
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

// addPlaces puts a binding on the circle.
func (e *entry) addPlaces(b Binding, to target) {
	weight, _ := Weight(b.Key)
	for i := range weight * placesPerWeight {
		e.circle = append(e.circle, place{hashOf(fmt.Sprint(to.toExchange, i, to.name)), to})
	}
	slices.SortFunc(e.circle, func(a, b place) int {
		switch {
		case a.at < b.at:
			return -1
		case a.at > b.at:
			return 1
		case a.to.name < b.to.name:
			return -1
		case a.to.name > b.to.name:
			return 1
		}
		return 0
	})
}

// removePlaces takes a binding off; others that lead to the same target put theirs back.
func (e *entry) removePlaces(to target) {
	e.circle = slices.DeleteFunc(e.circle, func(p place) bool { return p.to == to })
	for _, b := range e.bindings {
		if b.target() == to {
			e.addPlaces(b, to)
		}
	}
}

// routeHash adds the one target that the message falls to.
func (e *entry) routeHash(s *Scratch, m *Message) bool {
	if len(e.circle) == 0 {
		return false
	}
	key := m.Key
	if name, ok := e.Args["hash-header"].(string); ok {
		if !s.asked && m.Headers != nil {
			s.headers = m.Headers()
		}
		s.asked = true
		key = fmt.Sprint(s.headers[name])
	} else if name, ok := e.Args["hash-property"].(string); ok && m.Property != nil {
		key = m.Property(name)
	}
	h := hashOf(key)
	i := sort.Search(len(e.circle), func(i int) bool { return e.circle[i].at >= h })
	if i == len(e.circle) {
		i = 0
	}
	s.addTarget(e.circle[i].to)
	return true
}
