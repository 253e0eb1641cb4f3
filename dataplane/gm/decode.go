package gm

// reader walks a frame. The first fault sticks in bad, and everything read after it is zero. It allocates nothing.
type reader struct {
	b   []byte
	bad string
}

func (r *reader) fail(why string) {
	if r.bad == "" {
		r.bad = why
	}
	r.b = nil
}

func (r *reader) byte() byte {
	if len(r.b) == 0 {
		r.fail("truncated")
		return 0
	}
	c := r.b[0]
	r.b = r.b[1:]
	return c
}

func (r *reader) take(n uint64) []byte {
	if n > uint64(len(r.b)) {
		r.fail("truncated")
		return nil
	}
	p := r.b[:n:n]
	r.b = r.b[n:]
	return p
}

func (r *reader) big(n uint64) uint64 {
	var v uint64
	for _, c := range r.take(n) {
		v = v<<8 | uint64(c)
	}
	return v
}

func (r *reader) uint() uint64 {
	c := r.byte()
	switch {
	case c < 0x80:
		return uint64(c)
	case c >= 0xcc && c <= 0xcf:
		return r.big(1 << (c - 0xcc))
	}
	r.fail("unsigned integer expected")
	return 0
}

func (r *reader) bool() bool {
	c := r.byte()
	if c != 0xc2 && c != 0xc3 {
		r.fail("boolean expected")
	}
	return c == 0xc3
}

func (r *reader) bin() []byte {
	c := r.byte()
	if c < 0xc4 || c > 0xc6 {
		r.fail("binary expected")
		return nil
	}
	return r.take(r.big(1 << (c - 0xc4)))
}

func (r *reader) str() []byte {
	c := r.byte()
	var n uint64
	switch {
	case c >= 0xa0 && c <= 0xbf:
		n = uint64(c & 0x1f)
	case c >= 0xd9 && c <= 0xdb:
		n = r.big(1 << (c - 0xd9))
	default:
		r.fail("string expected")
	}
	if n > maxNode {
		r.fail("node name too long")
		return nil
	}
	return r.take(n)
}

// array reads the head of an array of groups of `per` elements and returns the number of groups.
func (r *reader) array(per int) int {
	c := r.byte()
	var n uint64
	switch {
	case c >= 0x90 && c <= 0x9f:
		n = uint64(c & 0x0f)
	case c == 0xdc:
		n = r.big(2)
	case c == 0xdd:
		n = r.big(4)
	default:
		r.fail("array expected")
		return 0
	}
	if n > uint64(len(r.b)) || n > maxSenders*3 || n%uint64(per) != 0 {
		r.fail("array length")
		return 0
	}
	return int(n) / per
}

// ref names a sender as a frame does: by index in the frame's view, or in full. The name aliases the frame.
type ref struct {
	index     int // -1: in full
	node      []byte
	inc, join uint64
}

func (r *reader) member() ref {
	if r.array(3) != 1 {
		r.fail("member expected")
		return ref{index: -1}
	}
	return ref{index: -1, node: r.str(), inc: r.uint(), join: r.uint()}
}

func (r *reader) ref() ref {
	if len(r.b) > 0 && r.b[0]&0xf0 == 0x90 {
		return r.member()
	}
	i := r.uint()
	if i >= maxSenders {
		r.fail("member index")
		return ref{}
	}
	return ref{index: int(i)}
}

func (f ref) member() Member {
	return Member{Node: string(f.node), Incarnation: f.inc, JoinIndex: f.join}
}

func (f ref) is(m Member) bool {
	return f.join == m.JoinIndex && f.inc == m.Incarnation && string(f.node) == m.Node
}

type item struct {
	ref  ref
	a, b uint64
}

// parsed is a decoded frame. It is reused: items, body and names live until the next parse.
type parsed struct {
	typ     frameType
	view    uint64
	ref     ref    // Data, Fragment
	num     uint64 // Data, Fragment
	class   Class
	total   uint64 // Fragment
	offset  uint64
	body    []byte // Data, Fragment; Batch: its messages, one after the other
	count   int    // Batch
	session uint64 // Credit, Resume, Start
	flag    bool   // Resume: fresh; Start: again
	amount  uint64 // Resume: window; Credit: returned
	items   []item
	closed  item // Data of classClosed
	raw     []byte
}

