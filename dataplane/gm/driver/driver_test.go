package driver

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"warren/dataplane/gm"
	"warren/dataplane/link"
)

func waitJoined(t testing.TB, users []*user) {
	t.Helper()
	for _, u := range users {
		u.joined.wait(t, "join of "+u.self.Node, 1)
	}
}

func TestBroadcastsReachAll(t *testing.T) {
	c := newCluster(t, 3, Config{}, nil)
	users := c.join(t, 7, 0, 1, 2)
	waitJoined(t, users)
	const n = 300
	for i := range n {
		for _, u := range users {
			u.post(fmt.Appendf(nil, "%d", i))
		}
	}
	for _, u := range users {
		u.delivered.wait(t, "deliveries at "+u.self.Node, 3*n)
		u.persisted.wait(t, "persisted at "+u.self.Node, n)
		for s := range users {
			got := u.of(s)
			if len(got) != n || got[0] != "0" || got[n-1] != fmt.Sprint(n-1) {
				t.Errorf("%s has %d messages of %s", u.self.Node, len(got), nodeName(s))
			}
		}
	}
}

// A large message goes in fragments and arrives whole (R11).
func TestLargeMessage(t *testing.T) {
	c := newCluster(t, 3, Config{}, nil)
	users := c.join(t, 7, 0, 1, 2)
	waitJoined(t, users)
	body := strings.Repeat("0123456789", 100_000)
	users[0].post([]byte(body))
	for _, u := range users {
		u.delivered.wait(t, "delivery", 1)
		if got := u.of(0); got[0] != body {
			t.Errorf("%s got another message of %d bytes", u.self.Node, len(got[0]))
		}
	}
	users[0].persisted.wait(t, "persisted", 1)
}

func TestLinkCutResumesWithoutLoss(t *testing.T) {
	c := newCluster(t, 3, Config{}, nil)
	users := c.join(t, 7, 0, 1, 2)
	waitJoined(t, users)
	const n = 600
	ups := c.ups.get()
	for i := range n {
		for _, u := range users {
			u.post(fmt.Appendf(nil, "%d", i))
		}
		if i%100 == 50 {
			c.nodes[i/100%3].links.Reset(nodeName((i/100 + 1) % 3))
		}
	}
	for _, u := range users {
		u.delivered.wait(t, "deliveries", 3*n)
		u.persisted.wait(t, "persisted", n)
	}
	if c.ups.get() == ups {
		t.Error("no link was cut: the test shows nothing")
	}
	for _, u := range users {
		if u.delivered.get() != 3*n {
			t.Errorf("%s: %d deliveries", u.self.Node, u.delivered.get())
		}
	}
}

// A mirror that stops persisting fills its own group's window and holds up no other group on the same links.
func TestStuckGroupHoldsUpNoOther(t *testing.T) {
	c := newCluster(t, 3, Config{}, nil)
	stuck, free := c.join(t, 1, 0, 1, 2), c.join(t, 2, 0, 1, 2)
	waitJoined(t, stuck)
	waitJoined(t, free)
	stuck[1].post(evHold(true))
	block := make(chan struct{})
	stuck[2].post(evBlock(block)) // and another one hangs altogether
	body := make([]byte, 64<<10)
	for range 400 { // 25 MiB, several windows
		stuck[0].post(body)
	}
	const n = 2000
	for i := range n {
		free[0].post(fmt.Appendf(nil, "%d", i))
	}
	for _, u := range free {
		u.delivered.wait(t, "deliveries of the free group", n)
	}
	free[0].persisted.wait(t, "stability of the free group", n)
	if got := stuck[0].persisted.get(); got != 0 {
		t.Errorf("%d messages of the stuck group count as persisted", got)
	}
	close(block)
	stuck[1].post(evHold(false))
	stuck[0].persisted.wait(t, "the stuck group after its release", 400)
}

func TestDeadMember(t *testing.T) {
	c := newCluster(t, 3, Config{}, nil)
	users := c.join(t, 7, 0, 1, 2)
	waitJoined(t, users)
	for i := range 100 {
		users[2].post(fmt.Appendf(nil, "%d", i))
	}
	users[2].persisted.wait(t, "persisted", 100)
	if err := c.nodes[2].links.Close(); err != nil {
		t.Fatal(err)
	}
	for _, u := range users[:2] {
		u.post(view(11, member(0), member(1)))
	}
	for _, u := range users[:2] {
		u.closed.wait(t, "the dead sender's end at "+u.self.Node, 1)
	}
	users[1].post([]byte("after"))
	users[1].persisted.wait(t, "persisted by two", 1)
	if a, b := users[0].of(2), users[1].of(2); !slices.Equal(a, b) || len(a) != 100 {
		t.Errorf("survivors hold %d and %d messages of the dead", len(a), len(b))
	}
}

// One node learns late that it is in the group: what its neighbours sent meanwhile is kept, and nothing hangs; also if it
// could not be kept.
func TestFramesBeforeTheGroupIsHosted(t *testing.T) {
	for name, cfg := range map[string]Config{"kept": {}, "dropped": {AsideFrames: 1, AsideBytes: 1}} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, 3, cfg, nil)
			early := c.join(t, 7, 0, 1)
			waitJoined(t, early)
			joiner := gm.Member{Node: "c", Incarnation: 3, JoinIndex: 11}
			v := view(11, member(0), member(1), joiner)
			for _, u := range early {
				u.post(v)
			}
			early[0].post([]byte("x"))
			early[1].delivered.wait(t, "a delivery in the old ring's place", 1)
			waitAside(t, c.nodes[2], name == "kept")
			late := c.nodes[2].newUser(t)
			late.self = joiner
			late.post(evJoin{7})
			late.post(v)
			late.joined.wait(t, "the late member", 1)
			early[0].persisted.wait(t, "stability with the late member", 1)
			if s := c.nodes[2].Stats(); s.AsideFrames != 0 || s.AsideBytes != 0 {
				t.Errorf("left aside: %v", s)
			}
		})
	}
}

