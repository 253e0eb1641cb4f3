package driver

import (
	"runtime"
	"testing"
	"time"

	"warren/dataplane/gm"
)

// TestRejoinUnderTheSameIncarnation: a node leaves a group and comes back while its own metadata lags. Its neighbour has
// installed both views and has sent its one Resume, which the old member keeps aside for a view that it will never have. The
// new member must get another one.
func TestRejoinUnderTheSameIncarnation(t *testing.T) {
	c := newCluster(t, 2, Config{}, nil)
	users := c.join(t, 7, 0, 1)
	waitJoined(t, users)
	back := member(1)
	back.JoinIndex = 12
	without, with := view(11, member(0)), view(12, member(0), back)
	users[0].post(without)
	users[0].post(with)
	deadline := time.Now().Add(10 * time.Second)
	for kept := 0; kept == 0; runtime.Gosched() {
		if err := users[1].actor.Do(t.Context(), func() { kept = users[1].m.Group().Stats().AsideFrames }); err != nil {
			t.Fatal(err)
		}
		if time.Now().After(deadline) {
			t.Fatal("the neighbour's Resume did not arrive: the test shows nothing")
		}
	}
	users[1].post(without)
	err := users[1].actor.Do(t.Context(), func() {
		users[1].m.Leave()
		users[1].self, users[1].seen = back, map[gm.Member]uint64{}
	})
	if err != nil {
		t.Fatal(err)
	}
	users[1].post(evJoin{7})
	users[1].post(with)
	users[1].joined.wait(t, "the second membership", 2)
	users[0].post([]byte("there"))
	users[0].persisted.wait(t, "a message to the new member", 1)
	users[1].post([]byte("and back"))
	users[1].persisted.wait(t, "a message of the new member", 1)
}
