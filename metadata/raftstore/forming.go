package raftstore

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// Standing is how far a node is with its cluster.
type Standing uint8

const (
	// Empty: nothing is on its disk.
	Empty Standing = iota + 1
	// Begun: it began with the list of peers; no leader was elected yet that it knows of.
	Begun
	// Settled: it belongs to a cluster with a history.
	Settled
)

const (
	formPause  = 100 * time.Millisecond // between two rounds of questions
	askTimeout = time.Second            // for one peer's answer
)

var (
	errClosedGate = errors.New("this node has not been let into a cluster yet")
	errHeld       = errors.New("this node does not know yet whether its disk is the one that it had")
)

// gate keeps the group's messages from a node that lost its disk: it has forgotten what it voted for and what it confirmed to
// have, so a vote of it could elect a leader that lacks committed entries. It is let in anew, without a vote, first.
type gate struct {
	mu       sync.Mutex
	open     bool
	voteless bool // votes are refused until a configuration has come from the leader
	held     bool // nothing passes, and no vote is asked for (Config.Hold)
}

func (g *gate) hold(held bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.held = held
}

func (g *gate) isHeld() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.held
}

func (g *gate) set(open, voteless bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open, g.voteless = open, voteless
}

// passes says whether a message may reach Raft; configured asks whether the node has a configuration.
func (g *gate) passes(cmd any, configured func() bool) bool {
	g.mu.Lock()
	open, voteless := g.open && !g.held, g.voteless
	g.mu.Unlock()
	if !open {
		return false
	}
	switch cmd.(type) {
	case *raft.RequestVoteRequest, *raft.RequestPreVoteRequest, *raft.TimeoutNowRequest:
		return !voteless || configured()
	}
	return true
}

// Standing is what a peer that forms a cluster asks.
func (s *Store) Standing() Standing {
	switch s.raft.LastIndex() {
	case 0:
		return Empty
	case 1:
		return Begun
	}
	return Settled
}

// form begins a new cluster with the list of peers as soon as a majority of those who will vote is known to be empty. All begin with the same configuration, so they form one cluster, not several. If a peer belongs to a cluster
// already, this node lost what it had, or comes late: it asks to be let in.
func (s *Store) form() {
	peers := s.startingList()
	for said := ""; ; {
		settled, fresh := s.askPeers(peers)
		switch {
		case settled != nil:
			ctx, cancel := context.WithTimeout(s.ctx, serveTimeout)
			err := s.cfg.Enter(ctx, *settled)
			cancel()
			if err == nil {
				s.log.Info("let into the cluster of a peer, without a vote until this node is up", "peer", settled.Name)
				s.trans.gate.set(true, true)
				return
			}
			if err.Error() != said && s.ctx.Err() == nil {
				said = err.Error()
				s.log.Warn("a peer belongs to a cluster already, which did not let this empty node in yet", "peer", settled.Name, "error", err)
			}
		case fresh > min(len(peers), MaxVoters)/2:
			s.bootstrap(peers)
			return
		case said == "":
			said = "waiting"
			s.log.Info("waiting for a majority of the peers, to form a cluster or to be let into theirs", "peers", len(peers), "empty", fresh)
		}
		select {
		case <-time.After(formPause):
		case <-s.ctx.Done():
			return
		}
	}
}

// startingList is the list of peers with this node in it, by name.
func (s *Store) startingList() []Peer {
	peers := slices.Clone(s.cfg.Peers)
	if !slices.ContainsFunc(peers, func(p Peer) bool { return p.Name == s.cfg.Self }) {
		peers = append(peers, Peer{s.cfg.Self, s.cfg.Addr})
	}
	slices.SortFunc(peers, func(a, b Peer) int { return strings.Compare(a.Name, b.Name) })
	return peers
}

// askPeers returns a peer that belongs to a cluster, if one does, and how many of the voters to be are known to be fresh.
func (s *Store) askPeers(peers []Peer) (settled *Peer, fresh int) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i, p := range peers {
		vote := 0
		if i < MaxVoters {
			vote = 1
		}
		if p.Name == s.cfg.Self || s.cfg.Ask == nil { // without Ask: tests that know their nodes to be new
			mu.Lock()
			fresh += vote
			mu.Unlock()
			continue
		}
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(s.ctx, askTimeout)
			defer cancel()
			standing, err := s.cfg.Ask(ctx, p)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
			case standing == Settled && (settled == nil || p.Name < settled.Name):
				settled = &p
			case standing == Empty, standing == Begun:
				fresh += vote
			}
		})
	}
	wg.Wait()
	return settled, fresh
}

// bootstrap begins the cluster; a node that will not vote in it gets its beginning from those who do.
func (s *Store) bootstrap(peers []Peer) {
	if slices.IndexFunc(peers, func(p Peer) bool { return p.Name == s.cfg.Self }) >= MaxVoters {
		s.trans.gate.set(true, true)
		return
	}
	var conf raft.Configuration
	for i, p := range peers {
		srv := raft.Server{ID: raft.ServerID(p.Name), Address: raft.ServerAddress(p.Addr)}
		if i >= MaxVoters {
			srv.Suffrage = raft.Nonvoter
		}
		conf.Servers = append(conf.Servers, srv)
	}
	if err := s.raft.BootstrapCluster(conf).Error(); err != nil && !errors.Is(err, raft.ErrCantBootstrap) {
		s.log.Error("cannot form a cluster", "err", err)
		return
	}
	s.trans.gate.set(true, false)
}
