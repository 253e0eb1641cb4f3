package driver

import (
	"testing"
	"testing/synctest"
	"time"

	"warren/dataplane/gm"
)

// A frame that nobody waits for leaves with the next one, in order, and alone after a while; an idle host has no timer.
func TestLazyFramesWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, f := fakeHost(t, 1<<20, Config{})
		a := h.NewActor(&plain{})
		self, peer := gm.Member{Node: "a", Incarnation: 1, JoinIndex: 1}, gm.Member{Node: "b", Incarnation: 1, JoinIndex: 1}
		var m *Member
		do := func(f func()) {
			t.Helper()
			if err := a.Do(t.Context(), f); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		sent := func() (n int) { // asked where frames are written
			t.Helper()
			do(func() { n = len(f.frames) })
			return n
		}
		send := func(lazy ...bool) int {
			t.Helper()
			before := sent()
			do(func() {
				for _, l := range lazy {
					m.send(&gm.Output{To: peer, Frame: []byte{1}, Lazy: l})
				}
			})
			return sent() - before
		}
		do(func() {
			m, _ = h.Join(a, 1, gm.Config{Self: self})
			_ = m.Install(gm.View{Version: 1, Members: []gm.Member{self, peer}})
		})
		for _, c := range []struct {
			lazy []bool
			sent int
		}{
			{[]bool{true}, 0}, {[]bool{true, true}, 0}, {[]bool{false}, 4}, {[]bool{false, true}, 2}, {[]bool{true}, 0},
		} {
			if n := send(c.lazy...); n != c.sent {
				t.Errorf("%v: %d frames sent, want %d", c.lazy, n, c.sent)
			}
		}
		before := sent()
		time.Sleep(lateness - time.Nanosecond)
		if n := sent(); n != before {
			t.Errorf("%d frames sent early", n-before)
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if n := sent(); n != before+1 {
			t.Errorf("%d frames sent after %v", n-before, lateness)
		}
		send(true)
		a.Close()
	})
}
