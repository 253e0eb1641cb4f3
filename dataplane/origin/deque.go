package origin

// deque is a growing ring buffer.
type deque[T any] struct {
	buf  []T
	head int
	n    int
}

func (d *deque[T]) len() int { return d.n }

func (d *deque[T]) at(i int) *T { return &d.buf[(d.head+i)&(len(d.buf)-1)] }

func (d *deque[T]) push(v T) {
	if d.n == len(d.buf) {
		grown := make([]T, max(8, 2*len(d.buf)))
		for i := range d.n {
			grown[i] = *d.at(i)
		}
		d.buf, d.head = grown, 0
	}
	d.n++
	*d.at(d.n - 1) = v
}

func (d *deque[T]) pop() T {
	var zero T
	v := *d.at(0)
	*d.at(0) = zero
	d.head = (d.head + 1) & (len(d.buf) - 1)
	d.n--
	if d.n == 0 && len(d.buf) > 1024 {
		d.buf, d.head = nil, 0
	}
	return v
}
