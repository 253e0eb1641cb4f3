package store

import (
	"math/bits"
	"slices"
	"unsafe"

	"warren/dataplane/backingqueue"
)

// chunkSpan is how many sequence numbers a chunk of the index covers.
const chunkSpan = 256

// slot is where one message is: 16 bytes. file 0: nowhere on disk. body is the body's length.
type slot struct{ file, off, size, body uint32 }

// bitmap has a bit per sequence number of a chunk.
type bitmap [chunkSpan / 64]uint64

func (b *bitmap) has(i int) bool { return b[i>>6]>>(i&63)&1 != 0 }
func (b *bitmap) set(i int)      { b[i>>6] |= 1 << (i & 63) }
func (b *bitmap) clear(i int)    { b[i>>6] &^= 1 << (i & 63) }

func (b *bitmap) put(i int, v bool) {
	if v {
		b.set(i)
	} else {
		b.clear(i)
	}
}

// rank is how many bits below i are set.
func (b *bitmap) rank(i int) int {
	n := 0
	for w := range i >> 6 {
		n += bits.OnesCount64(b[w])
	}
	if i&63 != 0 {
		n += bits.OnesCount64(b[i>>6] << (64 - i&63))
	}
	return n
}

// next is the first set bit at or above i, or chunkSpan.
func (b *bitmap) next(i int) int {
	for w := i >> 6; w < len(b); w++ {
		v := b[w]
		if w == i>>6 {
			v &= ^uint64(0) << (i & 63)
		}
		if v != 0 {
			return w<<6 + bits.TrailingZeros64(v)
		}
	}
	return chunkSpan
}

// chunk holds the messages of chunkSpan sequence numbers: the slots packed, in order of the bits of present.
type chunk struct {
	present, persistent, delivered bitmap
	slots                          []slot
	ram                            []*backingqueue.Entry // nil, or parallel to slots; nil where only the disk has it
	inRAM                          int
}

type chunkRef struct {
	base uint64
	c    *chunk
}

// index is a queue's content in order: at most 32 bytes per message of a backlog (about 17 for a dense one).
type index struct {
	dir   []chunkRef // ascending base
	count int
	bytes int64 // memory of the chunks
}

func (c *chunk) mem() int64 {
	return int64(unsafe.Sizeof(*c)) + int64(unsafe.Sizeof(chunkRef{})) +
		int64(cap(c.slots))*int64(unsafe.Sizeof(slot{})) + int64(cap(c.ram))*8
}

// find returns the position in dir of the first chunk that ends above seq.
func (x *index) find(seq uint64) int {
	base := seq &^ (chunkSpan - 1)
	n := len(x.dir)
	if n == 0 || x.dir[0].base >= base {
		return 0
	}
	if x.dir[n-1].base <= base {
		if x.dir[n-1].base == base {
			return n - 1
		}
		return n
	}
	i, _ := slices.BinarySearchFunc(x.dir, base, func(r chunkRef, b uint64) int {
		switch {
		case r.base < b:
			return -1
		case r.base > b:
			return 1
		}
		return 0
	})
	return i
}

// at returns the chunk and bit of seq, if it is held.
func (x *index) at(seq uint64) (*chunk, int, bool) {
	i := x.find(seq)
	bit := int(seq & (chunkSpan - 1))
	if i == len(x.dir) || x.dir[i].base != seq-uint64(bit) || !x.dir[i].c.present.has(bit) {
		return nil, 0, false
	}
	return x.dir[i].c, bit, true
}

// item is all the index knows of one message.
type item struct {
	slot
	ram                   *backingqueue.Entry
	persistent, delivered bool
}

func (c *chunk) item(bit int) item {
	p := c.present.rank(bit)
	it := item{slot: c.slots[p], persistent: c.persistent.has(bit), delivered: c.delivered.has(bit)}
	if c.ram != nil {
		it.ram = c.ram[p]
	}
	return it
}

// get returns what is at seq.
func (x *index) get(seq uint64) (item, bool) {
	c, bit, ok := x.at(seq)
	if !ok {
		return item{}, false
	}
	return c.item(bit), true
}

// add puts a message at seq, which must be free.
func (x *index) add(seq uint64, it item) {
	i := x.find(seq)
	bit := int(seq & (chunkSpan - 1))
	base := seq - uint64(bit)
	if i == len(x.dir) || x.dir[i].base != base {
		c := &chunk{}
		x.dir = slices.Insert(x.dir, i, chunkRef{base: base, c: c})
		x.bytes += c.mem()
	}
	c := x.dir[i].c
	x.bytes -= c.mem()
	p := c.present.rank(bit)
	c.present.set(bit)
	c.persistent.put(bit, it.persistent)
	c.delivered.put(bit, it.delivered)
	c.slots = slices.Insert(c.slots, p, it.slot)
	if it.ram != nil && c.ram == nil {
		c.ram = make([]*backingqueue.Entry, len(c.slots)-1, cap(c.slots))
	}
	if c.ram != nil {
		c.ram = slices.Insert(c.ram, p, it.ram)
	}
	if it.ram != nil {
		c.inRAM++
	}
	x.count++
	x.bytes += c.mem()
}

// move changes where seq, which must be held, is on disk.
func (x *index) move(seq uint64, to slot) {
	c, bit, _ := x.at(seq)
	c.slots[c.present.rank(bit)] = to
}

