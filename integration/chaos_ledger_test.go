package integration

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"
)

// ledger is what the clients of a chaos test know: what was confirmed, delivered and acknowledged, and which nodes were
// disturbed when. It is the judge of the promises.
type ledger struct {
	mu         sync.Mutex
	queues     map[string]*account
	disturbed  map[int]time.Time // by node: when a test last harmed it
	faults     []string          // broken promises
	confirms   int
	deliveries int
	again      int // deliveries of what had come before
	longest    time.Duration
}

// account is one queue's part of the ledger.
type account struct {
	missing map[string]time.Time // confirmed, and not delivered yet
	entries map[string]*entry    // delivered
	newest  map[string]int       // by publisher: the highest number that was delivered
	broke   time.Time            // when a consumer was last cut off
}

// entry is one message that was delivered.
type entry struct {
	times   int
	ackedBy *consumption
}

// consumption is one client's use of one queue, from its dial to its end.
type consumption struct {
	node   int
	began  time.Time
	broken bool // it ended, and not because the client closed it
}

func newLedger(queues []string) *ledger {
	l := &ledger{queues: map[string]*account{}, disturbed: map[int]time.Time{}}
	for _, q := range queues {
		l.queues[q] = &account{missing: map[string]time.Time{}, entries: map[string]*entry{}, newest: map[string]int{}}
	}
	return l
}

// disturb is called before a node is harmed: what its clients sent it last may be lost with it.
func (l *ledger) disturb(node int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.disturbed[node] = time.Now()
}

func (l *ledger) fault(format string, args ...any) {
	if len(l.faults) < 100 {
		l.faults = append(l.faults, time.Now().Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
	}
}

// confirmed notes the confirm of a message; gap is how long its publisher had waited for the next confirm.
func (l *ledger) confirmed(queue, body string, gap time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.queues[queue]
	l.confirms++
	l.longest = max(l.longest, gap)
	if a.entries[body] == nil {
		a.missing[body] = time.Now()
	}
}

// delivered judges a delivery. There is one consumer of a queue at a time, so first deliveries come in order; what was
// acknowledged does not come again while the node that the acknowledgement was given to lives.
func (l *ledger) delivered(queue, body string, redelivered bool, to *consumption) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.queues[queue]
	l.deliveries++
	delete(a.missing, body)
	e := a.entries[body]
	if e == nil {
		e = &entry{}
		a.entries[body] = e
	}
	e.times++
	if e.times > 1 {
		l.again++
		if by := e.ackedBy; by != nil && !by.broken && !l.disturbed[by.node].After(by.began) {
			l.fault("%s: %s was acknowledged on node %d, which lives, and came again on node %d (time %d)",
				queue, body, by.node, to.node, e.times)
		}
		return
	}
	name, number, _ := strings.Cut(body, ":")
	n, err := strconv.Atoi(number)
	if err != nil {
		l.fault("%s: delivered body %q: %v", queue, body, err)
	}
	// Until the death of a consumer's node is known, a new consumer gets what comes after that one's messages.
	fromTheDead := redelivered && time.Since(a.broke) < healed
	if n < a.newest[name] && !fromTheDead {
		l.fault("%s: %s came for the first time after %s:%d, redelivered %v, on node %d to a consumer of %s", queue, body, name, a.newest[name],
			redelivered, to.node, to.began.Format("15:04:05.000"))
	}
	a.newest[name] = max(a.newest[name], n)
}

// acknowledged notes that the client has sent the acknowledgement of those messages.
func (l *ledger) acknowledged(queue string, bodies []string, by *consumption) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, body := range bodies {
		if e := l.queues[queue].entries[body]; e != nil {
			e.ackedBy = by
		}
	}
}

func (l *ledger) ended(queue string, c *consumption, broken bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.broken = broken; broken {
		l.queues[queue].broke = time.Now()
	}
}

// missing counts the confirmed messages that were not delivered and names a few.
func (l *ledger) missing() (count int, some string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var b strings.Builder
	for name, a := range l.queues {
		for body, since := range a.missing {
			if count++; count <= 10 {
				fmt.Fprintf(&b, "%s: %s (confirmed %s); ", name, body, since.Format("15:04:05.000"))
			}
		}
	}
	return count, b.String()
}

// report empties the list of broken promises.
func (l *ledger) report() (faults []string, summary string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	faults, l.faults = l.faults, nil
	summary = fmt.Sprintf("%d confirms, %d deliveries (%d again), longest wait for a confirm %v", l.confirms, l.deliveries, l.again,
		l.longest.Round(time.Millisecond))
	l.longest = 0
	return faults, summary
}
