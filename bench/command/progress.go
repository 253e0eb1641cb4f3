package command

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// progress shows on a terminal how far a measurement is; elsewhere it writes a line when one begins.
type progress struct {
	w        io.Writer
	terminal bool
	mu       sync.Mutex
}

func newProgress(w io.Writer) *progress {
	p := &progress{w: w}
	if f, ok := w.(*os.File); ok {
		if info, err := f.Stat(); err == nil {
			p.terminal = info.Mode()&os.ModeCharDevice != 0
		}
	}
	return p
}

func (p *progress) say(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(p.w, format+"\n", args...)
}

const (
	barWidth = 30
	barEvery = 200 * time.Millisecond
)

// begin shows a measurement that takes about that long; the function that it gives ends the showing.
func (p *progress) begin(what string, about time.Duration) (stop func()) {
	if !p.terminal {
		p.say("%s", what)
		return func() {}
	}
	end, done := make(chan struct{}), make(chan struct{})
	started := time.Now()
	go func() {
		defer close(done)
		tick := time.NewTicker(barEvery)
		defer tick.Stop()
		for {
			select {
			case <-end:
				fmt.Fprintf(p.w, "\r\x1b[K")
				return
			case <-tick.C:
				p.draw(what, time.Since(started), about)
			}
		}
	}()
	return func() { close(end); <-done }
}

func (p *progress) draw(what string, elapsed, about time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	full := min(int(float64(barWidth)*elapsed.Seconds()/max(about.Seconds(), 0.1)), barWidth)
	fmt.Fprintf(p.w, "\r\x1b[K[%s%s] %s %.0f s", strings.Repeat("#", full), strings.Repeat("·", barWidth-full), what, elapsed.Seconds())
}
