package amqp

import (
	"sync"

	"warren/dataplane/message"
)

// command is one method, with its content, on its way from the reader to a channel's goroutine. The frequent methods do
// without m.
type command struct {
	id        uint32
	m         method
	tag       uint64 // ack, nack, reject
	multiple  bool
	requeue   bool
	mandatory bool
	immediate bool
	msg       message.Message // publish: as it came
}

const (
	maxInbox      = 128     // commands
	maxInboxBytes = 1 << 20 // bodies; one larger message is let in alone
)

// inbox is a channel's bounded queue of commands: one producer, the reader, and one consumer, the channel.
type inbox struct {
	mu     sync.Mutex
	cmds   []command
	bytes  int
	closed bool
	wake   chan struct{} // to the channel: there is something, or closed
	room   chan struct{} // to the reader
}

func newInbox() inbox {
	return inbox{wake: make(chan struct{}, 1), room: make(chan struct{}, 1)}
}

// offer takes c, unless the inbox is full. A closed one swallows everything.
func (in *inbox) offer(c *command) bool {
	in.mu.Lock()
	if in.closed {
		in.mu.Unlock()
		return true
	}
	if len(in.cmds) > 0 && (len(in.cmds) >= maxInbox || in.bytes+len(c.msg.Body) > maxInboxBytes) {
		in.mu.Unlock()
		return false
	}
	in.cmds = append(in.cmds, *c)
	in.bytes += len(c.msg.Body)
	in.mu.Unlock()
	in.signal(in.wake)
	return true
}

func (in *inbox) signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// close says that nothing more comes. What is in the inbox can still be taken.
func (in *inbox) close() {
	in.mu.Lock()
	in.closed = true
	in.mu.Unlock()
	in.signal(in.wake)
	in.signal(in.room)
}

// take swaps what is there into buf's memory; done tells that nothing is there and nothing more comes.
func (in *inbox) take(buf []command) (cmds []command, done bool) {
	in.mu.Lock()
	cmds, in.cmds = in.cmds, buf[:0]
	in.bytes = 0
	done = in.closed && len(cmds) == 0
	in.mu.Unlock()
	in.signal(in.room)
	return cmds, done
}
