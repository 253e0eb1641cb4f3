package deque

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestDeque compares with a slice.
func TestDeque(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var d Deque[int]
	var want []int
	for i := range 20000 {
		grow := (i/3000)%2 == 0 // long and short in turn
		switch k := r.IntN(8); {
		case k == 0:
			d.Unpop(i)
			want = append([]int{i}, want...)
		case k < 3 || grow:
			d.Push(i)
			want = append(want, i)
		case len(want) > 0:
			if got := d.Pop(); got != want[0] {
				t.Fatalf("step %d: took %d, want %d", i, got, want[0])
			}
			want = want[1:]
		}
		if d.Len() != len(want) {
			t.Fatalf("step %d: %d in line, want %d", i, d.Len(), len(want))
		}
	}
	var got []int
	for i := range d.Len() {
		got = append(got, *d.At(i))
	}
	if !slices.Equal(got, want) {
		t.Errorf("in line %v, want %v", got, want)
	}
	for d.Len() > 0 {
		d.Pop()
	}
	if len(d.buf) > keep {
		t.Errorf("empty, and keeps %d", len(d.buf))
	}
}
