package raftstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"warren/metadata/policy"
	"warren/metadata/state"
)

const (
	// prepareAttempts bounds how often the leader matches names anew because policies or queues changed meanwhile.
	prepareAttempts = 10
	// matchTimeout bounds the matching of one policy against all names of a vhost.
	matchTimeout = 5 * time.Second
	// enqueueTimeout bounds the wait for a place in Raft's queue.
	enqueueTimeout = 5 * time.Second
	// serveTimeout bounds a request at the leader; the asking node repeats it.
	serveTimeout = 30 * time.Second
)

// leading is what this node knows of leadership, its own and others'.
type leading struct {
	mu        sync.Mutex
	ready     chan struct{} // closed once this node leads and has taken the term's first steps
	isReady   bool
	listeners map[int]func()
	next      int

	// gate holds back commands that create objects while policies are matched against all of them (state.Rematches).
	gate sync.RWMutex
}

func (l *leading) init() {
	l.ready = make(chan struct{})
	l.listeners = map[int]func(){}
}

func (l *leading) setReady(ready bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case ready && !l.isReady:
		close(l.ready)
	case !ready && l.isReady:
		l.ready = make(chan struct{})
	}
	l.isReady = ready
}

func (l *leading) wait(ctx context.Context) error {
	l.mu.Lock()
	ready := l.ready
	l.mu.Unlock()
	select {
	case <-ready:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// onChange calls fn whenever the known leader changes, until stop is called.
func (l *leading) onChange(fn func()) (stop func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	id := l.next
	l.next++
	l.listeners[id] = fn
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.listeners, id)
	}
}

func (l *leading) changed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, fn := range l.listeners {
		fn()
	}
}

// watchLeadership follows who leads. When it is this node, it takes the term's first steps.
func (s *Store) watchLeadership(notify <-chan bool) {
	obs := make(chan raft.Observation, 64)
	o := raft.NewObserver(obs, false, func(o *raft.Observation) bool {
		_, ok := o.Data.(raft.LeaderObservation)
		return ok
	})
	s.raft.RegisterObserver(o)
	defer s.raft.DeregisterObserver(o)
	var steps sync.WaitGroup
	cancel := func() {}
	defer func() { cancel(); steps.Wait() }()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-obs:
			s.leading.changed()
		case leader := <-notify:
			s.leading.setReady(false)
			cancel()
			steps.Wait()
			if leader {
				term, stop := context.WithCancel(s.ctx)
				cancel = stop
				steps.Go(func() {
					defer stop()
					s.takeOver(term)
					s.tend(term)
				})
			}
		}
	}
}

