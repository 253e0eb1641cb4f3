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
		do := func(lazy ...bool) int {
			t.Helper()
			before := len(f.frames)
			if err := a.Do(t.Context(), func() {
				for _, l := range lazy {
					m.send(&gm.Output{To: peer, Frame: []byte{1}, Lazy: l})
				}
			}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			return len(f.frames) - before
		}
		if err := a.Do(t.Context(), func() {
			m, _ = h.Join(a, 1, gm.Config{Self: self})
			_ = m.Install(gm.View{Version: 1, Members: []gm.Member{self, peer}})
		}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		for _, c := range []struct {
			lazy []bool
			sent int
		}{
			{[]bool{true}, 0}, {[]bool{true, true}, 0}, {[]bool{false}, 4}, {[]bool{false, true}, 2}, {[]bool{true}, 0},
		} {
			if n := do(c.lazy...); n != c.sent {
				t.Errorf("%v: %d frames sent, want %d", c.lazy, n, c.sent)
			}
		}
		start, before := time.Now(), len(f.frames)
		for len(f.frames) == before && time.Since(start) < time.Second {
			time.Sleep(time.Millisecond)
			synctest.Wait()
		}
		if d := time.Since(start); d > lateness || len(f.frames) != before+1 {
			t.Errorf("%d frames after %v", len(f.frames)-before, d)
		}
		do(true)
		a.Close()
	})
}
