package raftstore

import (
	"sync"

	"github.com/hashicorp/raft"
)

// nudge names a committed entry. See the package documentation.
type nudge struct{ index, term uint64 }

// nudgeLater has the followers told of a commit; if the one before is still under way, the newest counts.
func (s *Store) nudgeLater(n nudge) {
	for {
		select {
		case s.nudges <- n:
			return
		default:
		}
		select {
		case old := <-s.nudges:
			if old.index > n.index {
				n = old
			}
		default:
		}
	}
}

func (s *Store) nudgeLoop() {
	peers := map[raft.ServerID]*nudgePeer{}
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		select {
		case <-s.ctx.Done():
			return
		case n := <-s.nudges:
			for _, srv := range s.raft.GetConfiguration().Configuration().Servers {
				if string(srv.ID) == s.cfg.Self {
					continue
				}
				p := peers[srv.ID]
				if p == nil {
					p = &nudgePeer{}
					peers[srv.ID] = p
				}
				p.send(s, srv, n, &wg)
			}
		}
	}
}

// nudgePeer has at most one message to a follower under way.
type nudgePeer struct {
	mu   sync.Mutex
	busy bool
	next nudge
}

func (p *nudgePeer) send(s *Store, srv raft.Server, n nudge, wg *sync.WaitGroup) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next = n
	if p.busy {
		return
	}
	p.busy = true
	wg.Go(func() {
		for {
			p.mu.Lock()
			n := p.next
			p.next = nudge{}
			if n.index == 0 || s.ctx.Err() != nil {
				p.busy = false
				p.mu.Unlock()
				return
			}
			p.mu.Unlock()
			s.sendNudge(srv, n)
		}
	})
}

// sendNudge is what hashicorp/raft would send after CommitTimeout. An error does no harm: then it will.
func (s *Store) sendNudge(srv raft.Server, n nudge) {
	req := &raft.AppendEntriesRequest{RPCHeader: s.header(), Term: n.term,
		PrevLogEntry: n.index, PrevLogTerm: n.term, LeaderCommitIndex: n.index}
	var resp raft.AppendEntriesResponse
	if err := s.trans.NetworkTransport.AppendEntries(srv.ID, srv.Address, req, &resp); err != nil {
		s.log.Debug("commit notice not delivered", "node", string(srv.ID), "err", err)
	}
}

// committed is called by the leader when its entry at index is committed.
func (s *Store) committed(index uint64) {
	var l raft.Log
	if err := s.logs.GetLog(index, &l); err != nil {
		return // compacted already: the followers are well past it
	}
	s.nudgeLater(nudge{index, l.Term})
}
