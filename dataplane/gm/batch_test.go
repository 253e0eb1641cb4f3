package gm

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
)

// sends takes a member's outputs and returns its frames and what they carry, Progress and Stable left out.
func sends(g *Group) (frames [][]byte, means []string) {
	for _, o := range g.Take(nil) {
		if o.Kind == Send && frameType(o.Frame[1]) != frameProgress && frameType(o.Frame[1]) != frameStable {
			frames = append(frames, o.Whole())
			means = append(means, Describe(o.Whole()))
		}
	}
	return frames, means
}

func broadcastMany(t *testing.T, g *Group, n, size int) {
	t.Helper()
	for i := range n {
		if _, err := g.Broadcast(bytes.Repeat([]byte{byte(i)}, size), Class(i%3)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestBatchGoesOnAsItCame: what is broadcast between two Takes shares a frame, which every hop passes on byte for byte.
func TestBatchGoesOnAsItCame(t *testing.T) {
	r := newRing(4, Config{})
	r.settle()
	broadcastMany(t, r.groups[0], 10, 10)
	if early := r.groups[0].Ready(); len(early) != 10 || early[0].Kind != Deliver {
		t.Fatalf("Ready shows %d outputs, want ten deliveries and no frame yet", len(early))
	}
	frames, means := sends(r.groups[0])
	want(t, "the wire", means, "batch v1 #0:1+10")
	for hop := 1; hop < 3; hop++ {
		if err := r.groups[hop].Receive(r.members[hop-1], frames[0]); err != nil {
			t.Fatal(err)
		}
		if n := len(r.groups[hop].Ready()); n != 10 {
			t.Errorf("hop %d delivers %d of 10", hop, n)
		}
		on, _ := sends(r.groups[hop])
		if len(on) != 1 || &on[0][0] != &frames[0][0] {
			t.Errorf("hop %d encodes anew", hop)
		}
	}
	broadcastMany(t, r.groups[0], 1, 10)
	_, means = sends(r.groups[0])
	want(t, "a single message", means, "data v1 #0:11 class 0")
}

// TestBatchBounds: bytes, messages, fragments and SenderClosed bound what shares a frame.
func TestBatchBounds(t *testing.T) {
	for _, c := range []struct {
		n, size int
		want    string
	}{
		{70, 1 << 10, "[batch v1 #0:1+64 batch v1 #0:65+6]"},
		{1030, 0, "[batch v1 #0:1+1024 batch v1 #0:1025+6]"},
		{2, batchBytes, "[data v1 #0:1 class 0 data v1 #0:2 class 1]"},
		{2, batchBytes + 1, "[data v1 #0:1 class 0 data v1 #0:2 class 1]"},
		{3, batchBytes / 2, "[batch v1 #0:1+2 data v1 #0:3 class 2]"},
	} {
		r := newRing(2, Config{})
		r.settle()
		broadcastMany(t, r.groups[0], c.n, c.size)
		if _, means := sends(r.groups[0]); fmt.Sprint(means) != c.want {
			t.Errorf("%d of %d bytes: %v, want %s", c.n, c.size, means, c.want)
		}
	}
}

// TestLargeBodiesAreNotCopied: a frame refers to a large body where it stands, alone, in a batch and in fragments, and is read as one
// that was copied together.
func TestLargeBodiesAreNotCopied(t *testing.T) {
	r := newRing(2, Config{Fragment: 4 * inPlace})
	r.settle()
	a := r.groups[0]
	var bodies [][]byte
	for i, sizes := range [][]int{{inPlace}, {inPlace, 1, 2, inPlace, inPlace}, {1, inPlace, 3}, {9 * inPlace}} {
		for _, size := range sizes {
			body := bytes.Repeat([]byte{byte(len(bodies))}, size)
			if _, err := a.Broadcast(body, Bulk); err != nil {
				t.Fatal(err)
			}
			bodies = append(bodies, body)
		}
		var whole, copied int
		for _, o := range a.Take(nil) {
			if o.Kind != Send {
				continue
			}
			for _, p := range append([][]byte{o.Frame}, o.Rest...) {
				if len(p) >= inPlace && !slices.ContainsFunc(bodies, func(b []byte) bool { return within(p, b) }) {
					copied++
				}
			}
			whole++
			if err := r.groups[1].Receive(r.members[0], o.Whole()); err != nil {
				t.Fatal(err)
			}
		}
		if whole == 0 || copied > 0 {
			t.Errorf("run %d: %d frames, %d large bodies copied", i, whole, copied)
		}
	}
	var got [][]byte
	for _, o := range r.groups[1].Take(nil) {
		if o.Kind == Deliver {
			got = append(got, o.Payload)
		}
	}
	if !slices.EqualFunc(got, bodies, bytes.Equal) {
		t.Errorf("%d of %d bodies arrived as they were", len(got), len(bodies))
	}
}

// within tells whether part is memory of whole.
func within(part, whole []byte) bool {
	for i := range whole {
		if &whole[i] == &part[0] {
			return true
		}
	}
	return false
}

// TestR10BatchCredit: of a batch goes on what credit lets go, message by message, and the rest when there is more.
func TestR10BatchCredit(t *testing.T) {
	r := newRing(3, Config{})
	r.settle()
	for range 10 {
		if _, err := r.groups[0].Broadcast(make([]byte, 10), Bulk); err != nil {
			t.Fatal(err)
		}
	}
	frames, _ := sends(r.groups[0])
	g := r.groups[1]
	g.out.credit = 4*(10+MessageOverhead) + 1 // four, and the one that may exceed it
	if err := g.Receive(r.members[0], frames[0]); err != nil {
		t.Fatal(err)
	}
	_, means := sends(g)
	want(t, "the wire without credit", means, "batch v1 #0:1+5")
	g.out.credit = 1
	_, means = sends(g)
	want(t, "the wire with a byte of credit", means, "data v1 #0:6 class 0")
	g.out.credit = 1 << 20
	_, means = sends(g)
	want(t, "the wire with credit", means, "batch v1 #0:7+4")
}

// TestR2BatchRepeats: of a batch that is known in part, the rest counts and goes on, the repeats do not; one behind a gap resets
// the link.
func TestR2BatchRepeats(t *testing.T) {
	r := newRing(3, Config{})
	r.settle()
	a, g := r.groups[0], r.groups[1]
	broadcastMany(t, a, 3, 10)
	three, _ := sends(a)
	broadcastMany(t, a, 2, 10)
	two, _ := sends(a)
	all, _ := encodeBatch(1, a.log.head, 5)
	for _, f := range [][]byte{three[0], all} {
		if err := g.Receive(r.members[0], f); err != nil {
			t.Fatal(err)
		}
	}
	_, means := sends(g)
	want(t, "the wire", means, "batch v1 #0:1+3", "batch v1 #0:4+2")
	if st := g.Stats(); st.Repeats != 3 || g.Received(r.members[0]) != 5 {
		t.Errorf("%+v", st)
	}
	last := r.groups[2]
	if err := last.Receive(r.members[1], two[0]); err != nil {
		t.Fatal(err)
	}
	if st := last.Stats(); st.Defects.Gaps != 1 || last.Received(r.members[0]) != 0 {
		t.Errorf("a batch behind a gap: %+v", st)
	}
}

// TestR5BatchOfAnOlderView: a batch is passed on under a new view in a frame of that view.
func TestR5BatchOfAnOlderView(t *testing.T) {
	r := newRing(3, Config{})
	r.settle()
	broadcastMany(t, r.groups[0], 4, 10)
	frames, _ := sends(r.groups[0])
	g := r.groups[1]
	g.Install(View{Version: 2, Members: r.members})
	g.Take(nil)
	if err := g.Receive(r.members[0], frames[0]); err != nil {
		t.Fatal(err)
	}
	_, means := sends(g)
	want(t, "the wire", means, "batch v2 #0:1+4")
}
