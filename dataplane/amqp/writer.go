package amqp

import (
	"net"
	"sync"
	"time"

	"warren/dataplane/message"
)

const (
	// writeSize is how many octets are gathered before a write.
	writeSize = 32 << 10
	// directSize: parts of bodies from here on are written from where they are, not copied.
	directSize = 16 << 10
	// drainEvery: window is given back after so many items, and at the end of a batch.
	drainEvery = 64
	// maxBacklog is how many outboxes and methods on channel 0 may wait. It holds the reader, not channels.
	maxBacklog = 1 << 13
)

// writer owns the sending side of a connection once the handshake is done. Channels that have something to say queue up;
// the writer serves one outbox after the other, so that none holds up the others for longer than one batch.
type writer struct {
	nc       net.Conn
	frameMax int
	bufs     *sync.Pool // of *[]byte; a connection holds a buffer only while it writes

	mu      sync.Mutex
	waiting []*outbox
	control []method // on channel 0
	final   bool     // connection.close or close-ok is in control; nothing follows it
	wake    chan struct{}
	room    chan struct{} // the backlog fell
	broken  func()
	stop    chan struct{} // closed: write what is there and end
	done    chan struct{} // closed when run has returned

	// Of run alone.
	buf   []byte
	err   error
	wrote bool // since the last tick
	ended bool // the final method was encoded
	batch batch
}

// newWriter makes a writer; broken is called when a write failed.
func newWriter(nc net.Conn, frameMax uint32, bufs *sync.Pool, broken func()) *writer {
	return &writer{
		nc: nc, frameMax: int(frameMax), bufs: bufs, broken: broken,
		wake: make(chan struct{}, 1), room: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}),
	}
}

func (w *writer) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *writer) enqueue(o *outbox) {
	w.mu.Lock()
	w.waiting = append(w.waiting, o)
	w.mu.Unlock()
	w.signal()
}

// send queues a method on channel 0. After a final one nothing more is taken.
func (w *writer) send(m method, final bool) {
	w.mu.Lock()
	if !w.final {
		w.control = append(w.control, m)
		w.final = final
	}
	w.mu.Unlock()
	w.signal()
}

// waitRoom holds the reader back while a client that does not read makes too much wait here, by opening and closing channels.
func (w *writer) waitRoom(stopping <-chan struct{}) {
	for {
		w.mu.Lock()
		n := len(w.waiting) + len(w.control)
		w.mu.Unlock()
		if n <= maxBacklog {
			return
		}
		select {
		case <-w.room:
		case <-w.done:
			return
		case <-stopping:
			return
		}
	}
}

// run writes until stop is closed or a write fails; then it closes the connection, so that the reader notices.
func (w *writer) run(heartbeat time.Duration) {
	defer close(w.done)
	var tick <-chan time.Time
	if heartbeat > 0 {
		t := time.NewTicker(heartbeat / 2)
		defer t.Stop()
		tick = t.C
	}
	for {
		stopping := false
		select {
		case <-w.wake:
		case <-tick:
			if !w.wrote && !w.ended {
				_, w.err = w.nc.Write([]byte(heartbeatPayload))
			}
			w.wrote = false
		case <-w.stop:
			stopping = true
		}
		w.serve()
		if w.err != nil {
			_ = w.nc.Close() // the reader reports what happened
			w.broken()       // it may be waiting for a channel, and that for room here
			return
		}
		if stopping {
			return
		}
	}
}

// serve writes everything that is waiting.
func (w *writer) serve() {
	var pooled *[]byte
	for w.err == nil {
		w.mu.Lock()
		control, waiting := w.control, w.waiting
		w.control, w.waiting = nil, nil
		final := w.final
		w.mu.Unlock()
		select {
		case w.room <- struct{}{}:
		default:
		}
		if len(control)+len(waiting) == 0 {
			break
		}
		if pooled == nil {
			pooled = w.bufs.Get().(*[]byte)
			w.buf = (*pooled)[:0]
		}
		for _, o := range waiting {
			w.outbox(o)
		}
		for _, m := range control {
			if !w.ended {
				w.buf = appendMethodFrame(w.buf, 0, m)
			}
		}
		w.ended = w.ended || final && len(control) > 0
		w.reuse(waiting)
		w.flush()
	}
	if pooled != nil {
		*pooled = w.buf[:0]
		w.bufs.Put(pooled)
		w.buf = nil
	}
}

