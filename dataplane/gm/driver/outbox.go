package driver

import (
	"errors"
	"sync"

	"warren/dataplane/link"
)

// quantum is how many bytes of one group leave before the next one's turn.
const quantum = 32 << 10

// outbox is the way of all groups to one node. While the link's backlog is below its soft limit, frames pass through;
// otherwise they wait here, a flow per group, and the flows take turns when the link has drained.
type outbox struct {
	host *Host

	mu      sync.Mutex
	id      link.PeerID
	up      bool
	waiting int // bytes in flows
	flows   map[uint64]*flow
	turn    []*flow  // those with frames, in order of their turns
	parts   [][]byte // of the frame that pass hands over
}

type flow struct {
	id     uint64
	head   []byte
	frames []outFrame
}

// renew forgets what waits: it was for the link before.
func (o *outbox) renew(id link.PeerID, up bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.id, o.up, o.waiting, o.flows, o.turn = id, up, 0, nil, nil
}

// submit takes the frames of one group for one link; if that link is gone, so are they.
func (o *outbox) submit(m *Member, id link.PeerID, frames []outFrame) {
	o.mu.Lock()
	if !o.up || o.id != id {
		o.mu.Unlock()
		return
	}
	direct := 0
	if len(o.turn) == 0 {
		direct = o.pass(m.head, frames, o.room())
	}
	overflow := false
	if direct < len(frames) {
		overflow = o.wait(m, frames[direct:])
	}
	o.mu.Unlock()
	if overflow {
		o.host.log.Error("too many bytes wait for a peer, resetting its link", "peer", id.Node)
		o.host.links.Reset(id.Node)
		return
	}
	if direct > 0 {
		o.host.links.Flush(id)
	}
}

// room is how many bytes the link takes below its soft limit.
func (o *outbox) room() int { return o.host.links.SoftLimit() - o.host.links.Backlog(o.id.Node) }

// pass gives frames to the link while room lasts and returns how many. What is left over waits for LinkDrained, which
// follows for sure: the link's backlog has reached the soft limit, by these frames or before.
func (o *outbox) pass(head []byte, frames []outFrame, room int) int {
	for i := range frames {
		f := &frames[i]
		if room <= 0 {
			if room = o.room(); room <= 0 {
				return i
			}
		}
		o.parts = append(append(o.parts[:0], head, f.frame), f.rest...)
		// An error means that the link is going down; LinkDown follows.
		if err := o.host.links.Queue(o.id, f.kind, o.parts...); err != nil && !errors.Is(err, link.ErrNotConnected) {
			o.host.log.Error("ring frame not sent", "peer", o.id.Node, "err", err)
		}
		room -= len(head) + f.size()
	}
	clear(o.parts)
	return len(frames)
}

func (o *outbox) wait(m *Member, frames []outFrame) (overflow bool) {
	f := o.flows[m.id]
	if f == nil {
		if o.flows == nil {
			o.flows = map[uint64]*flow{}
		}
		f = &flow{id: m.id, head: m.head}
		o.flows[m.id] = f
		o.turn = append(o.turn, f)
	}
	f.frames = append(f.frames, frames...)
	for i := range frames {
		o.waiting += frames[i].size()
	}
	return o.waiting > o.host.cfg.WaitingBytes
}

// drain lets the flows take turns until the link's backlog is at the soft limit again.
func (o *outbox) drain(id link.PeerID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.up || o.id != id || len(o.turn) == 0 {
		return
	}
	for len(o.turn) > 0 {
		room := o.room()
		if room <= 0 {
			break
		}
		f := o.turn[0]
		o.turn[0] = nil
		o.turn = o.turn[1:]
		n, size := 0, 0
		for n < len(f.frames) && size < quantum {
			size += f.frames[n].size()
			n++
		}
		n = o.pass(f.head, f.frames[:n], room)
		for i := range f.frames[:n] {
			o.waiting -= f.frames[i].size()
		}
		clear(f.frames[:n])
		if f.frames = f.frames[n:]; len(f.frames) == 0 {
			delete(o.flows, f.id)
			continue
		}
		o.turn = append(o.turn, f)
	}
	o.host.links.Flush(id)
}
