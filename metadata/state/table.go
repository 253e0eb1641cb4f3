package state

import (
	"cmp"
	"slices"
	"strings"
)

// table is an ordered map: keys ascending, so that every walk gives the same order on every node.
type table[K cmp.Ordered, V any] struct {
	keys []K
	vals []V
}

func (t *table[K, V]) get(k K) (v V, ok bool) {
	i, ok := slices.BinarySearch(t.keys, k)
	if !ok {
		return v, false
	}
	return t.vals[i], true
}

func (t *table[K, V]) put(k K, v V) {
	i, ok := slices.BinarySearch(t.keys, k)
	if ok {
		t.vals[i] = v
		return
	}
	t.keys = slices.Insert(t.keys, i, k)
	t.vals = slices.Insert(t.vals, i, v)
}

func (t *table[K, V]) del(k K) {
	if i, ok := slices.BinarySearch(t.keys, k); ok {
		t.keys = slices.Delete(t.keys, i, i+1)
		t.vals = slices.Delete(t.vals, i, i+1)
	}
}

// all is a copy, so that the caller may change the table while it walks.
func (t *table[K, V]) all() []V { return slices.Clone(t.vals) }

// under are the values whose keys begin with prefix.
func under[V any](t *table[string, V], prefix string) []V {
	i, _ := slices.BinarySearch(t.keys, prefix)
	j := i
	for j < len(t.keys) && strings.HasPrefix(t.keys[j], prefix) {
		j++
	}
	return slices.Clone(t.vals[i:j])
}

// key joins parts so that keys sort as the parts do and no two lists of parts share one: each part ends with 0x00 0x01, and
// a zero byte within a part is followed by 0xff.
func key(parts ...string) string {
	var b strings.Builder
	for _, p := range parts {
		if strings.IndexByte(p, 0) >= 0 {
			p = strings.ReplaceAll(p, "\x00", "\x00\xff")
		}
		b.WriteString(p)
		b.WriteString("\x00\x01")
	}
	return b.String()
}
