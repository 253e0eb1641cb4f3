package broker

import (
	"warren/metadata/state"
)

// logChange logs what a change of a queue's record means to an operator. One node logs each: the leader what concerns a queue
// without a master, the master's node what concerns its mirrors. Promotions are told by the copies (copy.Report).
func (l *life) logChange(old, now *state.Queue) {
	if old == nil || now == nil {
		return
	}
	log := l.log.With("queue", now.Name, "vhost", now.Vhost, "epoch", now.Epoch, "view", now.ViewVersion)
	leads := l.node.meta.IsLeader()
	switch {
	case old.Status == state.QueueRunning && now.Status == state.QueueDown && leads:
		var vouching []string
		for _, p := range now.LastSynchronised {
			vouching = append(vouching, p.Node)
		}
		log.Error("no mirror is fit for promotion: the queue is down until one that was synchronised returns",
			"master", now.Master, "synchronised", vouching)
	case old.Status == state.QueueDown && now.Status == state.QueueRunning && leads:
		log.Info("the queue that was down goes on", "master", now.Master, "lossy", now.LastLossEpoch == now.Epoch)
	}
	if now.Status != state.QueueRunning || now.Master != l.self.Name {
		return
	}
	for _, m := range now.Members {
		was, _ := old.Member(m.Node)
		if m.Node == now.Master || was.JoinIndex != m.JoinIndex && m.Synchronised {
			continue
		}
		switch {
		case m.Synchronised && !was.Synchronised:
			log.Info("a mirror is synchronised", "peer", m.Node)
		case was.Synchronised && !m.Synchronised && m.State == state.MemberUp:
			log.Warn("a mirror is not synchronised any more", "peer", m.Node)
		}
	}
}
