package broker

import (
	"context"
	"errors"
	"time"

	"warren/metadata/placement"
	"warren/metadata/state"
)

// upkeepInterval is how often a life looks at what only time brings about: stand-ins for members that stay away, and rings that
// do not get on.
const upkeepInterval = 250 * time.Millisecond

// upkeep is what a life does over time. Its fields are of the goroutine that runs it.
type upkeep struct {
	l     *life
	away  map[string]time.Time // nodes that are not up: since when this node knows
	tried map[uint64]time.Time // queues for which a stand-in was asked for in vain: when to ask again
}

// keepUp runs until the life ends.
func (l *life) keepUp() {
	u := upkeep{l: l, away: map[string]time.Time{}, tried: map[uint64]time.Time{}}
	tick := time.NewTicker(upkeepInterval)
	defer tick.Stop()
	for {
		select {
		case now := <-tick.C:
			u.standIns(now)
			l.watchRings()
		case <-l.ctx.Done():
			return
		}
	}
}

// standIns has members replaced that have been away for too long (metadata.md, Placement, exactly). Every node counts the time,
// so that a new leader need not begin anew; only the leader proposes.
func (u *upkeep) standIns(now time.Time) {
	late := u.late(now)
	if len(late) == 0 || !u.l.node.meta.IsLeader() {
		return
	}
	var cmds []*state.ReplaceMirror
	u.l.node.meta.View(func(s *state.State) {
		for _, q := range s.Queues() {
			if node := lacking(q, late); node != "" && !now.Before(u.tried[q.ID]) {
				cmds = append(cmds, &state.ReplaceMirror{Queue: q.ID, Node: node})
			}
		}
	})
	for _, cmd := range cmds {
		if u.l.ctx.Err() != nil {
			return
		}
		u.replace(cmd, now)
	}
}

// late are the nodes that have been away for longer than warren.mirror_replacement_delay.
func (u *upkeep) late(now time.Time) map[string]bool {
	late := map[string]bool{}
	u.l.mu.RLock()
	defer u.l.mu.RUnlock()
	for name, n := range u.l.nodes {
		if n.Status.Up() {
			delete(u.away, name)
			continue
		}
		since, known := u.away[name]
		if !known {
			since, u.away[name] = now, now
		}
		if now.Sub(since) >= u.l.node.cfg.Timing.MirrorReplacementDelay {
			late[name] = true
		}
	}
	return late
}

// lacking is a member of q that is away on a late node and has no stand-in, "" if there is none.
func lacking(q *state.Queue, late map[string]bool) string {
	if q.Status != state.QueueRunning || q.Exclusive {
		return ""
	}
	if mode, _, _ := q.Effective.Placement(); mode != placement.ModeExactly {
		return ""
	}
	replaced := map[string]bool{}
	for _, m := range q.Members {
		replaced[m.Replaces] = true
	}
	for _, m := range q.Members {
		if m.State == state.MemberAway && late[m.Node] && !replaced[m.Node] {
			return m.Node
		}
	}
	return ""
}

// replace proposes one stand-in. Where there is no node for it, it is asked for again after a while.
func (u *upkeep) replace(cmd *state.ReplaceMirror, now time.Time) {
	ctx, cancel := context.WithTimeout(u.l.ctx, proposeTimeout)
	defer cancel()
	r, err := u.l.node.meta.Propose(ctx, cmd)
	if err == nil {
		err = r.Refusal()
	}
	switch {
	case err == nil:
		u.l.log.Info("a member of a queue stays away; another node gets a copy", "queue", cmd.Queue, "peer", cmd.Node)
		delete(u.tried, cmd.Queue)
	case errors.Is(err, state.ErrStale), errors.Is(err, state.ErrNotFound):
	case errors.Is(err, state.ErrNoNode):
		u.tried[cmd.Queue] = now.Add(max(u.l.node.cfg.Timing.MirrorReplacementDelay, 10*time.Second))
		u.l.log.Warn("a member of a queue stays away, and no other node can get a copy", "queue", cmd.Queue, "peer", cmd.Node)
	default:
		if u.l.ctx.Err() == nil {
			u.l.log.Warn("a stand-in could not be proposed", "queue", cmd.Queue, "peer", cmd.Node, "error", err)
		}
	}
}

// watchRings has the masters look whose rings have something under way.
func (l *life) watchRings() {
	for _, c := range l.copyList() {
		if c.ringBusy.Load() {
			c.post(evWatch{})
		}
	}
}
