package store

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"warren/dataplane/backingqueue"
	"warren/dataplane/message"
	"warren/dataplane/vfs"
)

// pair drives the model and a store on a file system in memory with the same calls.
type pair struct {
	t     *testing.T
	r     *rand.Rand
	fs    *vfs.Mem
	disk  *Store
	model *backingqueue.Memory
	qd    map[backingqueue.ID]backingqueue.Queue
	qm    map[backingqueue.ID]backingqueue.Queue
	ids   [modelQueues]backingqueue.ID
	what  []string
}

var errPower = errors.New("the power failed")

const modelQueues = 4 // at a time; every fourth is transient

func durableQueue(id backingqueue.ID) bool { return id%modelQueues != 0 }

func newPair(t *testing.T, seed uint64) *pair {
	p := &pair{
		t: t, r: rand.New(rand.NewPCG(seed, 4)), fs: vfs.NewMem(), model: backingqueue.NewMemory(),
		qd: map[backingqueue.ID]backingqueue.Queue{}, qm: map[backingqueue.ID]backingqueue.Queue{},
	}
	for i := range p.ids {
		p.ids[i] = backingqueue.ID(i + 1)
	}
	p.openStore()
	return p
}

func (p *pair) openStore() {
	s, err := Open(Options{
		Dir: "data", FS: p.fs, JournalFileSize: 3000, JournalFiles: 1 + p.r.IntN(3), Budget: 1 + int64(p.r.IntN(20000)),
		OnFatal: func(error) {},
	})
	if err != nil {
		p.fatalf("open the store: %v", err)
	}
	p.disk = s
	for id, q := range s.queues {
		if q.damaged != "" {
			p.fatalf("queue %d: %s", id, q.damaged)
		}
	}
	p.invariants()
}

// invariants compares what the files count as alive with what the queues hold in them.
func (p *pair) invariants() {
	p.t.Helper()
	s := p.disk
	s.work.Lock()
	defer s.work.Unlock()
	s.paging.Lock()
	defer s.paging.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	live := map[uint32]int64{}
	for _, q := range s.queues {
		q.mu.Lock()
		defer q.mu.Unlock()
		segs := map[uint32]int64{}
		for seq, ok := q.idx.next(0); ok; seq, ok = q.idx.next(seq + 1) {
			it, _ := q.idx.get(seq)
			if it.file&segmentBits == 0 {
				live[it.file]++
			} else {
				segs[it.file]++
			}
		}
		for _, f := range append(q.segs.Files(), q.spill.Files()...) {
			if int64(f.Live) != segs[f.ID] {
				p.fatalf("queue %d: segment %x counts %d alive, the queue holds %d", q.id, f.ID, f.Live, segs[f.ID])
			}
			delete(segs, f.ID)
		}
		if len(segs) > 0 {
			p.fatalf("queue %d holds entries in segments that are not there: %v", q.id, segs)
		}
	}
	s.chores.mu.Lock()
	defer s.chores.mu.Unlock()
	delete(live, 0)
	for _, f := range s.j.Files() {
		if f.Live != live[f.ID] && len(s.chores.buried) == 0 {
			p.fatalf("journal file %d counts %d alive, the queues hold %d", f.ID, f.Live, live[f.ID])
		}
		delete(live, f.ID)
	}
	if len(live) > 0 {
		p.fatalf("the queues hold entries in journal files that are not there: %v, of %+v", live, s.j.Files())
	}
}

func (p *pair) fatalf(format string, args ...any) {
	p.t.Helper()
	from := max(0, len(p.what)-40)
	p.t.Fatalf("%s\nafter %d steps, the last of which: %v", fmt.Sprintf(format, args...), len(p.what), p.what[from:])
}

func (p *pair) id() backingqueue.ID { return p.ids[p.r.IntN(modelQueues)] }

// queue opens the queue in both if it is not open.
func (p *pair) queue(id backingqueue.ID) (d, m backingqueue.Queue) {
	if p.qd[id] == nil {
		o := backingqueue.Options{Durable: durableQueue(id)}
		d, rec, err := p.disk.Open(id, o)
		if err != nil || rec.Damaged {
			p.fatalf("open %d: %+v %v", id, rec, err)
		}
		m, _, err := p.model.Open(id, o)
		if err != nil {
			p.fatalf("open %d in the model: %v", id, err)
		}
		p.qd[id], p.qm[id] = d, m
		if diff := differ(d, m); diff != "" {
			p.fatalf("queue %d as opened: %s", id, diff)
		}
	}
	return p.qd[id], p.qm[id]
}

