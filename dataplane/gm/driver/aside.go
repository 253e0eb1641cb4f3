package driver

import "warren/dataplane/link"

// asidePerGroup is the most frames that are kept for one group.
const asidePerGroup = 256

// asideFrames are frames of groups that are not hosted yet, in order of arrival (R5). When there are too many, those of
// the group that has waited longest are dropped: most likely it was deleted.
type asideFrames struct {
	groups map[uint64][]asideFrame
	order  []uint64 // groups by their first frame; some are gone already
	count  int
	bytes  int
}

type asideFrame struct {
	from  link.PeerID
	frame []byte
}

// keep takes a frame and returns the links of frames that had to be dropped for it.
func (a *asideFrames) keep(group uint64, from link.PeerID, frame []byte, cfg Config) (evicted []link.PeerID) {
	if len(frame) > cfg.AsideBytes || len(a.groups[group]) >= asidePerGroup {
		evicted = append(a.evict(group), from)
		return evicted
	}
	for a.count >= cfg.AsideFrames || a.bytes+len(frame) > cfg.AsideBytes {
		evicted = append(evicted, a.evict(a.order[0])...)
	}
	if a.groups == nil {
		a.groups = map[uint64][]asideFrame{}
	}
	if _, known := a.groups[group]; !known {
		a.order = append(a.order, group)
	}
	// A copy: the frame stands in a chunk that it would hold for an unknown time.
	a.groups[group] = append(a.groups[group], asideFrame{from, append([]byte(nil), frame...)})
	a.count++
	a.bytes += len(frame)
	return evicted
}

// evict drops a group's frames and returns their links.
func (a *asideFrames) evict(group uint64) (from []link.PeerID) {
	for _, f := range a.take(group) {
		from = append(from, f.from)
	}
	return from
}

// take removes and returns a group's frames.
func (a *asideFrames) take(group uint64) []asideFrame {
	frames := a.groups[group]
	delete(a.groups, group)
	for _, f := range frames {
		a.count--
		a.bytes -= len(f.frame)
	}
	for len(a.order) > 0 {
		if _, there := a.groups[a.order[0]]; there {
			break
		}
		a.order = a.order[1:]
	}
	if len(a.order) > 2*len(a.groups)+64 {
		a.compact()
	}
	return frames
}

// compact removes the groups that are gone from order; of one that came back, the earlier place stays.
func (a *asideFrames) compact() {
	seen := make(map[uint64]bool, len(a.groups))
	order := make([]uint64, 0, len(a.groups))
	for _, g := range a.order {
		if _, there := a.groups[g]; there && !seen[g] {
			seen[g] = true
			order = append(order, g)
		}
	}
	a.order = order
}

// drop forgets what came over a link that is gone.
func (a *asideFrames) drop(id link.PeerID) {
	for group := range a.groups {
		a.dropFrom(group, id)
	}
	a.compact()
}

// dropFrom forgets what came over one link for one group.
func (a *asideFrames) dropFrom(group uint64, id link.PeerID) {
	frames := a.groups[group]
	k := 0
	for _, f := range frames {
		if f.from != id {
			frames[k] = f
			k++
			continue
		}
		a.count--
		a.bytes -= len(f.frame)
	}
	clear(frames[k:])
	if k == 0 {
		delete(a.groups, group)
		return
	}
	a.groups[group] = frames[:k]
}
