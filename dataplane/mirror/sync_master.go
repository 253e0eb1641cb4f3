package mirror

import (
	"fmt"

	"github.com/RoaringBitmap/roaring/v2/roaring64"

	"warren/dataplane/backingqueue"
	"warren/dataplane/gm"
)

// syncRun is a synchronisation as the master sees it: one walk for all mirrors that take part.
type syncRun struct {
	id       uint64
	cursor   uint64 // what is below has been compared, and sent where it was missing
	targets  map[gm.Member]*target
	copying  bool // a mirror wants what the walk finds
	progress Progress
	spare    [][]byte // buffers of batches that were answered
}

// shared is the buffer of a batch, which all mirrors that lack the same are sent. Its memory is used again when all have answered:
// new memory for all that is copied costs more than the copying.
type shared struct {
	b     []byte
	users int // mirrors that have not answered
}

// maxSpare and spareSize limit what is kept for the next batches.
const (
	maxSpare  = aheadBytes / batchBytes
	spareSize = 2 * batchBytes
)

// buffer is an empty one for a batch.
func (n *syncRun) buffer() []byte {
	if i := len(n.spare) - 1; i >= 0 {
		b := n.spare[i]
		n.spare = n.spare[:i]
		return b[:0]
	}
	return make([]byte, 0, batchBytes+batchBytes/8)
}

// release gives back a buffer of which a mirror was sent something, or nobody was.
func (n *syncRun) release(s *shared) {
	if s.users--; s.users <= 0 && len(n.spare) < maxSpare && cap(s.b) > 0 && cap(s.b) <= spareSize {
		n.spare = append(n.spare, s.b)
	}
}

// target is one mirror in a run.
type target struct {
	baseline uint64
	from     uint64
	offers   []offer // that reach beyond the cursor, in order
	decided  bool
	sent     uint64 // number of the last batch
	acked    uint64
	stored   uint64
	sizes    []int     // of the batches from stored+1 to sent
	buffers  []*shared // of the batches from acked+1 to sent
	ahead    int       // bytes of those that it has not taken
	unstored int       // bytes of those that are not on its disk
	finished bool      // the last batch is sent
	ticks    int       // since it moved
}

// offer is what a mirror holds below to, from where its previous offer ended.
type offer struct {
	to   uint64
	held *roaring64.Bitmap
}

// waits tells whether the walk can do nothing for t until t speaks.
func (t *target) waits(cursor uint64) bool {
	return !t.decided || t.acked < t.sent || t.full() || len(t.offers) == 0 && !t.finished && cursor < t.baseline
}

// full tells whether as much is under way to t as may be.
func (t *target) full() bool {
	return t.sent-t.acked >= aheadBatches || t.ahead >= aheadBytes || t.unstored >= unstoredBytes
}

// sending counts a batch.
func (t *target) sending(bytes int, s *shared) {
	t.sent++
	t.sizes = append(t.sizes, bytes)
	t.buffers = append(t.buffers, s)
	s.users++
	t.ahead += bytes
	t.unstored += bytes
}

// took notes what t has taken, and what of it is on its disk.
func (n *syncRun) took(t *target, number, stored uint64) {
	for ; t.acked < min(number, t.sent); t.acked++ {
		t.ahead -= t.sizes[t.acked-t.stored]
		n.release(t.buffers[0])
		t.buffers = t.buffers[1:]
	}
	for ; t.stored < min(stored, t.acked); t.stored++ {
		t.unstored -= t.sizes[0]
		t.sizes = t.sizes[1:]
	}
	t.ticks = 0
}

// drained tells whether the master holds nothing below j's baseline.
func drained(st backingqueue.Stats, j joiner) bool {
	return st.Messages == 0 || st.FirstSeq >= j.baseline
}

// eligible tells whether a mirror is to take part in a synchronisation.
func (r *Replica) eligible(j joiner) bool {
	return !j.whole && j.paused == 0 && !j.cancelled && (!j.declined || j.requested || r.a.Sync.Automatic)
}

