package logtail

import (
	"bytes"
	"context"
	"io"
	"slices"
	"sync"

	"warren/dataplane/feed"
)

// Limits of what is kept.
const (
	MaxLines = 10_000
	maxBytes = 2 << 20
)

// Line is one line of the log without its newline. Missed is how many before it one who follows was too slow for.
type Line struct {
	Text   string
	Missed int
}

// Tail keeps the last lines that were written through it. It may be used from any goroutine.
type Tail struct {
	out io.Writer

	mu    sync.Mutex
	lines []string // oldest first
	bytes int
	feed  feed.Feed[string]
}

// New makes a tail of what is written to out.
func New(out io.Writer) *Tail { return &Tail{out: out} }

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
		t.feed.Send(text)
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
	return t.last(n)
}

func (t *Tail) last(n int) []string {
	return slices.Clone(t.lines[max(0, len(t.lines)-max(n, 0)):])
}

// Follow calls row for the last n lines and then for those that come, without a gap between, until ctx ends (nil) or row fails.
func (t *Tail) Follow(ctx context.Context, n int, row func(Line) error) error {
	t.mu.Lock()
	last, f := t.last(n), t.feed.Follow()
	t.mu.Unlock()
	defer f.Close()
	for _, text := range last {
		if err := row(Line{Text: text}); err != nil {
			return err
		}
	}
	return f.Each(ctx, func(text string, missed int) error { return row(Line{text, missed}) })
}
