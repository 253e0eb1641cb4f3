package queue

// queueOf is a growing ring buffer.
type queueOf[T any] struct {
	buf  []T
	head int
	n    int
}

func (q *queueOf[T]) len() int { return q.n }

func (q *queueOf[T]) at(i int) *T { return &q.buf[(q.head+i)&(len(q.buf)-1)] }

func (q *queueOf[T]) push(v T) {
	if q.n == len(q.buf) {
		grown := make([]T, max(8, 2*len(q.buf)))
		for i := range q.n {
			grown[i] = *q.at(i)
		}
		q.buf, q.head = grown, 0
	}
	q.n++
	*q.at(q.n - 1) = v
}

func (q *queueOf[T]) pop() T {
	var zero T
	v := *q.at(0)
	*q.at(0) = zero
	q.head = (q.head + 1) & (len(q.buf) - 1)
	q.n--
	return v
}

// unpop puts v before the first.
func (q *queueOf[T]) unpop(v T) {
	if q.n == len(q.buf) {
		q.push(v) // grows; then v is moved to the front
		q.n--
	}
	q.head = (q.head + len(q.buf) - 1) & (len(q.buf) - 1)
	q.n++
	*q.at(0) = v
}
