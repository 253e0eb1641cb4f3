package broker

import "testing"

// A consumer asks its queue for no more than its channel may have.
func TestGlobalPrefetchShare(t *testing.T) {
	for _, c := range []struct {
		limit     int
		own, want uint32
	}{{0, 0, 0}, {0, 5, 5}, {3, 0, 3}, {3, 5, 3}, {5, 3, 3}} {
		if got := (&globalPrefetch{limit: c.limit}).share(c.own); got != c.want {
			t.Errorf("limit %d, own %d: %d, want %d", c.limit, c.own, got, c.want)
		}
	}
}
