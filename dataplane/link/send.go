package link

import "fmt"

// Send queues one frame for a node and returns without waiting for the network. The frame's body is the parts, one
// after the other; they must not be changed afterwards, for large ones are written from where they stand. Frames for one
// node keep their order; those that are still queued when the link breaks are lost. kind is FirstUserKind or more.
// Errors: ErrNotConnected, ErrTooLarge, ErrOverflow (the link is closed, and made anew).
func (t *Transport) Send(node string, kind FrameKind, parts ...[]byte) error {
	s, err := t.user(node, kind)
	if err != nil {
		return err
	}
	return s.send(kind, true, parts...)
}

// SendTo is Send on one established link: ErrNotConnected if it is not that node's present one.
func (t *Transport) SendTo(to PeerID, kind FrameKind, parts ...[]byte) error {
	s, err := t.exact(to, kind)
	if err != nil {
		return err
	}
	return s.send(kind, true, parts...)
}

// Queue is SendTo without waking the writer: call Flush when the batch is complete. Frames that nobody flushes leave
// with the next ones, or within Config.Keepalive.
func (t *Transport) Queue(to PeerID, kind FrameKind, parts ...[]byte) error {
	s, err := t.exact(to, kind)
	if err != nil {
		return err
	}
	return s.send(kind, false, parts...)
}

// Flush wakes the writer of a link.
func (t *Transport) Flush(to PeerID) {
	if s, err := t.exact(to, FirstUserKind); err == nil {
		s.signal()
	}
}

// Backlog is the number of bytes that wait for a node: queued, or handed to the operating system's write and not yet
// taken. 0 without a link.
func (t *Transport) Backlog(node string) int {
	s, err := t.live(node)
	if err != nil {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.backlog
}

// SoftLimit is the Config's, with its default.
func (t *Transport) SoftLimit() int { return t.cfg.SoftLimit }

// Peer describes the link to a node, if there is one.
func (t *Transport) Peer(node string) (PeerInfo, bool) {
	s, err := t.live(node)
	if err != nil {
		return PeerInfo{}, false
	}
	return s.info, true
}

// Connected lists the established links, by node name.
func (t *Transport) Connected() []PeerInfo {
	var list []PeerInfo
	for _, p := range t.peerList() {
		p.mu.Lock()
		if p.cur != nil {
			list = append(list, p.cur.info)
		}
		p.mu.Unlock()
	}
	return list
}

// Traffic is the number of bytes that all peer links together have sent and received since New, frame headers and
// keepalives included, handshakes not.
func (t *Transport) Traffic() (sent, received uint64) { return t.sent.Load(), t.received.Load() }

func (t *Transport) user(node string, kind FrameKind) (*session, error) {
	if kind < FirstUserKind {
		return nil, fmt.Errorf("%w: kind %d belongs to the link itself", ErrFrame, kind)
	}
	return t.live(node)
}

func (t *Transport) exact(id PeerID, kind FrameKind) (*session, error) {
	s, err := t.user(id.Node, kind)
	if err == nil && s.id != id {
		return nil, fmt.Errorf("%w: %s has a newer link", ErrNotConnected, id.Node)
	}
	return s, err
}