// parse decodes a whole frame into p, or says why it is malformed. What follows the fields of this version is skipped:
// later versions may append.
func (p *parsed) parse(frame []byte, maxMessage int) string {
	r := reader{b: frame}
	if v := r.byte(); r.bad == "" && v != wireVersion {
		return "unknown format version"
	}
	*p = parsed{typ: frameType(r.byte()), view: r.uint(), items: p.items[:0], raw: frame}
	if r.bad == "" && p.view == 0 {
		return "view 0"
	}
	switch p.typ {
	case frameData, frameFragment:
		p.parseData(&r, uint64(maxMessage))
	case frameBatch:
		p.parseBatch(&r, uint64(maxMessage))
	case frameProgress:
		p.parseItems(&r, 3, reader.indexRef)
	case frameStable:
		p.parseItems(&r, 2, reader.anyRef)
	case frameCredit:
		p.session, p.amount = r.uint(), r.uint()
	case frameResume:
		p.session, p.flag, p.amount = r.uint(), r.bool(), r.uint()
		p.parseItems(&r, 2, reader.fullRef)
	case frameStart:
		p.session, p.flag = r.uint(), r.bool()
		p.parseItems(&r, 2, reader.fullRef)
	case frameClosing:
		p.parseItems(&r, 3, reader.fullRef)
	default:
		r.fail("unknown frame type")
	}
	return r.bad
}

func (r reader) anyRef() (ref, reader)  { f := r.ref(); return f, r }
func (r reader) fullRef() (ref, reader) { f := r.member(); return f, r }
func (r reader) indexRef() (ref, reader) {
	f := r.ref()
	if f.index < 0 {
		r.fail("member index expected")
	}
	return f, r
}

func (p *parsed) parseItems(r *reader, per int, name func(reader) (ref, reader)) {
	n := r.array(per)
	for i := 0; i < n && r.bad == ""; i++ {
		var it item
		it.ref, *r = name(*r)
		it.a = r.uint()
		if per == 3 {
			it.b = r.uint()
		}
		p.items = append(p.items, it)
	}
}

// parseBatch checks every message; whoever takes them walks over body again.
func (p *parsed) parseBatch(r *reader, maxMessage uint64) {
	p.ref, p.num = r.ref(), r.uint()
	p.count = r.array(2)
	p.body = r.b
	for i := 0; i < p.count && r.bad == ""; i++ {
		if c := r.uint(); c > uint64(Barrier) {
			r.fail("class of a message in a batch")
		}
		if uint64(len(r.bin())) > maxMessage {
			r.fail("message too large")
		}
	}
	if r.bad == "" && (p.count == 0 || p.num == 0 || p.num+uint64(p.count) < p.num) {
		r.fail("numbers of a batch")
	}
}

func (p *parsed) parseData(r *reader, maxMessage uint64) {
	p.ref, p.num = r.ref(), r.uint()
	c := r.uint()
	if p.typ == frameFragment {
		p.total, p.offset = r.uint(), r.uint()
	}
	p.body = r.bin()
	p.class = Class(c)
	switch {
	case r.bad != "":
	case c > uint64(classClosed):
		r.fail("unknown class")
	case p.num == 0:
		r.fail("message number 0")
	case p.typ == frameData:
		if uint64(len(p.body)) > maxMessage {
			r.fail("message too large")
		}
	case p.total > maxMessage:
		r.fail("message too large")
	case len(p.body) == 0 || p.offset >= p.total || uint64(len(p.body)) > p.total-p.offset:
		r.fail("fragment out of bounds")
	case p.class == classClosed:
		r.fail("fragment of SenderClosed")
	}
	if r.bad == "" && p.class == classClosed {
		b := reader{b: p.body}
		p.closed = item{ref: b.member(), a: b.uint()}
		if b.bad != "" {
			r.fail("SenderClosed: " + b.bad)
		}
	}
}
