package driver

import "warren/dataplane/link"

// maxLost limits the groups of which frames were dropped; beyond it the whole link is reset.
const maxLost = 1 << 16

type asideKey struct {
	group uint64
	from  link.PeerID
}

// asideFrames are frames of groups that are not hosted yet, in order of arrival (R5).
type asideFrames struct {
	frames []asideFrame
	count  int
	bytes  int
	lost   map[asideKey]struct{} // of these, some frames were dropped
}

type asideFrame struct {
	key   asideKey
	frame []byte
}

// keep takes a frame, or notes that it was dropped. False: too many were, the link is to be reset.
func (a *asideFrames) keep(key asideKey, frame []byte, cfg Config) bool {
	if _, gone := a.lost[key]; gone {
		return true
	}
	if a.count < cfg.AsideFrames && a.bytes+len(frame) <= cfg.AsideBytes {
		// A copy: the frame stands in a chunk that it would hold for an unknown time.
		a.frames = append(a.frames, asideFrame{key, append([]byte(nil), frame...)})
		a.count++
		a.bytes += len(frame)
		return true
	}
	if len(a.lost) >= maxLost {
		return false
	}
	a.lost[key] = struct{}{}
	return true
}

// release posts the frames of m's group to it.
func (a *asideFrames) release(m *Member) {
	for key := range a.lost {
		if key.group == m.id {
			_ = m.actor.post(event{kind: evReset, member: m, from: key.from}, false)
			delete(a.lost, key)
		}
	}
	if a.count == 0 {
		return
	}
	a.filter(func(f asideFrame) bool {
		if f.key.group != m.id {
			return true
		}
		m.actor.postFrame(m, f.key.from, f.frame)
		return false
	})
}

// drop forgets what came over a link that is gone.
func (a *asideFrames) drop(id link.PeerID) {
	for key := range a.lost {
		if key.from == id {
			delete(a.lost, key)
		}
	}
	a.filter(func(f asideFrame) bool { return f.key.from != id })
}

func (a *asideFrames) filter(keep func(asideFrame) bool) {
	k := 0
	for _, f := range a.frames {
		if keep(f) {
			a.frames[k] = f
			k++
			continue
		}
		a.bytes -= len(f.frame)
	}
	clear(a.frames[k:])
	a.frames, a.count = a.frames[:k], k
	if k == 0 {
		a.frames = nil
	}
}
