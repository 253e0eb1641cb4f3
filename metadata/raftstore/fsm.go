package raftstore

import (
	"fmt"
	"io"
	"sync"

	"github.com/hashicorp/raft"

	"warren/metadata/state"
)

// fsm is the state behind its lock, and those who follow it.
//
// Lock order: notify, then mu. notify is held over an apply and its callbacks, so that a subscriber sees every change once and in
// order; mu alone guards the state, so that callbacks may read it.
type fsm struct {
	notify sync.Mutex
	subs   []func(index uint64, changes []state.Change)

	mu    sync.RWMutex
	st    *state.State
	told  uint64        // the newest command that the subscribers have been told of
	moved chan struct{} // closed and replaced whenever told rises
}

func newFSM() *fsm { return &fsm{st: state.New(), moved: make(chan struct{})} }

// announced ends an apply: only now does the command count as applied here, so that who waited for it finds the subscribers (the
// failure detector among them) to know of it.
func (f *fsm) announced(index uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.told = index
	close(f.moved)
	f.moved = make(chan struct{})
}

// Apply implements raft.FSM; the value is a state.Result.
func (f *fsm) Apply(l *raft.Log) any {
	f.notify.Lock()
	defer f.notify.Unlock()
	f.mu.Lock()
	r, changes := f.st.Apply(l.Index, l.Data)
	f.mu.Unlock()
	if len(changes) > 0 {
		for _, fn := range f.subs {
			fn(l.Index, changes)
		}
	}
	f.announced(l.Index)
	return r
}

// Snapshot implements raft.FSM.
func (f *fsm) Snapshot() (raft.FSMSnapshot, error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return &fsmSnapshot{f.st.Image()}, nil
}

// Restore implements raft.FSM.
func (f *fsm) Restore(r io.ReadCloser) error {
	defer r.Close()
	data, err := io.ReadAll(r)
	if err != nil {
		return fmt.Errorf("read metadata snapshot: %w", err)
	}
	st, err := state.Load(data)
	if err != nil {
		return fmt.Errorf("restore metadata: %w", err)
	}
	f.notify.Lock()
	defer f.notify.Unlock()
	f.mu.Lock()
	f.st = st
	f.mu.Unlock()
	for _, fn := range f.subs {
		fn(st.Index(), []state.Change{{Kind: state.Reset}})
	}
	f.announced(st.Index())
	return nil
}

func (f *fsm) view(fn func(*state.State)) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	fn(f.st)
}

func (f *fsm) subscribe(fn func(index uint64, changes []state.Change)) {
	f.notify.Lock()
	defer f.notify.Unlock()
	f.subs = append(f.subs, fn)
	var index uint64
	f.view(func(s *state.State) { index = s.Index() })
	fn(index, []state.Change{{Kind: state.Reset}})
}

type fsmSnapshot struct{ image *state.Image }

// Persist implements raft.FSMSnapshot.
func (s *fsmSnapshot) Persist(w raft.SnapshotSink) error {
	data, err := s.image.Encode()
	if err == nil {
		_, err = w.Write(data)
	}
	if err != nil {
		if cerr := w.Cancel(); cerr != nil {
			return fmt.Errorf("write metadata snapshot: %w (and cancel: %w)", err, cerr)
		}
		return fmt.Errorf("write metadata snapshot: %w", err)
	}
	return w.Close()
}

// Release implements raft.FSMSnapshot.
func (s *fsmSnapshot) Release() {}
