package raftstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/raft"

	"warren/metadata/state"
)

// MaxVoters is how many nodes vote; more are non-voters and move up when seats fall free (metadata.md, Reads and writes).
const MaxVoters = 7

// tendPause is how often the leader compares the group's configuration with the nodes of the state.
const tendPause = 300 * time.Millisecond

// tend runs while this node leads: it gives a vote to members that are up, takes over addresses that changed, and forgets
// nodes that have left the group, so that configuration and state do not disagree for longer than a moment.
func (s *Store) tend(ctx context.Context) {
	tick := time.NewTicker(tendPause)
	defer tick.Stop()
	said := ""
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		err := s.tendOnce(ctx)
		text := ""
		if err != nil {
			text = err.Error()
		}
		if err != nil && text != said && !unsettled(err) && ctx.Err() == nil {
			s.log.Warn("the members of the metadata group could not be brought up to date, trying again", "error", err)
		}
		said = text
	}
}

// tendOnce makes at most one change of the configuration.
func (s *Store) tendOnce(ctx context.Context) error {
	members, err := s.Members()
	if err != nil {
		return err
	}
	var nodes []*state.Node
	s.View(func(st *state.State) { nodes = st.Nodes() })
	up := map[string]bool{}
	for _, n := range nodes {
		up[n.Name] = n.Status.Up()
	}
	voters := 0
	for _, m := range members {
		if m.Voter {
			voters++
		}
	}
	for _, m := range members {
		addr := raft.ServerAddress(s.addressOf(m))
		moved := string(addr) != m.Addr
		switch {
		case m.Voter && moved, !m.Voter && up[m.Name] && voters < MaxVoters:
			s.log.Info("member of the metadata group votes", "node", m.Name, "address", string(addr))
			return s.raft.AddVoter(raft.ServerID(m.Name), addr, 0, enqueueTimeout).Error()
		case moved:
			return s.raft.AddNonvoter(raft.ServerID(m.Name), addr, 0, enqueueTimeout).Error()
		}
	}
	return s.forgetDeparted(ctx, members, nodes)
}

func (s *Store) addressOf(m Member) string {
	if s.cfg.AddressOf != nil {
		if a := s.cfg.AddressOf(m.Name); a != "" {
			return a
		}
	}
	return m.Addr
}

// forgetDeparted proposes ForgetNode for nodes that are no members of the group any more. The group's configuration is changed
// first when a node leaves, and a node that joins is a member of the group before it is one of the state.
func (s *Store) forgetDeparted(ctx context.Context, members []Member, nodes []*state.Node) error {
	for _, n := range nodes {
		if n.Status.Up() || slices.ContainsFunc(members, func(m Member) bool { return m.Name == n.Name }) {
			continue
		}
		r, err := s.Propose(ctx, &state.ForgetNode{Node: n.Name})
		if err == nil {
			err = r.Refusal()
		}
		if err != nil && !errors.Is(err, state.ErrFeature) {
			return fmt.Errorf("forget %s: %w", n.Name, err)
		}
	}
	return nil
}

// Admit lets a node in that is empty: as a member without a vote, which it gets once it is up. What the group knew
// of a member of that name before, its vote above all, ends.
func (s *Store) Admit(ctx context.Context, p Peer) error {
	if _, err := s.ask(ctx, request{Kind: kindAdmit, Name: p.Name, Addr: p.Addr}); err != nil {
		return fmt.Errorf("let %s into the metadata group: %w", p.Name, err)
	}
	return nil
}

func (s *Store) admit(req request) reply {
	id := raft.ServerID(req.Name)
	ms, err := s.Members()
	if err != nil {
		return reply{Failed: err.Error()}
	}
	if req.Name == s.cfg.Self {
		return reply{Failed: "a node of that name leads the group"}
	}
	if slices.ContainsFunc(ms, func(m Member) bool { return m.Name == req.Name }) {
		s.log.Warn("a member of the metadata group lost its disk and is let in anew", "node", req.Name)
		if err := s.raft.RemoveServer(id, 0, enqueueTimeout).Error(); err != nil {
			return configured(err)
		}
	}
	return configured(s.raft.AddNonvoter(id, raft.ServerAddress(req.Addr), 0, enqueueTimeout).Error())
}

// KnowsMember asks the leader whether a node is a member of the group.
func (s *Store) KnowsMember(ctx context.Context, name string) (bool, error) {
	rep, err := s.ask(ctx, request{Kind: kindKnows, Name: name})
	if err != nil {
		return false, fmt.Errorf("ask whether %s is a member: %w", name, err)
	}
	return rep.Yes, nil
}

func (s *Store) knows(req request) reply {
	if err := s.raft.VerifyLeader().Error(); err != nil {
		return reply{Retry: true}
	}
	ms, err := s.Members()
	if err != nil {
		return reply{Failed: err.Error()}
	}
	return reply{Yes: slices.ContainsFunc(ms, func(m Member) bool { return m.Name == req.Name })}
}

// StepDown hands leadership, if this node has it, to one of the nodes named that votes, and returns when another leads or none
// of them could take it.
func (s *Store) StepDown(ctx context.Context, to []string) error {
	if !s.IsLeader() {
		return nil
	}
	ms, err := s.Members()
	if err != nil {
		return err
	}
	err = errors.New("no other voter is up")
	for _, m := range ms {
		if !m.Voter || m.Name == s.cfg.Self || !slices.Contains(to, m.Name) || ctx.Err() != nil {
			continue
		}
		err = s.raft.LeadershipTransferToServer(raft.ServerID(m.Name), raft.ServerAddress(m.Addr)).Error()
		if err == nil || !s.IsLeader() {
			return nil
		}
	}
	return fmt.Errorf("hand the leadership of the metadata over: %w", err)
}

// Yield is what a node does last before it stops in good order, when others go on: where they would lose their majority by
// its end, it gives up its vote, and so do members that stopped in good order before it. They get their votes back when
// they are up again. This node must not lead (StepDown).
func (s *Store) Yield(ctx context.Context, staying []string) error {
	ms, err := s.Members()
	if err != nil {
		return err
	}
	stopped := map[string]bool{s.cfg.Self: true}
	s.View(func(st *state.State) {
		for _, n := range st.Nodes() {
			if n.Status == state.NodeStopped {
				stopped[n.Name] = true
			}
		}
	})
	for _, name := range yielding(ms, stopped, staying, s.cfg.Self) {
		if _, err := s.ask(ctx, request{Kind: kindDemote, Name: name}); err != nil {
			return fmt.Errorf("give up the vote of %s: %w", name, err)
		}
	}
	return nil
}

// yielding are the voters whose votes have to go so that those who stay are a majority, self last; none if they are one
// anyway, or cannot become one.
func yielding(ms []Member, stopped map[string]bool, staying []string, self string) (names []string) {
	voters, stay, own := 0, 0, false
	for _, m := range ms {
		if !m.Voter {
			continue
		}
		voters++
		switch {
		case m.Name == self:
			own = true
		case slices.Contains(staying, m.Name):
			stay++
		case stopped[m.Name]:
			names = append(names, m.Name)
		}
	}
	if own {
		names = append(names, self)
	}
	if stay == 0 || stay > voters/2 || stay <= (voters-len(names))/2 {
		return nil
	}
	return names
}
