package broker

import (
	"slices"
	"testing"
	"time"
)

// Who holds up the ring, by what the members report.
func TestCulprit(t *testing.T) {
	at := func(received, persisted uint64) report {
		return report{Received: received, Persisted: persisted, answered: true}
	}
	silent := report{}
	for _, tc := range []struct {
		name                           string
		received, persisted, last, own uint64
		reports                        []report
		want                           int
	}{
		{"the first answers nobody", 5, 5, 9, 9, []report{silent, at(5, 5)}, 0},
		{"the second answers nobody", 5, 5, 9, 9, []report{at(9, 9), silent}, 1},
		{"a silent one, though all was received", 9, 5, 9, 9, []report{at(9, 9), silent}, 1},
		{"the stream ends at the second", 5, 5, 9, 9, []report{at(9, 9), at(5, 5), at(5, 5)}, 1},
		{"the stream does not reach the first", 5, 5, 9, 9, []report{at(5, 5), at(5, 5)}, 0},
		{"a slow disk", 9, 5, 9, 9, []report{at(9, 9), at(9, 5)}, 1},
		{"the slower of two disks", 9, 5, 9, 9, []report{at(9, 4), at(9, 5)}, 0},
		{"the own disk", 9, 5, 9, 5, []report{at(9, 9), at(9, 9)}, oneself},
		{"all have everything: the news is on its way", 5, 5, 9, 9, []report{at(9, 9), at(9, 9)}, nobody},
		{"received by all is on its way", 5, 9, 9, 9, []report{at(9, 9)}, nobody},
		{"alone with a slow disk", 9, 5, 9, 5, nil, oneself},
	} {
		if got := culprit(tc.received, tc.persisted, tc.last, tc.own, tc.reports); got != tc.want {
			t.Errorf("%s: %d, want %d", tc.name, got, tc.want)
		}
	}
}

// A mirror that holds up the ring again and again is kept out longer each time, up to five minutes; one that did well for as long begins
// anew.
func TestHoldOff(t *testing.T) {
	now := time.Unix(1000, 0)
	var h holdOff
	var got []time.Duration
	for range 8 {
		h = h.again(now)
		got = append(got, h.pause)
		now = h.until.Add(time.Minute)
	}
	s := time.Second
	if want := []time.Duration{5 * s, 10 * s, 20 * s, 40 * s, 80 * s, 160 * s, 300 * s, 300 * s}; !slices.Equal(got, want) {
		t.Errorf("kept out for %v, want %v", got, want)
	}
	if h = h.again(h.until.Add(holdOffMax + 1)); h.pause != holdOffMin {
		t.Errorf("after five good minutes: %v", h.pause)
	}
}