// reuse gives the slice's memory back for the next turn.
func (w *writer) reuse(waiting []*outbox) {
	clear(waiting)
	w.mu.Lock()
	if w.waiting == nil {
		w.waiting = waiting[:0]
	}
	w.mu.Unlock()
}

func (w *writer) flush() {
	if w.err == nil && len(w.buf) > 0 {
		_, w.err = w.nc.Write(w.buf)
		w.wrote = true
	}
	w.buf = w.buf[:0]
}

// outbox encodes one channel's turn.
func (w *writer) outbox(o *outbox) {
	o.take(&w.batch)
	if w.ended {
		return
	}
	items := w.batch.items
	for i, reported := 0, 0; i < len(items); i++ {
		w.item(o, &items[i])
		if i+1-reported == drainEvery || i == len(items)-1 {
			w.report(o, items[reported:i+1])
			reported = i + 1
		}
		if len(w.buf) >= writeSize {
			w.flush()
		}
	}
	for _, c := range w.batch.confirms {
		w.buf = w.confirm(w.buf, o.channel, c)
	}
	clear(items)
	if cap(items) > 1024 {
		w.batch.items = nil
	}
}

// report gives window back for the deliveries among items that were not reported yet.
func (w *writer) report(o *outbox, items []item) {
	for i := range items {
		c := items[i].consumer
		if c == nil || c.drained == 0 {
			continue
		}
		n, bytes := c.drained, c.drainedBytes
		c.drained, c.drainedBytes = 0, 0
		o.sent(c, n, bytes)
	}
}

func (w *writer) item(o *outbox, it *item) {
	start := len(w.buf)
	switch it.kind {
	case itemReply:
		w.buf = appendMethodFrame(w.buf, o.channel, it.m)
		return
	case itemDeliver:
		m := basicDeliver{ConsumerTag: it.consumer.tag, DeliveryTag: it.tag, Redelivered: it.redelivered,
			Exchange: it.msg.Exchange, RoutingKey: it.msg.RoutingKey}
		w.buf = closeFrame(m.append(openFrame(w.buf, frameMethod, o.channel)), start)
		it.consumer.drained++
		it.consumer.drainedBytes += int64(len(it.msg.Body))
	case itemGet:
		m := basicGetOk{DeliveryTag: it.tag, Redelivered: it.redelivered,
			Exchange: it.msg.Exchange, RoutingKey: it.msg.RoutingKey, MessageCount: it.count}
		w.buf = closeFrame(m.append(openFrame(w.buf, frameMethod, o.channel)), start)
	case itemReturn:
		m := basicReturn{ReplyCode: it.code, ReplyText: it.text, Exchange: it.msg.Exchange, RoutingKey: it.msg.RoutingKey}
		w.buf = closeFrame(m.append(openFrame(w.buf, frameMethod, o.channel)), start)
	}
	w.content(o.channel, &it.msg)
}

// content writes the header and the body; no frame is larger than frame-max.
func (w *writer) content(channel uint16, m *message.Message) {
	w.buf = appendHeaderFrame(w.buf, channel, len(m.Body), visible(m.Properties))
	for body := m.Body; len(body) > 0; {
		part := body[:min(len(body), w.frameMax-frameOverhead)]
		body = body[len(part):]
		start := len(w.buf)
		w.buf = openFrame(w.buf, frameBody, channel)
		if len(part) < directSize {
			w.buf = closeFrame(append(w.buf, part...), start)
			continue
		}
		n := uint32(len(part))
		w.buf[start+3], w.buf[start+4], w.buf[start+5], w.buf[start+6] = byte(n>>24), byte(n>>16), byte(n>>8), byte(n)
		w.flush()
		if w.err == nil {
			_, w.err = w.nc.Write(part)
		}
		w.buf = append(w.buf, frameEnd)
	}
}

func (w *writer) confirm(b []byte, channel uint16, c confirmFrame) []byte {
	start := len(b)
	b = openFrame(b, frameMethod, channel)
	if c.nack {
		m := basicNack{DeliveryTag: c.tag, Multiple: c.multiple}
		return closeFrame(m.append(b), start)
	}
	m := basicAck{DeliveryTag: c.tag, Multiple: c.multiple}
	return closeFrame(m.append(b), start)
}

// sendOn sends a method on a channel that has no outbox any more.
func (w *writer) sendOn(channel uint16, m method) {
	o := &outbox{w: w, channel: channel, room: make(chan struct{}, 1)}
	o.reply(m, true)
}
