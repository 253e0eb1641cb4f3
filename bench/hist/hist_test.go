package hist

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestQuantilesAreWithinTwoPercent(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var h, other Hist
	var all []time.Duration
	for i := range 20000 {
		d := time.Duration(rng.ExpFloat64() * float64(3*time.Millisecond))
		all = append(all, d)
		if i%2 == 0 {
			h.Record(d)
		} else {
			other.Record(d)
		}
	}
	h.Add(&other)
	slices.Sort(all)
	for _, q := range []float64{0.001, 0.5, 0.9, 0.99, 0.999, 1} {
		want := all[min(max(int(q*float64(len(all))+0.5), 1), len(all))-1]
		got := h.Quantile(q)
		if got < want || float64(got) > 1.02*float64(want)+1 {
			t.Errorf("quantile %v is %v, exactly it is %v", q, got, want)
		}
	}
	if h.Max() != all[len(all)-1] || h.Count() != uint64(len(all)) {
		t.Errorf("max %v of %d, want %v of %d", h.Max(), h.Count(), all[len(all)-1], len(all))
	}
}

func TestBucketsAreContiguous(t *testing.T) {
	last := -1
	for v := uint64(0); v < 1<<14; v++ {
		b := bucket(v)
		if b != last && b != last+1 {
			t.Fatalf("bucket of %d is %d after %d", v, b, last)
		}
		if upper(b) < v {
			t.Fatalf("%d is in bucket %d, which ends at %d", v, b, upper(b))
		}
		last = b
	}
}

func TestSeriesKeepsTheWorst(t *testing.T) {
	start := time.Unix(100, 0)
	s := NewSeries(start, 10*time.Millisecond)
	s.Record(start.Add(25*time.Millisecond), 3)
	s.Record(start.Add(29*time.Millisecond), 7)
	s.Record(start.Add(21*time.Millisecond), 5)
	got := s.Points()
	if len(got) != 1 || got[0] != (Point{20 * time.Millisecond, 7}) {
		t.Errorf("points %v", got)
	}
}