// startRun begins a synchronisation if a mirror needs one. One that is under way is begun anew for a mirror that has come:
// what was sent is not sent again.
func (r *Replica) startRun() error {
	if r.ring == nil || len(r.joiners) == 0 {
		return nil
	}
	var to []gm.Member
	more := false
	for _, m := range r.a.View.Members {
		j, ok := r.joiners[m]
		if !ok || !r.eligible(j) {
			continue
		}
		to = append(to, m)
		more = more || r.run == nil || r.run.targets[m] == nil
	}
	if !more {
		return nil
	}
	if r.run != nil {
		if err := r.endRun(nil, flagOver); err != nil {
			return err
		}
	}
	r.runs++
	r.run = &syncRun{id: r.runs, cursor: ^uint64(0), targets: map[gm.Member]*target{}}
	for _, m := range to {
		r.run.targets[m] = &target{baseline: r.joiners[m].baseline}
	}
	return r.cast(gm.Control, encodeSyncStart(r.run.id, to), needNothing)
}

// endRun tells which mirrors are synchronised; with flagOver the run is over.
func (r *Replica) endRun(done []gm.Member, flags uint64) error {
	id := uint64(0)
	if r.run != nil {
		id = r.run.id
	}
	if flags&flagOver != 0 {
		r.run = nil
	}
	class := gm.Control
	if len(done) > 0 {
		class = gm.Barrier
	}
	// It needs nothing of this disk: what a mirror may be vouched for against, earlier operations have asked for, and SyncEnd
	// does not count as persisted before them.
	if err := r.cast(class, encodeSyncEnd(id, flags, done), needNothing); err != nil {
		return err
	}
	for _, m := range done {
		j := r.joiners[m]
		j.whole, j.number = true, r.newest()
		r.joiners[m] = j
	}
	return nil
}

// leaveOut goes on without a mirror, which is tried again after a pause.
func (r *Replica) leaveOut(m gm.Member, why string) {
	delete(r.run.targets, m)
	if j, ok := r.joiners[m]; ok {
		j.paused = pausedFor
		r.joiners[m] = j
		r.env.Report(r.event(SyncInterrupted, m, 0, why))
	}
}

func (r *Replica) target(node string, incarnation uint64, m *syncMessage) (gm.Member, *target) {
	if r.run == nil || r.role != Master || m.epoch != r.term.Epoch || m.id != r.run.id {
		return gm.Member{}, nil
	}
	for g, t := range r.run.targets {
		if g.Node == node && g.Incarnation == incarnation {
			return g, t
		}
	}
	return gm.Member{}, nil
}

// takeOffer notes what a mirror holds. One that holds nothing takes part only if somebody asks for it.
func (r *Replica) takeOffer(node string, incarnation uint64, m *syncMessage) {
	g, t := r.target(node, incarnation, m)
	if t == nil {
		return
	}
	t.ticks = 0
	if !t.decided {
		j := r.joiners[g]
		if !r.a.Sync.Automatic && !j.requested && !m.returner && m.from == 0 && m.held.IsEmpty() {
			j.declined = true
			r.joiners[g] = j
			delete(r.run.targets, g)
			return
		}
		t.decided, t.from = true, m.from
		if !r.run.copying {
			r.run.copying = true
			r.env.Report(r.event(SyncStarted, g, r.below(t.baseline), ""))
		}
	}
	t.offers = append(t.offers, offer{m.to, m.held})
}

func (r *Replica) takeAck(node string, incarnation uint64, m *syncMessage) {
	if _, t := r.target(node, incarnation, m); t != nil && m.number <= t.sent {
		r.run.took(t, m.number, m.stored)
	}
}

// below estimates how many messages this master holds below a baseline.
func (r *Replica) below(baseline uint64) int {
	st := r.q.Stats()
	return max(0, st.Messages-int(min(r.next-baseline, uint64(st.Messages))))
}

