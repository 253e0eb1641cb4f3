package state

import (
	"fmt"
	"testing"
)

// BenchmarkNodesDown closes a node that has a copy of 10,000 queues, a third of them as master: the time in which nothing else is
// applied when a node dies.
func BenchmarkNodesDown(b *testing.B) {
	m := &machine{t: b, s: New()}
	m.apply(&InitCluster{ID: "id", Name: "n", User: "guest"})
	nodes := []string{"a", "b", "c"}
	for _, n := range nodes {
		m.apply(&NodeUp{Node: n, Incarnation: 1})
	}
	m.policy("ha", "^", haAll)
	for i := range 10_000 {
		m.apply(&DeclareQueue{Vhost: "/", Name: fmt.Sprintf("queue-%05d", i), Durable: true, Node: nodes[i%3]})
	}
	data, err := m.s.Image().Encode()
	if err != nil {
		b.Fatal(err)
	}
	down, err := Encode(&NodesDown{Nodes: []DownNode{{Node: "a", Incarnation: 1, Reason: ReasonFailure}}}, Request{})
	if err != nil {
		b.Fatal(err)
	}
	for range b.N {
		b.StopTimer()
		s, err := Load(data)
		if err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		s.Apply(m.index+1, down)
	}
}
