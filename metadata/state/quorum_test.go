package state

import (
	"testing"
)

// TestQuorumBecomesMirrored: a queue declared as a quorum queue is mirrored by itself, as its arguments say, and goes back to that
// when a policy that mirrors it otherwise is gone. The command belongs to a flag: an older version would not mirror it.
func TestQuorumBecomesMirrored(t *testing.T) {
	m := newMachine(t, "a", "b", "c", "d", "e")
	quorum := Argument{argQueueType, "longstr", "quorum"}
	q := DeclareQueue{Vhost: "/", Name: "q", Durable: true, Node: "a", Compared: []Argument{quorum}}
	wide := DeclareQueue{Vhost: "/", Name: "wide", Durable: true, Node: "a", Compared: []Argument{quorum, {argGroupSize, "signedint", "5"}}}
	plain := DeclareQueue{Vhost: "/", Name: "plain", Durable: true, Node: "a"}
	for _, d := range []DeclareQueue{q, wide, plain} {
		m.ok(&d)
	}
	if FeatureOf(&q) != FeatureQuorum || FeatureOf(&plain) != "" {
		t.Errorf("flags %q and %q", FeatureOf(&q), FeatureOf(&plain))
	}
	copies := func(name string, want int, sync string) {
		t.Helper()
		got, _ := m.s.Queue("/", name)
		if ha := got.Effective.HA(); len(got.Members) != want || ha.SyncMode != sync {
			t.Errorf("%s has %d members, %s", name, len(got.Members), ha.SyncMode)
		}
	}
	copies("q", 3, "automatic")
	copies("wide", 5, "automatic")
	copies("plain", 1, "manual")
	m.policy("p", "", `{"ha-mode":"exactly","ha-params":2}`)
	copies("q", 2, "manual")
	m.ok(&ClearPolicy{Vhost: "/", Name: "p"})
	copies("q", 3, "automatic")
}