// walk does one step of the run.
func (r *Replica) walk() (more bool, err error) {
	if r.role != Master {
		return false, nil
	}
	limit := ^uint64(0)
	var done, open []gm.Member
	for _, m := range r.a.View.Members {
		t := r.run.targets[m]
		switch {
		case t == nil:
		case r.joiners[m].whole || r.joiners[m].baseline != t.baseline:
			delete(r.run.targets, m) // drained, gone, or begun anew
		case t.finished && t.acked == t.sent:
			done = append(done, m)
			delete(r.run.targets, m)
		case !t.decided:
			limit = 0
		case !t.finished:
			open = append(open, m)
			if len(t.offers) == 0 || t.full() {
				limit = 0
			} else {
				limit = min(limit, t.offers[0].to)
			}
		}
	}
	for m := range r.run.targets {
		if !holds(r.a.View, m) {
			delete(r.run.targets, m)
		}
	}
	flags := uint64(0)
	if len(r.run.targets) == 0 {
		flags = flagOver
	}
	if len(done) > 0 || flags != 0 {
		for _, m := range done {
			r.env.Report(r.event(SyncDone, m, int(r.run.progress.Sent), fmt.Sprintf("%d bytes sent", r.run.progress.Bytes)))
		}
		return false, r.endRun(done, flags)
	}
	if limit == 0 || len(open) == 0 {
		return false, nil
	}
	return r.window(open, limit)
}

// window compares the master's messages from the cursor on with what the mirrors hold, as far as one batch goes, and sends
// each what it lacks and what it must drop.
func (r *Replica) window(open []gm.Member, limit uint64) (more bool, err error) {
	n := r.run
	if n.cursor == ^uint64(0) {
		for _, m := range open {
			n.cursor = min(n.cursor, n.targets[m].from)
		}
	}
	w := window{r: r, from: n.cursor, to: limit, batches: make([]syncMessage, len(open)), pieces: make([]pieces, len(open))}
	// The users of the buffer are the mirrors, and this function until it returns.
	s := &shared{users: 1}
	defer n.release(s)
	for _, m := range open {
		w.targets = append(w.targets, n.targets[m])
	}
	if err := w.fill(); err != nil {
		return false, err
	}
	n.cursor = max(w.to, w.from)
	s.b = w.buffer
	for i, m := range open {
		t, b := w.targets[i], &w.batches[i]
		w.gone(t, b)
		for len(t.offers) > 0 && t.offers[0].to <= n.cursor {
			t.offers = t.offers[1:]
		}
		t.finished = n.cursor >= t.baseline
		if b.count == 0 && len(b.gone) == 0 && !t.finished {
			continue
		}
		own := w.pieces[i].of(s.b)
		t.sending(len(own), s)
		b.kind, b.epoch, b.id, b.number, b.to = syncBatch, r.term.Epoch, n.id, t.sent, min(n.cursor, t.baseline)
		if !r.env.SendSync(m, b.encode(), own) {
			r.leaveOut(m, "nothing can be sent to it")
		}
	}
	return true, nil
}

// window is one step's part of the walk.
type window struct {
	r        *Replica
	from, to uint64
	targets  []*target
	batches  []syncMessage // one for each target
	pieces   []pieces      // of buffer, one for each target
	buffer   []byte        // encoded entries; nil: there are none
}

// pieces are which parts of a buffer a mirror is sent.
type pieces []struct{ from, to int }

func (p *pieces) add(from, to int) {
	if n := len(*p); n > 0 && (*p)[n-1].to == from {
		(*p)[n-1].to = to
		return
	}
	*p = append(*p, struct{ from, to int }{from, to})
}

func (p pieces) of(buffer []byte) []byte {
	if len(p) == 1 {
		return buffer[p[0].from:p[0].to:p[0].to]
	}
	var out []byte
	for _, s := range p {
		out = append(out, buffer[s.from:s.to]...)
	}
	return out
}

// fill collects what the mirrors lack; to becomes the end of what was looked at.
func (w *window) fill() error {
	r := w.r
	batch := r.a.Sync.Batch
	if batch <= 1 {
		batch = defaultBatch
	}
	messages, walked := 0, 0
	for seq, ok := r.q.Next(w.from); ok && seq < w.to; seq, ok = r.q.Next(seq + 1) {
		if walked++; walked > r.size.walk || messages >= batch || len(w.buffer) >= batchBytes {
			w.to = seq
			break
		}
		start := len(w.buffer)
		for i, t := range w.targets {
			if !t.lacks(seq) {
				continue
			}
			if len(w.buffer) == start {
				e, held, err := r.q.Get(seq)
				if err != nil || !held {
					return r.failed("read a message to synchronise", fmt.Errorf("position %d, held %v: %w", seq, held, err))
				}
				if w.buffer == nil {
					w.buffer = r.run.buffer()
				}
				w.buffer = appendEntry(w.buffer, &e)
				messages++
				r.run.progress.Sent++
				r.run.progress.Bytes += uint64(len(w.buffer) - start)
			}
			w.pieces[i].add(start, len(w.buffer))
			w.batches[i].count++
		}
		r.run.progress.Done++
	}
	return nil
}

