package logtail

import (
	"bytes"
	"context"
	"io"
	"slices"
	"sync"
)

// Limits of what is kept.
const (
	MaxLines = 10_000
	maxBytes = 2 << 20
	maxQueue = 1000 // lines that wait for one who follows; what comes when there are more, that one misses
)

// Line is one line of the log without its newline. Missed is how many before it one who follows was too slow for.
type Line struct {
	Text   string
	Missed int
}

type follower struct {
	queue  chan Line
	missed int
}

// Tail keeps the last lines that were written through it. It may be used from any goroutine.
type Tail struct {
	out io.Writer

	mu        sync.Mutex
	lines     []string // oldest first
	bytes     int
	followers map[*follower]struct{}
}

// New makes a tail of what is written to out.
func New(out io.Writer) *Tail { return &Tail{out: out, followers: map[*follower]struct{}{}} }

// Write writes to the log itself and remembers the lines; its error is that of the former.
func (t *Tail) Write(b []byte) (int, error) {
	t.remember(b)
	return t.out.Write(b)
}

func (t *Tail) remember(b []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for line := range bytes.SplitSeq(bytes.TrimSuffix(b, []byte{'\n'}), []byte{'\n'}) {
		text := string(line)
		t.lines, t.bytes = append(t.lines, text), t.bytes+len(text)
		for f := range t.followers {
			select {
			case f.queue <- Line{text, f.missed}:
				f.missed = 0
			default:
				f.missed++
			}
		}
	}
	drop := max(0, len(t.lines)-MaxLines)
	for _, line := range t.lines[:drop] {
		t.bytes -= len(line)
	}
	for ; t.bytes > maxBytes && drop < len(t.lines)-1; drop++ {
		t.bytes -= len(t.lines[drop])
	}
	clear(t.lines[:drop])
	t.lines = t.lines[drop:]
}

// Last are the last n lines, oldest first, as far as they are still there.
func (t *Tail) Last(n int) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.lines[max(0, len(t.lines)-max(n, 0)):])
}

// Follow calls row for the last n lines and then for those that come, without a gap between, until ctx ends (nil) or row fails.
func (t *Tail) Follow(ctx context.Context, n int, row func(Line) error) error {
	f := &follower{queue: make(chan Line, maxQueue)}
	t.mu.Lock()
	last := slices.Clone(t.lines[max(0, len(t.lines)-max(n, 0)):])
	t.followers[f] = struct{}{}
	t.mu.Unlock()
	defer func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.followers, f)
	}()
	for _, text := range last {
		if err := row(Line{Text: text}); err != nil {
			return err
		}
	}
	for {
		select {
		case line := <-f.queue:
			if err := row(line); err != nil {
				return err
			}
		case <-ctx.Done():
			return nil
		}
	}
}