// differ compares all that can be seen of two queues.
func differ(d, m backingqueue.Queue) string {
	sd, sm := d.Stats(), m.Stats()
	sd.MessagesRAM, sd.BytesRAM, sd.IndexBytes = sm.MessagesRAM, sm.BytesRAM, sm.IndexBytes
	if sd != sm {
		return fmt.Sprintf("stats: disk %+v, model %+v", sd, sm)
	}
	if a, b := d.Origins(), m.Origins(); !slices.Equal(a, b) {
		return fmt.Sprintf("origins: disk %v, model %v", a, b)
	}
	if a, b := d.Meta(), m.Meta(); !bytes.Equal(a, b) {
		return fmt.Sprintf("meta: disk %q, model %q", a, b)
	}
	at, ok := d.Next(0)
	bt, bk := m.Next(0)
	for ; ok || bk; at, ok = d.Next(at + 1) {
		if at != bt || ok != bk {
			return fmt.Sprintf("next: disk %d %v, model %d %v", at, ok, bt, bk)
		}
		a, ok1, err := d.Get(at)
		b, ok2, _ := m.Get(at)
		if err != nil || ok1 != ok2 || !reflect.DeepEqual(plain(a), plain(b)) {
			return fmt.Sprintf("get %d: disk %+v %v %v, model %+v %v", at, a, ok1, err, b, ok2)
		}
		bt, bk = m.Next(bt + 1)
	}
	return ""
}

// plain makes no difference between nil and empty.
func plain(e backingqueue.Entry) backingqueue.Entry {
	e.Message.Body = append([]byte{}, e.Message.Body...)
	e.Message.Properties = append([]byte{}, e.Message.Properties...)
	return e
}

func (p *pair) entry(seq uint64) backingqueue.Entry {
	size := p.r.IntN(60)
	switch p.r.IntN(40) {
	case 0:
		size = p.r.IntN(6000)
	case 1:
		size = 0
	}
	e := backingqueue.Entry{Seq: seq, Ref: uint64(p.r.IntN(4)), Number: uint64(p.r.IntN(50)), Delivered: p.r.IntN(9) == 0}
	e.Message = message.Message{
		Exchange: "x", RoutingKey: fmt.Sprint("key", p.r.IntN(9)), Properties: []byte{1, byte(p.r.IntN(256))},
		Body: make([]byte, size), Persistent: p.r.IntN(4) > 0, Priority: uint8(p.r.IntN(10)), Expiry: int64(p.r.IntN(3)) - 1,
	}
	for i := range e.Message.Body {
		e.Message.Body[i] = byte(p.r.Uint32())
	}
	return e
}

func (p *pair) ranges(st backingqueue.Stats) []backingqueue.Range {
	var rs []backingqueue.Range
	for range p.r.IntN(3) {
		first := st.FirstSeq + uint64(p.r.IntN(int(st.NextSeq-min(st.FirstSeq, st.NextSeq))+2))
		if p.r.IntN(2) == 0 {
			first = st.FirstSeq
		}
		rs = append(rs, backingqueue.Range{First: first, Last: first + uint64(p.r.IntN(12)) - uint64(p.r.IntN(2))})
	}
	return rs
}

// step makes one change in both and compares the answers.
func (p *pair) step() {
	id := p.id()
	d, m := p.queue(id)
	st := m.Stats()
	var call func(q backingqueue.Queue) (backingqueue.LSN, error)
	var what string
	switch k := p.r.IntN(100); {
	case k < 45:
		e := p.entry(st.NextSeq + uint64(max(0, p.r.IntN(12)-8)))
		what = fmt.Sprintf("append %d:%d(%v)", id, e.Seq, e.Message.Persistent)
		call = func(q backingqueue.Queue) (backingqueue.LSN, error) { return q.Append(e) }
	case k < 57:
		e := p.entry(uint64(p.r.IntN(int(st.NextSeq) + 2)))
		what = fmt.Sprintf("insert %d:%d(%v)", id, e.Seq, e.Message.Persistent)
		call = func(q backingqueue.Queue) (backingqueue.LSN, error) { return q.Insert(e) }
	case k < 78:
		rs := p.ranges(st)
		what = fmt.Sprintf("remove %d:%v", id, rs)
		call = func(q backingqueue.Queue) (backingqueue.LSN, error) { return q.Remove(rs) }
	case k < 80:
		at := st.NextSeq - min(st.NextSeq, uint64(p.r.IntN(10)))
		what = fmt.Sprintf("truncate %d:%d", id, at)
		call = func(q backingqueue.Queue) (backingqueue.LSN, error) { return q.Truncate(at) }
	case k < 82:
		at := st.NextSeq + uint64(p.r.IntN(6)) - min(st.NextSeq, 2)
		what = fmt.Sprintf("skip %d:%d", id, at)
		call = func(q backingqueue.Queue) (backingqueue.LSN, error) { return q.SkipTo(at) }
	default:
		what, call = p.smallStep(id, k, st)
	}
	p.what = append(p.what, what)
	ld, ed := call(d)
	lm, em := call(m)
	if (ed == nil) != (em == nil) || ld != lm {
		p.fatalf("%s: disk %d %v, model %d %v", what, ld, ed, lm, em)
	}
	if p.r.IntN(3) == 0 {
		d.Sync()
		m.Sync()
	}
}

