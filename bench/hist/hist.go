package hist

import (
	"math/bits"
	"time"
)

const (
	subBits = 6 // 64 buckets for each power of two: an error of at most 1/64
	buckets = (64 - subBits) << subBits
)

// Hist counts durations of a nanosecond up to centuries with a relative error below two percent. The zero Hist is empty and
// ready. It is for one goroutine; merge several with Add.
type Hist struct {
	counts [buckets]uint64
	n      uint64
	max    time.Duration
	sum    time.Duration
}

func bucket(v uint64) int {
	if v < 1<<subBits {
		return int(v)
	}
	shift := bits.Len64(v) - subBits - 1
	return (shift+1)<<subBits + int(v>>shift) - 1<<subBits
}

// upper is the greatest value that falls into bucket i.
func upper(i int) uint64 {
	if i < 1<<subBits {
		return uint64(i)
	}
	shift := i>>subBits - 1
	return (uint64(i&(1<<subBits-1))+1<<subBits+1)<<shift - 1
}

// Record counts d; a negative one counts as zero.
func (h *Hist) Record(d time.Duration) {
	d = max(d, 0)
	h.counts[min(bucket(uint64(d)), buckets-1)]++
	h.n++
	h.sum += d
	h.max = max(h.max, d)
}

// Add adds what other counted.
func (h *Hist) Add(other *Hist) {
	for i, c := range other.counts {
		h.counts[i] += c
	}
	h.n += other.n
	h.sum += other.sum
	h.max = max(h.max, other.max)
}

// Count is how many were recorded.
func (h *Hist) Count() uint64 { return h.n }

// Max is the longest one, exactly.
func (h *Hist) Max() time.Duration { return h.max }

// Quantile is a duration that the share q (0 to 1) of all does not exceed; 0 if nothing was recorded.
func (h *Hist) Quantile(q float64) time.Duration {
	if h.n == 0 {
		return 0
	}
	want := uint64(q*float64(h.n) + 0.5)
	want = min(max(want, 1), h.n)
	var seen uint64
	for i, c := range h.counts {
		if seen += c; seen >= want {
			return min(time.Duration(upper(i)), h.max)
		}
	}
	return h.max
}

// Series keeps for each slice of time the worst value that was seen in it. It is for one goroutine.
type Series struct {
	start time.Time
	slice time.Duration
	worst []time.Duration
}

// maxSlices bounds a Series: later values count into its last slice.
const maxSlices = 1 << 18

// NewSeries makes a series of slices of that length from start on.
func NewSeries(start time.Time, slice time.Duration) *Series {
	return &Series{start: start, slice: slice}
}

// Record notes that d was seen at a time.
func (s *Series) Record(at time.Time, d time.Duration) {
	i := min(max(int(at.Sub(s.start)/s.slice), 0), maxSlices-1)
	for len(s.worst) <= i {
		s.worst = append(s.worst, 0)
	}
	s.worst[i] = max(s.worst[i], d)
}

// Point is one slice of a Series.
type Point struct {
	At    time.Duration // from the series' start
	Worst time.Duration
}

// Points are the slices in which something was recorded.
func (s *Series) Points() []Point {
	var out []Point
	for i, w := range s.worst {
		if w > 0 {
			out = append(out, Point{At: time.Duration(i) * s.slice, Worst: w})
		}
	}
	return out
}

// Add merges other, which has the same start and slice.
func (s *Series) Add(other *Series) {
	for i, w := range other.worst {
		if w > 0 {
			s.Record(s.start.Add(time.Duration(i)*s.slice), w)
		}
	}
}
