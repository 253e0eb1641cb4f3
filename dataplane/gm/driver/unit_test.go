package driver

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"

	"warren/dataplane/gm"
	"warren/dataplane/link"
)

// fakeLinks records what is queued; its backlog is what the test says.
type fakeLinks struct {
	backlog int
	soft    int
	frames  []string // "group:kind", one per frame
	resets  int
}

func (f *fakeLinks) Node() string                                          { return "a" }
func (f *fakeLinks) HandleFrame(link.FrameKind, func(link.PeerID, []byte)) {}
func (f *fakeLinks) Watch(link.Watcher)                                    {}
func (f *fakeLinks) Flush(link.PeerID)                                     {}
func (f *fakeLinks) SoftLimit() int                                        { return f.soft }
func (f *fakeLinks) Reset(string)                                          { f.resets++ }
func (f *fakeLinks) Backlog(string) int                                    { return f.backlog }

func (f *fakeLinks) Queue(_ link.PeerID, _ link.FrameKind, parts ...[]byte) error {
	for _, p := range parts {
		f.backlog += len(p)
	}
	f.frames = append(f.frames, string('0'+parts[0][0]))
	return nil
}

var peerB = link.PeerID{Node: "b", Incarnation: 1, Session: 1}

func fakeHost(t *testing.T, soft int, cfg Config) (*Host, *fakeLinks) {
	t.Helper()
	f := &fakeLinks{soft: soft}
	cfg.Log = slog.New(slog.DiscardHandler)
	h := NewHost(f, cfg)
	t.Cleanup(h.Close)
	h.LinkUp(peerB)
	return h, f
}

// Over the soft limit the groups take turns: one frame of a quiet group does not wait for all of a busy one.
func TestGroupsTakeTurns(t *testing.T) {
	h, f := fakeHost(t, 100<<10, Config{})
	out := &h.nodes["b"].out
	frames := func(n int) (list []outFrame) {
		for range n {
			list = append(list, outFrame{kind: KindRing, frame: make([]byte, 10<<10)})
		}
		return list
	}
	out.submit(&Member{id: 1, head: []byte{1}}, peerB, frames(100))
	if n := len(f.frames); n < 10 || n > 11 {
		t.Fatalf("%d frames passed below a soft limit of ten", n)
	}
	f.backlog, f.frames = 0, nil // drained, but LinkDrained is still under way: nobody overtakes what waits
	out.submit(&Member{id: 1, head: []byte{1}}, peerB, frames(1))
	if len(f.frames) != 0 {
		t.Fatal("a frame overtook those of its group that wait")
	}
	out.submit(&Member{id: 2, head: []byte{2}}, peerB, frames(1))
	out.submit(&Member{id: 3, head: []byte{3}}, peerB, frames(2))
	f.backlog, f.frames = 0, nil
	h.LinkDrained(peerB)
	if !slices.Contains(f.frames, "2") || !slices.Contains(f.frames, "3") || len(f.frames) > 12 {
		t.Errorf("after one drain: %v", f.frames)
	}
	total := len(f.frames)
	for range 20 {
		f.backlog, f.frames = 0, nil
		h.LinkDrained(peerB)
		total += len(f.frames)
	}
	if total != 93 && total != 94 || out.waiting != 0 || len(out.flows) != 0 {
		t.Errorf("%d frames left in all, %d bytes and %d flows wait", total, out.waiting, len(out.flows))
	}
	f.frames = nil
	out.submit(&Member{id: 1, head: []byte{1}}, link.PeerID{Node: "b", Incarnation: 1, Session: 9}, frames(1))
	if len(f.frames) != 0 {
		t.Error("a frame for another link went out")
	}
}

func TestWaitingBytesAreBounded(t *testing.T) {
	h, f := fakeHost(t, 10, Config{WaitingBytes: 1000})
	for range 11 {
		h.nodes["b"].out.submit(&Member{id: 1, head: []byte{1}}, peerB, []outFrame{{kind: KindRing, frame: make([]byte, 100)}})
	}
	if f.resets != 0 {
		t.Fatal("reset below the limit")
	}
	h.nodes["b"].out.submit(&Member{id: 1, head: []byte{1}}, peerB, []outFrame{{kind: KindRing, frame: make([]byte, 100)}})
	if f.resets != 1 {
		t.Errorf("%d resets over the limit", f.resets)
	}
	h.LinkDown(peerB, link.Cause{})
	if h.nodes["b"].out.waiting != 0 {
		t.Error("what waited outlived its link")
	}
}

