// Package deque is a growing ring buffer, used where messages, acknowledgements and consumers wait in line.
package deque

// Deque is a line that is joined at the end and left at the front. The zero value is empty and ready.
type Deque[T any] struct {
	buf  []T // its length is a power of two
	head int
	n    int
}

// keep is how many elements an empty Deque may hold memory for.
const keep = 1024

// Len is how many stand in line.
func (d *Deque[T]) Len() int { return d.n }

// At is the i-th from the front; it stays valid until the next change.
func (d *Deque[T]) At(i int) *T { return &d.buf[(d.head+i)&(len(d.buf)-1)] }

// Push adds v at the end.
func (d *Deque[T]) Push(v T) {
	d.grow()
	d.n++
	*d.At(d.n - 1) = v
}

// Unpop adds v at the front.
func (d *Deque[T]) Unpop(v T) {
	d.grow()
	d.head = (d.head + len(d.buf) - 1) & (len(d.buf) - 1)
	d.n++
	*d.At(0) = v
}

// Pop takes the one at the front, which must exist.
func (d *Deque[T]) Pop() T {
	var zero T
	v := *d.At(0)
	*d.At(0) = zero
	d.head = (d.head + 1) & (len(d.buf) - 1)
	d.n--
	if d.n == 0 && len(d.buf) > keep {
		d.buf, d.head = nil, 0
	}
	return v
}

func (d *Deque[T]) grow() {
	if d.n < len(d.buf) {
		return
	}
	grown := make([]T, max(8, 2*len(d.buf)))
	for i := range d.n {
		grown[i] = *d.At(i)
	}
	d.buf, d.head = grown, 0
}
