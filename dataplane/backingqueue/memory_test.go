package backingqueue_test

import (
	"errors"
	"slices"
	"testing"

	"warren/dataplane/backingqueue"
	"warren/dataplane/message"
)

func entry(seq uint64, persistent bool) backingqueue.Entry {
	m := message.Message{Body: []byte{byte(seq)}, Persistent: persistent}
	return backingqueue.Entry{Seq: seq, Ref: 1, Number: seq, Message: m}
}

func open(t *testing.T, m *backingqueue.Memory, id backingqueue.ID, o backingqueue.Options) (backingqueue.Queue, backingqueue.Recovery) {
	t.Helper()
	q, rec, err := m.Open(id, o)
	if err != nil {
		t.Fatal(err)
	}
	return q, rec
}

func seqs(q backingqueue.Queue) (out []uint64) {
	for seq, ok := q.Next(0); ok; seq, ok = q.Next(seq + 1) {
		out = append(out, seq)
	}
	return out
}

// TestMemoryDurability: nothing is durable before a flush, a flush of one moves the watermark by one, and a crash leaves
// what was durable, without transient messages.
func TestMemoryDurability(t *testing.T) {
	m := backingqueue.NewMemory()
	var told []backingqueue.LSN
	q, rec := open(t, m, 1, backingqueue.Options{Durable: true, OnDurable: func(l backingqueue.LSN) { told = append(told, l) }})
	if rec.Found {
		t.Fatalf("%+v", rec)
	}
	if _, err := q.SetOrigin(backingqueue.Origin{Ref: 1}); err != nil {
		t.Fatal(err)
	}
	for seq := uint64(1); seq <= 4; seq++ {
		if _, err := q.Append(entry(seq, seq != 2)); err != nil {
			t.Fatal(err)
		}
	}
	q.Sync()
	if q.Durable() != 0 || q.Last() != 5 || !slices.Equal(m.SyncPending(), []backingqueue.ID{1}) {
		t.Fatalf("durable %d of %d, pending %v", q.Durable(), q.Last(), m.SyncPending())
	}
	for range 4 {
		m.FlushOne(1)
	}
	if q.Durable() != 4 || !slices.Equal(told, []backingqueue.LSN{1, 2, 3, 4}) {
		t.Fatalf("durable %d, told %v", q.Durable(), told)
	}
	if at5, _ := open(t, m.CrashedAt(1, 5), 1, backingqueue.Options{Durable: true}); !slices.Equal(seqs(at5), []uint64{1, 3, 4}) {
		t.Fatalf("crashed at 5: %v", seqs(at5))
	}
	transient, _ := open(t, m, 2, backingqueue.Options{})
	if _, err := transient.Append(entry(1, true)); err != nil {
		t.Fatal(err)
	}
	m.FlushQueue(2)
	m.Crash()
	if _, err := q.Append(entry(9, true)); !errors.Is(err, backingqueue.ErrClosed) {
		t.Fatalf("append to a dead handle: %v", err)
	}
	q, rec = open(t, m, 1, backingqueue.Options{Durable: true})
	if st := q.Stats(); !rec.Found || !slices.Equal(seqs(q), []uint64{1, 3}) || st.NextSeq != 4 || st.Messages != 2 {
		t.Fatalf("%+v: %v %+v", rec, seqs(q), st)
	}
	if os := q.Origins(); len(os) != 1 || os[0].Number != 3 {
		t.Fatalf("origins %v", os)
	}
	if ids := m.IDs(); !slices.Equal(ids, []backingqueue.ID{1}) {
		t.Fatalf("ids %v", ids)
	}
}

func TestMemoryErrors(t *testing.T) {
	m := backingqueue.NewMemory()
	q, _ := open(t, m, 1, backingqueue.Options{Durable: true})
	if _, _, err := m.Open(1, backingqueue.Options{}); !errors.Is(err, backingqueue.ErrOpen) {
		t.Errorf("open twice: %v", err)
	}
	if _, err := q.Append(entry(5, true)); err != nil {
		t.Fatal(err)
	}
	if _, err := q.Append(entry(5, true)); !errors.Is(err, backingqueue.ErrOrder) {
		t.Errorf("append twice: %v", err)
	}
	if _, err := q.Insert(entry(5, true)); !errors.Is(err, backingqueue.ErrExists) {
		t.Errorf("insert twice: %v", err)
	}
	if _, err := q.Insert(entry(6, true)); !errors.Is(err, backingqueue.ErrOrder) {
		t.Errorf("insert at the end: %v", err)
	}
	if _, err := q.SetMeta(make([]byte, backingqueue.MaxMeta+1)); !errors.Is(err, backingqueue.ErrTooLarge) {
		t.Errorf("large meta: %v", err)
	}
	if q.Last() != 1 {
		t.Errorf("failed changes count: last is %d", q.Last())
	}
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	if err := m.Damage(1, 5); err != nil {
		t.Fatal(err)
	}
	q, rec := open(t, m, 1, backingqueue.Options{Durable: true})
	if !rec.Damaged || q.Has(5) {
		t.Errorf("%+v, has 5: %v", rec, q.Has(5))
	}
}

func TestMemoryAuto(t *testing.T) {
	m := backingqueue.NewMemory().Auto()
	durable := make(chan backingqueue.LSN, 1)
	q, _ := open(t, m, 1, backingqueue.Options{Durable: true, OnDurable: func(l backingqueue.LSN) { durable <- l }})
	lsn, err := q.Append(entry(1, true))
	if err != nil {
		t.Fatal(err)
	}
	q.Sync()
	if got := <-durable; got != lsn {
		t.Fatalf("durable %d, appended %d", got, lsn)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
}