// takeOver are a new leader's first steps, before any other change goes through: initialise a new cluster, then close in one
// command every incarnation that counts as up and does not answer (metadata.md, NodesDown).
func (s *Store) takeOver(ctx context.Context) {
	for ctx.Err() == nil {
		err := s.firstSteps(ctx)
		if err == nil {
			s.leading.setReady(true)
			return
		}
		if errors.Is(err, raft.ErrNotLeader) || errors.Is(err, raft.ErrLeadershipLost) || errors.Is(err, raft.ErrRaftShutdown) {
			return
		}
		s.log.Warn("a new leader's first steps failed, trying again", "err", err)
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

func (s *Store) firstSteps(ctx context.Context) error {
	if err := s.raft.Barrier(enqueueTimeout).Error(); err != nil {
		return fmt.Errorf("barrier: %w", err)
	}
	var up []state.Place
	first := false
	s.View(func(st *state.State) {
		first = st.ClusterID() == ""
		for _, n := range st.Nodes() {
			if n.Status.Up() {
				up = append(up, state.Place{Node: n.Name, Incarnation: n.Incarnation})
			}
		}
	})
	if first && s.cfg.Init != nil {
		if _, err := s.commit(s.cfg.Init, state.Request{}); err != nil {
			return fmt.Errorf("initialise cluster: %w", err)
		}
	}
	if len(up) == 0 || s.cfg.Prober == nil {
		return nil
	}
	probe, cancel := context.WithTimeout(ctx, s.cfg.ProbeTimeout)
	gone := s.cfg.Prober.Gone(probe, up)
	cancel()
	if ctx.Err() != nil || len(gone) == 0 {
		return ctx.Err()
	}
	s.log.Info("nodes that do not answer the new leader are declared down", "nodes", gone)
	if _, err := s.commit(&state.NodesDown{Nodes: gone}, state.Request{}); err != nil {
		return fmt.Errorf("close %d nodes: %w", len(gone), err)
	}
	return nil
}

// commit has Raft commit a command as it is.
func (s *Store) commit(cmd state.Command, req state.Request) (state.Result, error) {
	data, err := state.Encode(cmd, req)
	if err != nil {
		return state.Result{}, err
	}
	f := s.raft.Apply(data, enqueueTimeout)
	if err := f.Error(); err != nil {
		return state.Result{}, fmt.Errorf("commit %T: %w", cmd, err)
	}
	s.committed(f.Index())
	r, ok := f.Response().(state.Result)
	if !ok {
		return state.Result{}, fmt.Errorf("commit %T: unexpected response %T", cmd, f.Response())
	}
	return r, nil
}

// serve answers a request at the leader.
func (s *Store) serve(ctx context.Context, req request) reply {
	ctx, cancel := context.WithTimeout(ctx, serveTimeout)
	defer cancel()
	if !s.IsLeader() {
		return reply{Retry: true}
	}
	if req.Kind == kindPropose || req.Kind == kindRead {
		ready, cancelReady := context.WithCancel(ctx)
		stop := s.leading.onChange(cancelReady)
		err := s.leading.wait(ready)
		stop()
		cancelReady()
		if err != nil {
			return reply{Retry: true}
		}
	}
	switch req.Kind {
	case kindPropose:
		return s.lead(ctx, req.Data)
	case kindRead:
		if err := s.raft.VerifyLeader().Error(); err != nil {
			return reply{Retry: true}
		}
		return reply{Result: state.Result{Index: s.Applied()}}
	case kindAdd:
		return configured(s.raft.AddVoter(raft.ServerID(req.Name), raft.ServerAddress(req.Addr), 0, enqueueTimeout).Error())
	case kindRemove:
		return configured(s.raft.RemoveServer(raft.ServerID(req.Name), 0, enqueueTimeout).Error())
	case kindAdmit:
		return s.admit(req)
	case kindKnows:
		return s.knows(req)
	case kindDemote:
		return configured(s.raft.DemoteVoter(raft.ServerID(req.Name), 0, enqueueTimeout).Error())
	}
	return reply{Failed: fmt.Sprintf("unknown request %d", req.Kind)}
}

func configured(err error) reply {
	switch {
	case err == nil:
		return reply{}
	case unsettled(err):
		return reply{Retry: true}
	}
	return reply{Failed: err.Error()}
}

// unsettled says whether the same request may get another answer from another leader, or later.
func unsettled(err error) bool {
	for _, e := range []error{raft.ErrNotLeader, raft.ErrLeadershipLost, raft.ErrLeadershipTransferInProgress, raft.ErrAbortedByRestore,
		raft.ErrEnqueueTimeout, raft.ErrRaftShutdown} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// lead prepares and commits a command. A change of policies is matched against all objects of its vhost: at first while others
// are created, and if that made it stale, while they are held back. Commands that need no preparation wait for nobody.
func (s *Store) lead(ctx context.Context, data []byte) reply {
	cmd, req, _, err := state.Decode(data)
	if err != nil || cmd == nil {
		return reply{Failed: fmt.Sprintf("the leader cannot read the command: %v", err)}
	}
	for attempt := 1; ; attempt++ {
		rep, again := s.tryLead(ctx, cmd, req, attempt > 1)
		if !again || attempt == prepareAttempts {
			return rep
		}
	}
}

// tryLead makes one attempt. again is true if the names have to be matched anew.
func (s *Store) tryLead(ctx context.Context, cmd state.Command, req state.Request, alone bool) (rep reply, again bool) {
	if rep, refused := s.unsupported(cmd); refused {
		return rep, false
	}
	var p *state.Preparation
	gather := func() { s.View(func(st *state.State) { p = state.Gather(cmd, st) }) }
	if gather(); p != nil {
		if state.Rematches(cmd) && alone {
			s.leading.gate.Lock()
			defer s.leading.gate.Unlock()
		} else {
			s.leading.gate.RLock()
			defer s.leading.gate.RUnlock()
		}
		gather() // what was there before the gate opened may be old
	}
	ready := cmd
	if p != nil {
		ctx, cancel := context.WithTimeout(ctx, matchTimeout)
		defer cancel()
		var err error
		if ready, err = p.Complete(ctx.Err); err != nil {
			return unprepared(err), false
		}
	}
	r, err := s.commit(ready, req)
	switch {
	case err != nil && unsettled(err):
		return reply{Retry: true}, false
	case err != nil:
		return reply{Failed: err.Error()}, false
	}
	return reply{Result: r}, p != nil && errors.Is(r.Refusal(), state.ErrStale)
}

// unsupported refuses a command that belongs to a feature flag which is not enabled (upgrades.md): a node that does not know it
// could not go on.
func (s *Store) unsupported(cmd state.Command) (rep reply, refused bool) {
	names := []string{state.FeatureOf(cmd)}
	enable, enabling := cmd.(*state.EnableFeature)
	if enabling {
		names = enable.Names
	}
	s.View(func(st *state.State) {
		for _, f := range names {
			switch node, missing := st.Unsupported(f); {
			case f == "":
			case enabling && missing:
				rep.Refused = &state.Error{Code: state.CodeFeature, Kind: state.KindFeature, Name: f, Detail: "not supported by node " + node}
			case !enabling && !st.FeatureEnabled(f):
				rep.Refused = &state.Error{Code: state.CodeFeature, Kind: state.KindFeature, Name: f,
					Detail: "not enabled; enable it with enable_feature_flag once every node runs a version that supports it"}
			}
		}
	})
	return rep, rep.Refused != nil
}

func unprepared(err error) reply {
	var invalid *policy.ValidationError
	var refused *state.Error
	switch {
	case errors.As(err, &invalid):
		return reply{Invalid: invalid.Text}
	case errors.As(err, &refused):
		return reply{Refused: refused}
	case errors.Is(err, context.DeadlineExceeded):
		return reply{Refused: &state.Error{Code: state.CodePattern, Kind: state.KindPolicy, Detail: "matching all names takes too long"}}
	}
	return reply{Failed: err.Error()}
}
