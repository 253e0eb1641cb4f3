package raftstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/vmihailenco/msgpack/v5"

	"warren/metadata/policy"
	"warren/metadata/state"
)

// retryPause is how long a proposal waits before it looks for a leader again.
const retryPause = 10 * time.Millisecond

// Propose has a command executed, from any node: it is prepared and committed by the leader, found again and repeated while
// there is none, and executed once however often it is repeated. It returns the replicated result when it has been applied on
// this node. A refusal is in Result.Err (also as error by Result.Refusal), with a nil error.
//
// The error is ctx's when it ended first (the command may still be executed later), ErrClosed, a *policy.ValidationError for a
// pattern that does not compile, or a *state.Error with CodePattern or CodeForgotten.
func (s *Store) Propose(ctx context.Context, cmd state.Command) (state.Result, error) {
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	case <-ctx.Done():
		return state.Result{}, fmt.Errorf("propose %T: %w", cmd, ctx.Err())
	case <-s.ctx.Done():
		return state.Result{}, ErrClosed
	}
	req := s.begin()
	defer s.end(req.Seq)
	data, err := state.Encode(cmd, req)
	if err != nil {
		return state.Result{}, err
	}
	rep, err := s.ask(ctx, request{Kind: kindPropose, Data: data})
	if err != nil {
		return state.Result{}, fmt.Errorf("propose %T: %w", cmd, err)
	}
	if err := s.WaitApplied(ctx, rep.Result.Index); err != nil {
		return rep.Result, err
	}
	return rep.Result, nil
}

// NodesDown proposes the command of that name; a refusal comes back as a *state.Error. With Leader, IsLeader, Applied, Voters and
// ElectNow it makes the Store what metadata/detector needs of Raft.
func (s *Store) NodesDown(ctx context.Context, down []state.DownNode) error {
	r, err := s.Propose(ctx, &state.NodesDown{Nodes: down})
	if err != nil {
		return err
	}
	return r.Refusal()
}

// CatchUp waits until this node has applied everything that was committed when it was called: what a node does before it
// proposes its NodeUp.
func (s *Store) CatchUp(ctx context.Context) error {
	rep, err := s.ask(ctx, request{Kind: kindRead})
	if err != nil {
		return fmt.Errorf("catch up with the metadata leader: %w", err)
	}
	return s.WaitApplied(ctx, rep.Result.Index)
}

// AddVoter makes a node a voter of the group; it must be running with an empty store (Config.Join). Repeating it is harmless.
func (s *Store) AddVoter(ctx context.Context, p Peer) error {
	if _, err := s.ask(ctx, request{Kind: kindAdd, Name: p.Name, Addr: p.Addr}); err != nil {
		return fmt.Errorf("add %s to the metadata group: %w", p.Name, err)
	}
	return nil
}

// RemoveMember takes a node out of the group. Repeating it is harmless.
func (s *Store) RemoveMember(ctx context.Context, name string) error {
	if _, err := s.ask(ctx, request{Kind: kindRemove, Name: name}); err != nil {
		return fmt.Errorf("remove %s from the metadata group: %w", name, err)
	}
	return nil
}

func (s *Store) begin() state.Request {
	s.seqMu.Lock()
	defer s.seqMu.Unlock()
	s.seq++
	s.inFlight = append(s.inFlight, s.seq)
	return state.Request{Session: s.session, Seq: s.seq, Lowest: s.inFlight[0]}
}

func (s *Store) end(seq uint64) {
	s.seqMu.Lock()
	defer s.seqMu.Unlock()
	if i, ok := slices.BinarySearch(s.inFlight, seq); ok {
		s.inFlight = slices.Delete(s.inFlight, i, i+1)
	}
}

// Kinds of forwarded requests.
const (
	kindPropose = iota + 1
	kindRead
	kindAdd
	kindRemove
	kindAdmit
	kindDemote
	kindKnows
)

// request goes to the leader.
type request struct {
	Kind uint8  `msgpack:"k"`
	Data []byte `msgpack:"d"`
	Name string `msgpack:"n"`
	Addr string `msgpack:"a"`
}

// reply comes from it. Retry: not the leader, or no longer, or not ready; the outcome is unknown, ask again.
type reply struct {
	Retry   bool         `msgpack:"r"`
	Result  state.Result `msgpack:"s"`
	Refused *state.Error `msgpack:"e"` // refused before it was proposed
	Invalid string       `msgpack:"v"` // a policy.ValidationError
	Failed  string       `msgpack:"f"`
	Yes     bool         `msgpack:"y,omitempty"`
}

func (r reply) err() error {
	switch {
	case r.Refused != nil:
		return r.Refused
	case r.Invalid != "":
		return &policy.ValidationError{Text: r.Invalid}
	case r.Failed != "":
		return errors.New(r.Failed)
	case r.Result.Err != nil && r.Result.Err.Code == state.CodeForgotten:
		return r.Result.Err
	}
	return nil
}

// ask brings a request to whoever leads, until it is answered or ctx ends.
func (s *Store) ask(ctx context.Context, req request) (reply, error) {
	for {
		rep := s.askOnce(ctx, req)
		if !rep.Retry {
			return rep, rep.err()
		}
		select {
		case <-time.After(retryPause):
		case <-ctx.Done():
			leader, _ := s.Leader()
			return reply{}, fmt.Errorf("no answer from the metadata leader (%q): %w", leader, ctx.Err())
		case <-s.ctx.Done():
			return reply{}, ErrClosed
		}
	}
}

func (s *Store) askOnce(ctx context.Context, req request) reply {
	leader, _ := s.Leader()
	switch leader {
	case "":
		return reply{Retry: true}
	case s.cfg.Self:
		return s.serve(ctx, req)
	}
	data, err := encode(&req)
	if err != nil {
		return reply{Failed: err.Error()}
	}
	// An attempt ends when the leader that it went to is no longer the one, since a paused node answers nothing.
	attempt, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := s.leading.onChange(cancel)
	defer stop()
	if now, _ := s.Leader(); now != leader {
		return reply{Retry: true}
	}
	answer, err := s.cfg.Forward(attempt, leader, data)
	if err != nil {
		return reply{Retry: true}
	}
	var rep reply
	if err := msgpack.NewDecoder(bytes.NewReader(answer)).Decode(&rep); err != nil {
		return reply{Failed: fmt.Sprintf("answer of %s: %v", leader, err)}
	}
	return rep
}

// HandleForward answers a request that another node's Store sent here through Config.Forward. The error is for a request that
// cannot be read; everything else is in the answer.
func (s *Store) HandleForward(ctx context.Context, data []byte) ([]byte, error) {
	var req request
	if err := msgpack.NewDecoder(bytes.NewReader(data)).Decode(&req); err != nil {
		return nil, fmt.Errorf("read forwarded request: %w", err)
	}
	rep := s.serve(ctx, req)
	return encode(&rep)
}

func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := msgpack.NewEncoder(&b)
	enc.UseCompactInts(true)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("encode %T: %w", v, err)
	}
	return b.Bytes(), nil
}
