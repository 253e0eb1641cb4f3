package detector

import (
	"context"
	"sync"
	"time"
)

// Verdict is what a dial to a node's inter-node listener came to.
type Verdict uint8

const (
	// NoAnswer: neither accepted nor refused, in time.
	NoAnswer Verdict = iota
	// Accepted: something listens, so the process may live, even if it is paused.
	Accepted
	// Refused: nothing listens there; on a reachable machine that means that the process is gone.
	Refused
)

// String is the word used in logs.
func (v Verdict) String() string {
	switch v {
	case Accepted:
		return "accepted"
	case Refused:
		return "refused"
	}
	return "no answer"
}

// crashPauses are the waits between the attempts of a check: while a killed process is being taken down, its connections may end
// before its listener.
var crashPauses = [...]time.Duration{0, 10 * time.Millisecond, 40 * time.Millisecond, 150 * time.Millisecond, 400 * time.Millisecond}

// crashed says whether a node's process is gone: this node, and every voter that can be asked, are refused a connection.
func (d *Detector) crashed(ctx context.Context, node string) bool {
	for _, pause := range crashPauses {
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return false
		}
		if d.refusedByAll(ctx, node) {
			return true
		}
	}
	return false
}

func (d *Detector) refusedByAll(ctx context.Context, node string) bool {
	ctx, cancel := context.WithTimeout(ctx, d.cfg.Timing.Dial)
	defer cancel()
	if d.cfg.Network.Dial(ctx, node) != Refused {
		return false
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	refused := true
	for _, v := range d.cfg.Raft.Voters() {
		if v == node || v == d.cfg.Self {
			continue
		}
		wg.Go(func() {
			verdict, err := d.cfg.Network.AskDial(ctx, v, node)
			if err != nil {
				return // it cannot be asked
			}
			mu.Lock()
			defer mu.Unlock()
			refused = refused && verdict == Refused
		})
	}
	wg.Wait()
	return refused
}
