package exchange

// target is where a binding leads.
type target struct {
	name       string
	toExchange bool
}

// targets is a set of targets in an order that follows from the changes alone. It counts, per target, the bindings that
// lead there (several may: with different arguments).
type targets struct {
	list  []counted
	index map[target]int // where in list; only once the list is long
}

type counted struct {
	target
	n int
}

// indexFrom is how long a list is searched without an index.
const indexFrom = 16

func (t *targets) len() int { return len(t.list) }

func (t *targets) find(to target) int {
	if t.index != nil {
		if i, ok := t.index[to]; ok {
			return i
		}
		return -1
	}
	for i := range t.list {
		if t.list[i].target == to {
			return i
		}
	}
	return -1
}

func (t *targets) add(to target) {
	if i := t.find(to); i >= 0 {
		t.list[i].n++
		return
	}
	t.list = append(t.list, counted{to, 1})
	if t.index != nil {
		t.index[to] = len(t.list) - 1
	} else if len(t.list) > indexFrom {
		t.index = make(map[target]int, 2*len(t.list))
		for i := range t.list {
			t.index[t.list[i].target] = i
		}
	}
}

func (t *targets) remove(to target) {
	i := t.find(to)
	if i < 0 {
		return
	}
	if t.list[i].n--; t.list[i].n > 0 {
		return
	}
	last := len(t.list) - 1
	moved := t.list[last]
	t.list[i] = moved
	t.list[last] = counted{}
	t.list = t.list[:last]
	if t.index != nil {
		t.index[moved.target] = i
		delete(t.index, to)
	}
}
