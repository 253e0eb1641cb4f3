package gm

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"
)

// deliveries records what each user of a ring got.
func deliveries(r *ring, persist bool) [][]string {
	got := make([][]string, len(r.groups))
	r.user = func(i int, o Output) {
		switch o.Kind {
		case Deliver:
			got[i] = append(got[i], fmt.Sprintf("%s:%d:%s", o.Sender.Node, o.Number, o.Payload))
		case SenderClosed:
			got[i] = append(got[i], fmt.Sprintf("closed %s:%d", o.Sender.Node, o.Number))
		case Progress:
			got[i] = append(got[i], fmt.Sprintf("progress %d/%d", o.Received, o.Persisted))
		case WindowOpen:
			got[i] = append(got[i], "open")
		}
		if persist {
			r.persistAll(i, o)
		}
	}
	return got
}

func want(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s got %q, want %q", what, got, want)
	}
}

// TestR1BroadcastWhileDelivering: a user that broadcasts while it is delivered to does not pass the message.
func TestR1BroadcastWhileDelivering(t *testing.T) {
	r := newRing(3, Config{})
	r.settle()
	got := make([][]string, 3)
	r.user = func(i int, o Output) {
		if o.Kind != Deliver {
			return
		}
		got[i] = append(got[i], string(o.Payload))
		if string(o.Payload) == "question" {
			if _, err := r.groups[i].Broadcast([]byte("answer"+r.members[i].Node), Control); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := r.groups[1].Broadcast([]byte("question"), Bulk); err != nil {
		t.Fatal(err)
	}
	r.settle()
	for i := range got {
		if len(got[i]) != 4 || got[i][0] != "question" {
			t.Errorf("member %d delivered %q", i, got[i])
		}
	}
}

// TestR2RepeatIsDroppedAndNotForwarded counts frames.
func TestR2RepeatIsDroppedAndNotForwarded(t *testing.T) {
	r := newRing(3, Config{})
	r.settle()
	if _, err := r.groups[0].Broadcast([]byte("x"), Bulk); err != nil {
		t.Fatal(err)
	}
	var frame []byte
	for _, o := range r.groups[0].Take(nil) {
		if o.Kind == Send {
			frame = o.Frame
		}
	}
	g := r.groups[1]
	for range 3 {
		if err := g.Receive(r.members[0], frame); err != nil {
			t.Fatal(err)
		}
	}
	sent, delivered := 0, 0
	for _, o := range g.Take(nil) {
		switch {
		case o.Kind == Send && frameType(o.Frame[1]) == frameData:
			sent++
			if &o.Frame[0] != &frame[0] {
				t.Error("the frame was copied though its view is the receiver's")
			}
		case o.Kind == Deliver:
			delivered++
		}
	}
	if st := g.Stats(); sent != 1 || delivered != 1 || st.Repeats != 2 {
		t.Errorf("%d forwarded, %d delivered, %d repeats", sent, delivered, st.Repeats)
	}
}

// TestR2GapResetsTheLink: never deliver past a gap; count it, and ask for a new link.
func TestR2GapResetsTheLink(t *testing.T) {
	r := newRing(2, Config{})
	r.settle()
	g := r.groups[1]
	frame, _ := encodeData(1, r.groups[0].me, 2, Bulk, []byte("second"))
	if err := g.Receive(r.members[0], frame); err != nil {
		t.Fatal(err)
	}
	outs := g.Take(nil)
	if len(outs) != 1 || outs[0].Kind != ResetLink || outs[0].To != r.members[0] || g.Stats().Defects.Gaps != 1 {
		t.Errorf("outputs %+v, defects %+v", outs, g.Stats().Defects)
	}
}

// TestR4Classes: Control is persisted when it is received, Bulk and Barrier when the user says so, and a Control behind them
// waits.
func TestR4Classes(t *testing.T) {
	r := newRing(2, Config{})
	r.settle()
	got := deliveries(r, false)
	for _, c := range []Class{Control, Bulk, Control, Barrier, Control} {
		if _, err := r.groups[0].Broadcast([]byte{'0' + byte(c)}, c); err != nil {
			t.Fatal(err)
		}
	}
	r.settle()
	for n := uint64(2); n <= 4; n += 2 {
		for i := range r.groups {
			r.groups[i].Persisted(r.members[0], n)
			r.groups[i].Persisted(r.members[0], n-1) // passed already: no effect
			r.settle()
		}
	}
	want(t, "sender", got[0], "n0:1:1", "n0:2:0", "n0:3:1", "n0:4:2", "n0:5:1", "progress 5/1", "progress 5/3", "progress 5/5")
}

// TestR4Alone: in a view of one member its own numbers are the numbers, without a frame, also when the view shrinks.
func TestR4Alone(t *testing.T) {
	r := newRing(1, Config{Window: 1})
	got := deliveries(r, true)
	for range 3 {
		if _, err := r.groups[0].Broadcast([]byte("x"), Bulk); err != nil {
			t.Fatal(err)
		}
	}
	r.settle()
	want(t, "the only member", got[0], "n0:1:x", "n0:2:x", "n0:3:x", "progress 3/0", "progress 3/3")

	r = newRing(3, Config{})
	r.settle()
	got = deliveries(r, true)
	if _, err := r.groups[0].Broadcast([]byte("x"), Bulk); err != nil {
		t.Fatal(err)
	}
	r.groups[0].Install(View{Version: 2, Members: r.members[:1]})
	g := r.groups[0]
	for _, o := range g.Take(nil) {
		r.user(0, o)
	}
	for _, o := range g.Take(nil) {
		r.user(0, o)
	}
	want(t, "the last member", got[0], "n0:1:x", "closed n1:0", "closed n2:0", "progress 1/0", "progress 1/1")
	if !g.Idle() || g.Stats().LogMessages != 0 {
		t.Errorf("not idle: %+v", g.Stats())
	}
}

// TestR5KeepAsideIsBounded: frames of views to come are kept up to the limit, then the link is reset.
func TestR5KeepAsideIsBounded(t *testing.T) {
	r := newRing(2, Config{KeepAside: 1000})
	r.settle()
	g := r.groups[1]
	frame := appendUint(appendUint(appendHead(nil, frameResume, 99), 1), 0)
	frame = appendArray(append(frame[:len(frame)-1], 0xc2, 0), 0)
	for range 30 {
		if err := g.Receive(r.members[0], frame); err != nil {
			t.Fatal(err)
		}
		if st := g.Stats(); st.AsideBytes > 1000 {
			t.Fatalf("%d bytes kept aside", st.AsideBytes)
		}
	}
	if st := g.Stats(); st.Defects.Overflow != 1 || st.AsideFrames != 0 || st.Predecessor.Up {
		t.Errorf("after the overflow: %+v", st)
	}
}

// TestR6Expelled: a member that a view lacks stops, says so, and delivers nothing more.
func TestR6Expelled(t *testing.T) {
	r := newRing(2, Config{})
	r.settle()
	g := r.groups[1]
	g.Install(View{Version: 2, Members: r.members[:1]})
	outs := g.Take(nil)
	if len(outs) != 1 || outs[0].Kind != Expelled || !g.Expelled() {
		t.Errorf("outputs %+v", outs)
	}
	frame, _ := encodeData(1, r.groups[0].me, 1, Bulk, []byte("late"))
	if err := g.Receive(r.members[0], frame); err != nil || len(g.Take(nil)) != 0 {
		t.Errorf("an expelled member goes on: %v", err)
	}
	if _, err := g.Broadcast(nil, Control); !errors.Is(err, ErrExpelled) {
		t.Errorf("broadcast: %v", err)
	}
}

// TestR10Window: bulk is refused while the window is full, control is not, and WindowOpen tells when to try again.
func TestR10Window(t *testing.T) {
	r := newRing(3, Config{Window: 300, MaxMessage: 1000})
	g := r.groups[0]
	if _, err := g.Broadcast(nil, Bulk); !errors.Is(err, ErrWindowFull) {
		t.Errorf("bulk before the link is started: %v", err)
	}
	if _, err := r.groups[1].Broadcast(nil, Control); !errors.Is(err, ErrNotJoined) {
		t.Errorf("a fresh member broadcasts: %v", err)
	}
	r.settle()
	if _, err := g.Broadcast(make([]byte, 1001), Bulk); !errors.Is(err, ErrTooLarge) {
		t.Errorf("too large: %v", err)
	}
	got := deliveries(r, true)
	var err error
	n := 0
	for ; err == nil && n < 100; n++ {
		_, err = g.Broadcast(make([]byte, 36), Bulk)
	}
	if !errors.Is(err, ErrWindowFull) || n != 4 {
		t.Errorf("after %d: %v", n, err)
	}
	if _, err := g.Broadcast(nil, Control); err != nil {
		t.Errorf("control in a full window: %v", err)
	}
	r.settle()
	if !slices.Contains(got[0], "open") {
		t.Errorf("no WindowOpen in %q", got[0])
	}
	for i, m := range r.groups {
		if !m.Idle() {
			t.Errorf("member %d is not idle: %+v", i, m.Stats())
		}
	}
}

// TestR10SlowMember: one member that does not persist stops the sender in the end, within its window, and no frame is lost.
func TestR10SlowMember(t *testing.T) {
	r := newRing(3, Config{Window: 1000})
	r.settle()
	g := r.groups[0]
	taken := 0
	r.user = func(i int, o Output) {
		if i != 1 {
			r.persistAll(i, o)
		} else if o.Kind == Deliver {
			taken++
		}
	}
	sent := 0
	for idle := 0; idle < 3; {
		if _, err := g.Broadcast(make([]byte, 36), Bulk); err != nil {
			idle++
		} else {
			sent++
			idle = 0
		}
		r.settle()
	}
	if st := r.groups[1].Stats(); st.Held > 1100 || sent > 25 {
		t.Errorf("%d sent, the slow member holds %d bytes", sent, st.Held)
	}
	r.groups[1].Persisted(r.members[0], uint64(taken))
	r.settle()
	r.groups[1].Persisted(r.members[0], uint64(taken))
	r.settle()
	if taken != sent || !g.Idle() {
		t.Errorf("%d of %d arrived, sender %+v", taken, sent, g.Stats())
	}
}

// TestR11Fragments: a large body arrives whole, in pieces of the limit, without a copy on its way through a member.
func TestR11Fragments(t *testing.T) {
	r := newRing(4, Config{})
	r.settle()
	body := bytes.Repeat([]byte("0123456789abcdef"), 20_000) // 320,000 bytes: three fragments
	got := 0
	r.user = func(i int, o Output) {
		if o.Kind == Deliver && bytes.Equal(o.Payload, body) {
			got++
		}
		r.persistAll(i, o)
	}
	if _, err := r.groups[2].Broadcast(body, Bulk); err != nil {
		t.Fatal(err)
	}
	before := r.frames
	r.turn(2)
	if r.frames-before != 3 {
		t.Errorf("%d frames for %d bytes", r.frames-before, len(body))
	}
	r.settle()
	if got != 4 {
		t.Errorf("%d of 4 members got the body", got)
	}
}

// TestI8IdleCostsNothing: a group at rest sends no frame, and gives its buffers back.
func TestI8IdleCostsNothing(t *testing.T) {
	r := newRing(3, Config{})
	r.settle()
	r.user = r.persistAll
	for range 1000 {
		if _, err := r.groups[0].Broadcast(make([]byte, 100), Bulk); err != nil {
			t.Fatal(err)
		}
	}
	r.settle()
	frames := r.frames
	for i, g := range r.groups {
		if outs := g.Take(nil); len(outs) > 0 || !g.Idle() {
			t.Errorf("member %d: %d outputs, %+v", i, len(outs), g.Stats())
		}
		if g.Cool(); g.Burst() {
			t.Errorf("member %d keeps %d entries, %d and %d outputs", i, g.log.nfree, cap(g.outputs), cap(g.spare))
		}
	}
	if r.frames != frames {
		t.Errorf("%d frames at rest", r.frames-frames)
	}
}

// TestSenderBytes: what the sender of bulk sends does not grow with the ring: its body once and a few bytes.
func TestSenderBytes(t *testing.T) {
	for _, n := range []int{2, 3, 5, 7} {
		r := newRing(n, Config{})
		r.settle()
		r.user = r.persistAll
		before := r.bytes[0]
		const messages, size = 200, 1000
		for range messages {
			if _, err := r.groups[0].Broadcast(make([]byte, size), Bulk); err != nil {
				t.Fatal(err)
			}
			r.settle()
		}
		if per := (r.bytes[0] - before) / messages; per > size+64 {
			t.Errorf("ring of %d: the sender sends %d bytes per message of %d", n, per, size)
		}
	}
}

// TestForwardingAllocates nothing for a message that passes through, besides what coalesces per Take.
func TestForwardingAllocates(t *testing.T) {
	allocs, _ := forwarding(t, 64, 1000)
	if allocs > 0.15 {
		t.Errorf("%.3f allocations per forwarded message", allocs)
	}
}

// TestR3ReceiptGoesWithPersistence: while a message is not durable, its receipt costs no frame of its own; once the message is
// durable one frame tells both, and receipt alone where nothing waits for the disk.
func TestR3ReceiptGoesWithPersistence(t *testing.T) {
	r := newRing(3, Config{})
	r.settle()
	got := deliveries(r, false)
	send := func(c Class) int {
		t.Helper()
		before := r.frames
		if _, err := r.groups[0].Broadcast([]byte{'m'}, c); err != nil {
			t.Fatal(err)
		}
		r.settle()
		return r.frames - before
	}
	send(Control)
	if n := send(Control); n != 2+2+2 { // two hops of the message, of Progress, and of Stable
		t.Errorf("%d frames for a message that needs no disk", n)
	}
	if n := send(Bulk); n != 2 {
		t.Errorf("%d frames for a message that is not durable yet", n)
	}
	before := r.frames
	for i := range r.groups {
		r.groups[i].Persisted(r.members[0], 3)
		r.settle()
	}
	if n := r.frames - before; n != 2+2 {
		t.Errorf("%d frames once it is durable", n)
	}
	want(t, "sender", got[0], "n0:1:m", "progress 1/1", "n0:2:m", "progress 2/2", "n0:3:m", "progress 3/3")
}

// TestR3AwaitedReceipt: what the sender waits for by itself is told received at once though nothing before it is durable, and
// costs one frame more per hop; what comes after it waits again.
func TestR3AwaitedReceipt(t *testing.T) {
	r := newRing(3, Config{})
	r.settle()
	got := deliveries(r, false)
	record := r.user
	r.user = func(i int, o Output) {
		if o.Kind == Deliver && string(o.Payload) == "end" {
			r.groups[i].Awaited(o.Sender, o.Number)
		}
		record(i, o)
	}
	send := func(payload string, c Class, frames int) {
		t.Helper()
		before := r.frames
		if _, err := r.groups[0].Broadcast([]byte(payload), c); err != nil {
			t.Fatal(err)
		}
		if r.settle(); r.frames-before != frames {
			t.Errorf("%s: %d frames, want %d", payload, r.frames-before, frames)
		}
	}
	send("m", Control, 2+2+2) // two hops of the message, of Progress, and of Stable
	send("b", Bulk, 2)
	send("c", Control, 2)
	send("end", Control, 2+2+2)
	send("d", Control, 2)
	want(t, "sender", got[0], "n0:1:m", "progress 1/1", "n0:2:b", "n0:3:c", "n0:4:end", "progress 4/1", "n0:5:d")
}

// TestLazyMessages: only a frame that carries nothing but what nobody waits for may wait.
func TestLazyMessages(t *testing.T) {
	g := newRing(2, Config{})
	g.settle()
	for _, c := range []struct{ messages, frames string }{
		{"l", "lazy"}, {"ll", "lazy"}, {"p", "prompt"}, {"lp", "prompt"}, {"pl", "prompt"},
	} {
		for _, m := range c.messages {
			n, err := g.groups[0].Broadcast([]byte{'m'}, Control)
			if err != nil {
				t.Fatal(err)
			}
			if m == 'l' {
				g.groups[0].Lazy(n)
			}
		}
		got := ""
		for _, o := range g.groups[0].Take(nil) {
			if o.Kind == Send && o.Lazy {
				got += "lazy"
			} else if o.Kind == Send {
				got += "prompt"
			}
		}
		if got != c.frames {
			t.Errorf("%s: %s, want %s", c.messages, got, c.frames)
		}
	}
}