// waitAside waits until the node has seen a frame of a group that it does not host.
func waitAside(t *testing.T, n *node, kept bool) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for {
		n.Host.mu.Lock()
		ok := n.aside.count > 0
		for _, l := range n.nodes {
			ok = ok || !kept && l.evicted
		}
		n.Host.mu.Unlock()
		if ok {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("no frame arrived early: the test shows nothing")
		}
		runtime.Gosched()
	}
}

// A handler that hangs while frames pour in: its mailbox fills, its group's link starts afresh, nothing is lost.
func TestFullMailboxResumes(t *testing.T) {
	c := newCluster(t, 3, Config{MailboxBytes: 100 << 10}, nil)
	users := c.join(t, 7, 0, 1, 2)
	other := c.join(t, 8, 0, 1, 2)
	waitJoined(t, users)
	waitJoined(t, other)
	block := make(chan struct{})
	users[1].post(evBlock(block))
	body := make([]byte, 10<<10)
	for range 200 {
		users[0].post(body)
	}
	deadline := time.Now().Add(10 * time.Second)
	for c.nodes[1].Stats().Overflows == 0 {
		if time.Now().After(deadline) {
			t.Fatal("the mailbox did not fill")
		}
		runtime.Gosched()
	}
	other[0].post([]byte("x"))
	other[0].persisted.wait(t, "the other group", 1)
	close(block)
	users[0].persisted.wait(t, "all messages", 200)
	users[1].delivered.wait(t, "all messages", 200)
	if s := c.nodes[1].Stats(); s.Overflows == 0 {
		t.Error("the mailbox did not fill: the test shows nothing")
	}
}

// A malformed frame closes the link; the ring resumes.
func TestMalformedRingFrame(t *testing.T) {
	c := newCluster(t, 3, Config{}, nil)
	users := c.join(t, 7, 0, 1, 2)
	waitJoined(t, users)
	for _, body := range [][]byte{{7, 0xc1, 0xff}, {0x80}} {
		ups := c.ups.get()
		if err := c.nodes[0].links.Send("b", KindRing, body); err != nil {
			t.Fatal(err)
		}
		c.ups.wait(t, "the new link, seen from both ends", ups+2)
	}
	users[0].post([]byte("x"))
	users[0].persisted.wait(t, "the message", 1)
}

func TestLeaveAndJoinAgain(t *testing.T) {
	c := newCluster(t, 2, Config{}, nil)
	users := c.join(t, 7, 0, 1)
	waitJoined(t, users)
	err := users[1].actor.Do(t.Context(), func() {
		if _, err := c.nodes[1].Join(users[1].actor, 7, gm.Config{Self: member(1)}); err == nil {
			t.Error("joined twice")
		}
		users[1].m.Leave()
		users[1].m.Leave()
		if err := users[1].m.Install(view(99)); err == nil {
			t.Error("installed a view after Leave")
		}
		users[1].self.JoinIndex = 12
		users[1].seen = map[gm.Member]uint64{}
	})
	if err != nil {
		t.Fatal(err)
	}
	users[0].post(view(11, member(0)))
	again := view(12, member(0), users[1].self)
	users[0].post(again)
	users[1].post(evJoin{7})
	users[1].post(again)
	users[1].joined.wait(t, "the second membership", 2)
	users[0].post([]byte("x"))
	users[1].delivered.wait(t, "a message", 1)
	users[0].persisted.wait(t, "a message", 1)
}

// 10,000 groups at rest: no goroutine more than with none, and not a byte on the wire (I8; keepalives are switched off).
func TestIdleGroupsCostNothing(t *testing.T) {
	const groups = 10_000
	c := newCluster(t, 3, Config{}, func(lc *link.Config) {
		lc.Keepalive, lc.Timeout = time.Hour, 2*time.Hour
	})
	before := runtime.NumGoroutine() + 6 // a link is told up before its writer starts
	var all []*user
	for g := range groups {
		all = append(all, c.join(t, uint64(g+1), 0, 1, 2)...)
	}
	waitJoined(t, all)
	// At rest: nobody runs, and nothing moves for a while.
	calm := time.NewTicker(50 * time.Millisecond)
	defer calm.Stop()
	last, quiet := uint64(0), 0
	for range 200 {
		<-calm.C
		var n uint64
		for _, nd := range c.nodes {
			sent, _ := nd.links.Traffic()
			n += sent
		}
		if n != last || runtime.NumGoroutine() > before {
			last, quiet = n, 0
			continue
		}
		if quiet++; quiet == 6 {
			break
		}
	}
	if quiet < 6 {
		t.Fatalf("never at rest: %d bytes, %d goroutines (%d before)", last, runtime.NumGoroutine(), before)
	}
	for _, u := range all[:30] {
		if err := u.actor.Do(t.Context(), func() {
			if !u.m.Group().Idle() {
				t.Errorf("group %d at %s is not idle: %+v", u.m.ID(), u.self.Node, u.m.Group().Stats())
			}
		}); err != nil {
			t.Fatal(err)
		}
	}
}