func TestAsideIsBoundedAndEndsWithItsLink(t *testing.T) {
	h, _ := fakeHost(t, 100, Config{AsideFrames: 100, AsideBytes: 1000})
	for g := range uint64(120) {
		for range 3 {
			h.ringFrame(peerB, []byte{byte(g), 1, 2, 3, 4, 5, 6, 7, 8, 9, 10})
		}
		if s := h.Stats(); s.AsideFrames > 100 || s.AsideBytes > 1000 {
			t.Fatalf("over the limits: %v", s)
		}
	}
	if s := h.Stats(); s.AsideFrames < 90 || !h.nodes["b"].evicted {
		t.Errorf("%v, evicted %v", s, h.nodes["b"].evicted)
	}
	if len(h.aside.groups[119]) != 3 || len(h.aside.groups[0]) != 0 {
		t.Error("not the oldest group's frames were dropped")
	}
	h.LinkDown(peerB, link.Cause{})
	if s := h.Stats(); s.AsideFrames != 0 || s.AsideBytes != 0 || len(h.aside.order) != 0 {
		t.Errorf("outlived their link: %v", s)
	}
}

// plain is a Handler without a ring.
type plain struct {
	events  []any
	batches int
	on      func(any)
}

func (p *plain) HandleEvent(ev any) {
	p.events = append(p.events, ev)
	if p.on != nil {
		p.on(ev)
	}
}
func (p *plain) HandleOutput(gm.Output) {}
func (p *plain) EndBatch()              { p.batches++ }

func TestActorWithoutRing(t *testing.T) {
	h, _ := fakeHost(t, 100, Config{MailboxEvents: 10})
	p := &plain{}
	a := h.NewActor(p)
	block, entered := make(chan struct{}), make(chan struct{})
	p.on = func(ev any) {
		if ev == "block" {
			close(entered)
			<-block
		}
	}
	if err := a.Post("block"); err != nil {
		t.Fatal(err)
	}
	<-entered
	for i := range 10 {
		if err := a.Post(i); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.Post("one too many"); !errors.Is(err, ErrMailboxFull) {
		t.Errorf("the mailbox is not bounded: %v", err)
	}
	if err := a.PostAlways("view"); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := a.Do(ctx, func() {}); !errors.Is(err, ErrMailboxFull) {
		t.Errorf("Do: %v", err)
	}
	close(block)
	for { // the mailbox empties
		if err := a.Do(t.Context(), func() {}); err == nil {
			break
		} else if !errors.Is(err, ErrMailboxFull) {
			t.Fatal(err)
		}
	}
	if want := []any{"block", 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, "view"}; !slices.Equal(p.events, want) {
		t.Errorf("events %v", p.events)
	}
}

func TestActorClose(t *testing.T) {
	h, _ := fakeHost(t, 100, Config{})
	p := &plain{}
	a := h.NewActor(p)
	closed := make(chan error, 1)
	p.on = func(any) {
		go func() { closed <- a.Do(context.Background(), func() { t.Error("ran after Close") }) }()
		for { // until the closure waits in the mailbox
			a.mu.Lock()
			n := len(a.queue)
			a.mu.Unlock()
			if n > 0 {
				break
			}
		}
		a.Close()
	}
	if err := a.Post("x"); err != nil {
		t.Fatal(err)
	}
	if err := <-closed; !errors.Is(err, ErrClosed) {
		t.Errorf("Do on an actor that closed: %v", err)
	}
	if err := a.Post("y"); !errors.Is(err, ErrClosed) {
		t.Errorf("Post: %v", err)
	}
	b := h.NewActor(&plain{})
	h.Close()
	if err := b.Post("z"); !errors.Is(err, ErrClosed) {
		t.Errorf("Post after Host.Close: %v", err)
	}
	if p.batches != 0 {
		t.Error("EndBatch after Close")
	}
}
