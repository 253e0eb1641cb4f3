package driver

import (
	"sync"
	"time"
)

// lateness bounds how long a lazy frame (gm.Output) waits for another one to leave with.
const lateness = 10 * time.Millisecond

// maxLazy bounds how many of them wait for one node.
const maxLazy = 64

// lateMembers are the members that keep lazy frames. There is a timer only while there are some.
type lateMembers struct {
	mu      sync.Mutex
	members []*Member
	timer   *time.Timer
	stopped bool
}

func (l *lateMembers) add(m *Member) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopped {
		return
	}
	l.members = append(l.members, m)
	switch {
	case l.timer == nil:
		l.timer = time.AfterFunc(lateness, l.release)
	case len(l.members) == 1:
		l.timer.Reset(lateness)
	}
}

// release has the members send what they keep.
func (l *lateMembers) release() {
	l.mu.Lock()
	members := l.members
	l.members = nil
	l.mu.Unlock()
	for _, m := range members {
		_ = m.actor.post(event{kind: evLate, member: m}, false)
	}
}

func (l *lateMembers) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopped = true; l.timer != nil {
		l.timer.Stop()
	}
}
