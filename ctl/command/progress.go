package command

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"time"
)

// What a terminal gets that a pipe does not.

// isTerminal says whether w is a terminal.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// uncoloured drops the escape sequences of colours and bold type: NO_COLOR is set.
type uncoloured struct{ w io.Writer }

var colours = regexp.MustCompile("\x1b\\[[0-9;]*m")

// Write implements io.Writer; a sequence is always within one write.
func (u uncoloured) Write(b []byte) (int, error) {
	if _, err := u.w.Write(colours.ReplaceAll(b, nil)); err != nil {
		return 0, err
	}
	return len(b), nil
}

// progress is a bar on the terminal; its methods do nothing where there is none.
type progress struct {
	w       io.Writer
	unit    string
	total   uint64
	began   time.Time
	drawn   time.Time
	visible bool
}

// drawEvery is how often a bar is drawn again.
const drawEvery = 100 * time.Millisecond

// progress begins a bar for total things to do, on standard error if that is a terminal and -q was not given.
func (c *call) progress(unit string, total uint64) *progress {
	if !isTerminal(c.env.Stderr) || c.set["quiet"] || c.set["silent"] || c.format.Machine() {
		return &progress{}
	}
	return &progress{w: c.env.Stderr, unit: unit, total: total, began: time.Now()}
}

// at shows that done things are done.
func (p *progress) at(done uint64) {
	if p.w == nil || time.Since(p.drawn) < drawEvery && done < p.total {
		return
	}
	p.draw(bar(p.unit, done, p.total, time.Since(p.began)))
}

// draw puts a line in the place of the one before.
func (p *progress) draw(line string) {
	p.drawn, p.visible = time.Now(), true
	print(p.w, "\r\x1b[K"+line)
}

// end takes the bar away.
func (p *progress) end() {
	if p.visible {
		print(p.w, "\r\x1b[K")
		p.visible = false
	}
}

// bar is the line for what has gone on for some time at an even rate.
func bar(unit string, done, total uint64, took time.Duration) string {
	rate := float64(done) / max(took.Seconds(), 1e-3)
	return barOf(unit, done, total, rate, time.Duration(float64(max(total, done)-done)/max(rate, 1e-9)*float64(time.Second)))
}

// barOf is one line: a bar, counts, rate, and how long it will take.
func barOf(unit string, done, total uint64, rate float64, left time.Duration) string {
	const width = 30
	filled := width
	if total > 0 {
		filled = int(min(done, total) * width / total)
	}
	text := fmt.Sprintf("[%s%s] %d of %d %s, %.0f/s", strings.Repeat("#", filled), strings.Repeat(" ", width-filled), done, total, unit, rate)
	if done > 0 && done < total {
		text += fmt.Sprintf(", about %v left", left.Round(time.Second))
	}
	return text
}