// evict forgets the body in memory of seq, which must be held.
func (x *index) evict(seq uint64) {
	c, bit, _ := x.at(seq)
	x.bytes -= c.mem()
	c.ram[c.present.rank(bit)] = nil
	if c.inRAM--; c.inRAM == 0 {
		c.ram = nil
	}
	x.bytes += c.mem()
}

// remove drops what is held from first to last and tells f of each, in order.
func (x *index) remove(first, last uint64, f func(seq uint64, it item)) {
	if last < first {
		return
	}
	i := x.find(first)
	from := i
	for ; i < len(x.dir) && x.dir[i].base <= last; i++ {
		r := x.dir[i]
		lo, hi := 0, chunkSpan-1
		if first > r.base {
			lo = int(first - r.base)
		}
		if last-r.base < chunkSpan {
			hi = int(last - r.base)
		}
		x.bytes -= r.c.mem()
		x.count -= r.c.remove(r.base, lo, hi, f)
		x.bytes += r.c.mem()
	}
	x.sweep(from, i)
}

// sweep takes the empty chunks from position i to j out of dir.
func (x *index) sweep(i, j int) {
	keep := i
	for k := i; k < j; k++ {
		if len(x.dir[k].c.slots) == 0 {
			x.bytes -= x.dir[k].c.mem()
			continue
		}
		x.dir[keep] = x.dir[k]
		keep++
	}
	if keep == j {
		return
	}
	if keep == i && i == 0 {
		clear(x.dir[:j])
		x.dir = x.dir[j:]
		return
	}
	x.dir = slices.Delete(x.dir, keep, j)
}

func (c *chunk) remove(base uint64, lo, hi int, f func(uint64, item)) int {
	p, q := c.present.rank(lo), c.present.rank(hi)
	if c.present.has(hi) {
		q++
	}
	if p == q {
		return 0
	}
	for bit := c.present.next(lo); bit <= hi; bit = c.present.next(bit + 1) {
		it := c.item(bit)
		if it.ram != nil {
			c.inRAM--
		}
		f(base+uint64(bit), it)
		if bit == chunkSpan-1 {
			break
		}
	}
	for w := range c.present {
		m := maskFromTo(w, lo, hi)
		c.present[w] &^= m
		c.persistent[w] &^= m
		c.delivered[w] &^= m
	}
	if p == 0 {
		c.slots = c.slots[q:]
	} else {
		c.slots = slices.Delete(c.slots, p, q)
	}
	switch {
	case c.inRAM == 0:
		c.ram = nil
	case p == 0:
		clear(c.ram[:q])
		c.ram = c.ram[q:]
	default:
		c.ram = slices.Delete(c.ram, p, q)
	}
	return q - p
}

// maskFromTo has the bits of word w that lie between lo and hi of the whole bitmap.
func maskFromTo(w, lo, hi int) uint64 {
	lo, hi = max(lo-w<<6, 0), min(hi-w<<6, 63)
	if lo > hi {
		return 0
	}
	return ^uint64(0) << lo & (^uint64(0) >> (63 - hi))
}

// markDelivered marks what is held from first to last; it reports whether something changed.
func (x *index) markDelivered(first, last uint64, f func(item)) bool {
	changed := false
	for i := x.find(first); i < len(x.dir) && x.dir[i].base <= last && first <= last; i++ {
		r := x.dir[i]
		bit := 0
		if first > r.base {
			bit = int(first - r.base)
		}
		for bit = r.c.present.next(bit); bit < chunkSpan && r.base+uint64(bit) <= last; bit = r.c.present.next(bit) {
			if !r.c.delivered.has(bit) {
				r.c.delivered.set(bit)
				f(r.c.item(bit))
				changed = true
			}
			if bit++; bit == chunkSpan {
				break
			}
		}
	}
	return changed
}

// next is the lowest held seq at or above from.
func (x *index) next(from uint64) (uint64, bool) {
	i := x.find(from)
	if i == len(x.dir) {
		return 0, false
	}
	if base := x.dir[i].base; base <= from {
		if bit := x.dir[i].c.present.next(int(from - base)); bit < chunkSpan {
			return base + uint64(bit), true
		}
		if i++; i == len(x.dir) {
			return 0, false
		}
	}
	return x.dir[i].base + uint64(x.dir[i].c.present.next(0)), true
}

// bounds are the lowest and highest held seq, 0 if there is none.
func (x *index) bounds() (first, last uint64) {
	if x.count == 0 {
		return 0, 0
	}
	first, _ = x.next(0)
	r := x.dir[len(x.dir)-1]
	for w := len(r.c.present) - 1; w >= 0; w-- {
		if v := r.c.present[w]; v != 0 {
			return first, r.base + uint64(w<<6+63-bits.LeadingZeros64(v))
		}
	}
	return first, first
}

// fromEnd calls f for the inRAM messages that are in memory, from the highest seq down, until f says false. f may evict
// what it is called for.
func (x *index) fromEnd(inRAM int, f func(seq uint64, it item) bool) {
	for i := len(x.dir) - 1; i >= 0 && inRAM > 0; i-- {
		r := x.dir[i]
		if r.c.inRAM == 0 {
			continue
		}
		for bit := chunkSpan - 1; bit >= 0; bit-- {
			if !r.c.present.has(bit) {
				continue
			}
			it := r.c.item(bit)
			if it.ram == nil {
				continue
			}
			inRAM--
			if !f(r.base+uint64(bit), it) {
				return
			}
		}
	}
}