// lacks tells whether the mirror is to be sent seq.
func (t *target) lacks(seq uint64) bool {
	return seq >= t.from && seq < t.baseline && !t.offers[0].held.Contains(seq)
}

// gone collects what the mirror holds in the window and the master does not: it was removed while the mirror was away.
func (w *window) gone(t *target, b *syncMessage) {
	it := t.offers[0].held.Iterator()
	it.AdvanceIfNeeded(max(w.from, t.from))
	for it.HasNext() {
		seq := it.Next()
		if seq >= w.to || seq >= t.baseline {
			return
		}
		if w.r.q.Has(seq) {
			continue
		}
		w.r.run.progress.Discarded++
		if n := len(b.gone); n > 0 && b.gone[n-1].Last+1 == seq {
			b.gone[n-1].Last = seq
		} else {
			b.gone = append(b.gone, backingqueue.Range{First: seq, Last: seq})
		}
	}
}

// SyncQueue asks that all mirrors be synchronised, whatever the policy says of copying. It reports how many are not.
// ErrNotActing if this copy is not an acting master.
func (r *Replica) SyncQueue() (mirrors int, err error) {
	if r.role != Master {
		return 0, fmt.Errorf("synchronise queue %q: %w", r.cfg.Name, ErrNotActing)
	}
	for m, j := range r.joiners {
		j.requested, j.cancelled, j.paused = true, false, 0
		r.joiners[m] = j
		mirrors++
	}
	return mirrors, r.settle()
}

// Requested is how many mirrors SyncQueue asked for are not synchronised.
func (r *Replica) Requested() (n int) {
	for _, j := range r.joiners {
		if j.requested {
			n++
		}
	}
	return n
}

// CancelSync ends the synchronisation that is under way: what was sent stays for the next one, which nothing but SyncQueue, a
// change of the policy or a new master begins for the mirrors that took part. It reports whether one was under way.
func (r *Replica) CancelSync() (bool, error) {
	if r.role != Master || r.run == nil || !r.run.copying {
		return false, nil
	}
	for m := range r.run.targets {
		j := r.joiners[m]
		j.cancelled, j.requested = true, false
		r.joiners[m] = j
	}
	r.env.Report(r.event(SyncCancelled, gm.Member{}, int(r.run.progress.Sent), ""))
	return true, r.endRun(nil, flagOver)
}

// Syncing is how far the synchronisation that is under way has come; ok is false if there is none.
func (r *Replica) Syncing() (p Progress, ok bool) {
	if r.role != Master || r.run == nil || !r.run.copying {
		return Progress{}, false
	}
	p = r.run.progress
	baseline := uint64(0)
	for _, t := range r.run.targets {
		p.Mirrors++
		baseline = max(baseline, t.baseline)
	}
	p.ToGo = uint64(max(0, r.below(baseline)-int(p.Done)))
	if st := r.q.Stats(); st.Messages > 0 {
		p.BytesAhead = p.ToGo * uint64(st.Bytes) / uint64(st.Messages)
	}
	return p, true
}

// SyncAhead tells of each mirror that takes part in the synchronisation under way how many bytes it was sent and has not taken, and
// how many are not on its disk.
func (r *Replica) SyncAhead(f func(m gm.Member, ahead, unstored int)) {
	if r.role != Master || r.run == nil {
		return
	}
	for m, t := range r.run.targets {
		f(m, t.ahead, t.unstored)
	}
}

// Blocked tells whether the queue must take no operation now, because it synchronises and its policy says so.
func (r *Replica) Blocked() bool {
	return r.a.Sync.Blocking && r.role == Master && r.run != nil && r.run.copying
}