func (p *pair) smallStep(id backingqueue.ID, k int, st backingqueue.Stats) (
	string, func(q backingqueue.Queue) (backingqueue.LSN, error),
) {
	ref := uint64(p.r.IntN(4))
	switch {
	case k < 88:
		rs := p.ranges(st)
		return fmt.Sprintf("delivered %d:%v", id, rs),
			func(q backingqueue.Queue) (backingqueue.LSN, error) { return q.SetDelivered(rs) }
	case k < 93:
		o := backingqueue.Origin{Ref: ref, Number: uint64(p.r.IntN(50))}
		o.ID = backingqueue.OriginID{Node: "rabbit@a", Incarnation: 3, Connection: ref, Channel: 1}
		return fmt.Sprintf("origin %d:%d", id, ref),
			func(q backingqueue.Queue) (backingqueue.LSN, error) { return q.SetOrigin(o) }
	case k < 95:
		return fmt.Sprintf("close origin %d:%d", id, ref),
			func(q backingqueue.Queue) (backingqueue.LSN, error) { return q.CloseOrigin(ref) }
	default:
		meta := fmt.Appendf(nil, "meta %d", p.r.Uint32())
		return fmt.Sprintf("meta %d", id),
			func(q backingqueue.Queue) (backingqueue.LSN, error) { return q.SetMeta(meta) }
	}
}

func (p *pair) closeQueue(remove bool) {
	id := p.id()
	d, m := p.qd[id], p.qm[id]
	if d == nil {
		return
	}
	p.what = append(p.what, fmt.Sprintf("close %d, delete %v", id, remove))
	do := backingqueue.Queue.Close
	if remove {
		do = backingqueue.Queue.Delete
	}
	if err := do(d); err != nil {
		p.fatalf("close or delete queue %d: %v", id, err)
	}
	_ = do(m)
	delete(p.qd, id)
	delete(p.qm, id)
	switch {
	case remove && p.r.IntN(2) == 0:
		p.ids[slices.Index(p.ids[:], id)] += modelQueues
	case remove:
		p.queue(id) // its next life has the same ID
	}
}

// crash ends the store, cleanly or by a power failure, and finds the model state that the disk must have kept: one
// between what the watermark promised and what was done.
func (p *pair) crash(power bool) {
	p.what = append(p.what, fmt.Sprintf("crash %v", power))
	promised := map[backingqueue.ID]backingqueue.LSN{}
	for id, q := range p.qd {
		promised[id] = q.Durable()
	}
	if power {
		p.fs.Fault(func(vfs.Op) error { return errPower })
	}
	err := p.disk.Close()
	if power {
		p.fs.Crash(p.r)
		p.fs.Fault(nil)
	}
	if !power && err != nil {
		p.fatalf("close: %v", err)
	}
	p.openStore()
	for _, id := range p.ids {
		m := p.qm[id]
		if m == nil || !durableQueue(id) {
			continue
		}
		from := promised[id]
		if !power {
			from = m.Last()
		}
		p.match(id, from, m.Last())
	}
	p.model.Crash()
	clear(p.qd)
	clear(p.qm)
	if p.r.IntN(4) == 0 {
		for _, id := range p.ids {
			p.queue(id)
		}
	}
}

// match finds an LSN at which the model's queue is what the disk recovered, and makes the model durable up to there.
func (p *pair) match(id backingqueue.ID, from, to backingqueue.LSN) {
	d, rec, err := p.disk.Open(id, backingqueue.Options{Durable: true})
	if err != nil || rec.Damaged {
		p.fatalf("open %d after a crash: %+v %v", id, rec, err)
	}
	defer d.Close()
	var diffs []string
	for lsn := from; lsn <= to; lsn++ {
		m, _, _ := p.model.CrashedAt(id, lsn).Open(id, backingqueue.Options{Durable: true})
		diff := differ(d, m)
		if diff == "" {
			for p.qm[id].Durable() < lsn {
				p.model.FlushOne(id)
			}
			return
		}
		diffs = append(diffs, diff)
	}
	p.fatalf("queue %d after a crash is no state from %d to %d (found %v); first %s; last %s",
		id, from, to, rec.Found, diffs[0], diffs[len(diffs)-1])
}

func TestModel(t *testing.T) {
	seeds, steps := 60, 400
	for seed := range uint64(seeds) {
		p := newPair(t, seed)
		p.what = append(p.what, fmt.Sprint("seed ", seed))
		for range steps {
			switch k := p.r.IntN(400); {
			case k < 4:
				p.crash(true)
			case k < 6:
				p.crash(false)
			case k < 8:
				p.closeQueue(false)
			case k < 9:
				p.closeQueue(true)
			case k < 20:
				p.invariants()
				d, m := p.queue(p.id())
				if diff := differ(d, m); diff != "" {
					p.fatalf("%s", diff)
				}
			default:
				p.step()
			}
		}
		if err := p.disk.Close(); err != nil {
			p.fatalf("close: %v", err)
		}
	}
}
