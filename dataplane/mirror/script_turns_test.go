package mirror

import (
	"testing"

	"warren/dataplane/backingqueue"
)

// counted counts what is asked of a store for one message each.
type counted struct {
	backingqueue.Queue
	n *int
}

func (c counted) Get(seq uint64) (backingqueue.Entry, bool, error) {
	*c.n++
	return c.Queue.Get(seq)
}

func (c counted) Has(seq uint64) bool {
	*c.n++
	return c.Queue.Has(seq)
}

func (c counted) Next(from uint64) (uint64, bool) {
	*c.n++
	return c.Queue.Next(from)
}

func (c counted) Insert(e backingqueue.Entry) (backingqueue.LSN, error) {
	*c.n++
	return c.Queue.Insert(e)
}

// longestTurn synchronises a mirror with n messages and returns the most that was asked of a store in one turn: one call of a copy,
// between which an actor serves its clients.
func longestTurn(t *testing.T, n uint64, store *backingqueue.Memory) (most, turns int) {
	t.Helper()
	p := newPair(t, n, SyncPolicy{Automatic: true}, store)
	p.a.rep.size, p.b.rep.size = syncSize{offer: 1000, walk: 250}, syncSize{offer: 1000, walk: 250}
	work := 0
	p.a.rep.q, p.b.rep.q = counted{p.a.rep.q, &work}, counted{p.b.rep.q, &work}
	turn := func(f func() error) {
		t.Helper()
		work = 0
		p.a.must(f())
		most, turns = max(most, work), turns+1
	}
	step := func(g *rig) (more bool) {
		turn(func() (err error) { more, err = g.rep.SyncStep(); return err })
		return more
	}
	carry := func(from, to *rig, node string, incarnation uint64) (some bool) {
		out := from.synced
		from.synced = nil
		for _, m := range out {
			turn(func() error { return to.rep.SyncMessage(node, incarnation, m.payload) })
		}
		return len(out) > 0
	}
	for rounds := 0; !p.b.rep.Synchronised(); rounds++ {
		if rounds > 100_000 {
			t.Fatal("it does not come to an end")
		}
		step(p.b)
		step(p.a)
		carry(p.b, p.a, p.self.Node, p.self.Incarnation)
		carry(p.a, p.b, mA.Node, mA.Incarnation)
		p.ring()
		p.b.sync()
		turn(func() error { p.b.rep.DurableMoved(); return p.b.rep.Flush() })
		turn(p.a.rep.Flush)
	}
	if got := p.b.rep.q.Stats().Messages; got != int(n) {
		t.Fatalf("the mirror holds %d of %d messages", got, n)
	}
	return most, turns
}

// A queue stands still for the longest turn of a synchronisation, which does not grow with the queue's depth, whether a mirror has
// nothing or nearly all; only the number of turns does.
func TestTurnsDoNotGrowWithDepth(t *testing.T) {
	const shallow, deep = 1_500, 6_000
	for what, had := range map[string]func(n uint64) *backingqueue.Memory{
		"a copy": func(uint64) *backingqueue.Memory { return nil },
		"delta":  func(n uint64) *backingqueue.Memory { return earlier(t, n-100) },
	} {
		few, fewTurns := longestTurn(t, shallow, had(shallow))
		many, manyTurns := longestTurn(t, deep, had(deep))
		t.Logf("%s: at most %d operations in one of %d turns at %d messages, %d in one of %d at %d", what, few, fewTurns, shallow, many, manyTurns, deep)
		if many > few*11/10 || many >= deep/2 {
			t.Errorf("%s: the longest turn takes %d operations at %d messages, %d at %d", what, few, shallow, many, deep)
		}
	}
}
