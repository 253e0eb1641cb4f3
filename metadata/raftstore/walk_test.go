package raftstore

import (
	"context"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"warren/metadata/state"
)

// walk takes nodes in and out of a group.
type walk struct {
	*cluster
	rng         *rand.Rand
	in          []string // members
	incarnation uint64
	ups         map[string]uint64
	longest     time.Duration
}

// join starts a node that was never a member, or was forgotten.
func (w *walk) join(ctx context.Context, name string) {
	w.t.Helper()
	w.start(name)
	if err := w.at(w.in[0]).Admit(ctx, Peer{name, w.nodes[name].addr}); err != nil {
		w.t.Fatal(err)
	}
	w.in = append(w.in, name)
	w.up(name)
}

func (w *walk) up(name string) {
	w.incarnation++
	w.ups[name] = w.incarnation
	w.goUp(name, w.incarnation)
}

// end stops a node, in good order or not, and tells the group.
func (w *walk) end(ctx context.Context, name string) {
	w.t.Helper()
	w.kill(name)
	down := state.DownNode{Node: name, Incarnation: w.ups[name], Reason: state.ReasonFailure, Fenced: true}
	if err := w.at(w.leader()).NodesDown(ctx, []state.DownNode{down}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *walk) empty(name string) {
	if err := os.RemoveAll(w.nodes[name].dir); err != nil {
		w.t.Fatal(err)
	}
}

// forget takes a node out of the group alone: that the state forgets it too is the leader's part.
func (w *walk) forget(ctx context.Context, name string) {
	w.t.Helper()
	w.end(ctx, name)
	w.in = slices.DeleteFunc(w.in, func(n string) bool { return n == name })
	if err := w.at(w.leader()).RemoveMember(ctx, name); err != nil {
		w.t.Fatal(err)
	}
	w.empty(name)
}

// step changes one thing; what it did is returned for the log.
func (w *walk) step(ctx context.Context) string {
	name := w.in[w.rng.IntN(len(w.in))]
	var out []string
	for n := range w.nodes {
		if !slices.Contains(w.in, n) {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	switch op := w.rng.IntN(4); {
	case op == 0 && len(out) > 0:
		w.join(ctx, out[0])
		return "join " + out[0]
	case op == 1 && len(w.in) > 3:
		w.forget(ctx, name)
		return "forget " + name
	case op == 2:
		w.end(ctx, name)
		w.empty(name)
		w.start(name)
		if err := w.at(w.leader()).Admit(ctx, Peer{name, w.nodes[name].addr}); err != nil {
			w.t.Fatal(err)
		}
		w.up(name)
		return "empty disk of " + name
	}
	if err := w.at(w.leader()).StepDown(ctx, w.in); err != nil {
		w.t.Fatal(err)
	}
	return "another leader"
}

// agree waits until every node that runs has the members in its configuration, all voting, and the same nodes in its state.
func (w *walk) agree(what string) {
	w.t.Helper()
	slices.Sort(w.in)
	want := strings.Join(w.in, " ")
	began := time.Now()
	w.eventually("members and state agree after: "+what, func() bool {
		for _, n := range w.in {
			var known []string
			w.at(n).View(func(s *state.State) {
				for _, r := range s.Nodes() {
					known = append(known, r.Name)
				}
			})
			ms, err := w.at(n).Members()
			if err != nil || len(ms) != len(w.in) || w.votes(n) != want || strings.Join(known, " ") != want {
				return false
			}
		}
		return true
	})
	w.longest = max(w.longest, time.Since(began))
}

// TestMembersAndStateAgree: whatever is done to who is a member, the configuration of the group and the nodes of the state are the
// same a moment later, on every node, and all vote.
func TestMembersAndStateAgree(t *testing.T) {
	const steps = 12
	w := &walk{cluster: newCluster(t, "a", "b", "c", "d", "e"), rng: rand.New(rand.NewPCG(9, 0)), in: []string{"a", "b", "c"}, ups: map[string]uint64{}}
	founders := w.peers[:3]
	w.tune = func(cfg *Config) {
		cfg.Peers, cfg.Join = founders, w.incarnation >= 3
		cfg.Init.Features = state.SupportedFeatures()
	}
	w.start(w.in...)
	for _, n := range w.in {
		w.up(n)
	}
	w.agree("forming")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for range steps {
		w.agree(w.step(ctx))
	}
	t.Logf("the longest disagreement of %d steps took %v", steps, w.longest)
}
