package exchange

import (
	"fmt"
	"testing"
)

// Each message goes to one queue, always the same for one key, in shares as the weights are; a queue that goes moves only what
// was its own.
func TestConsistentHash(t *testing.T) {
	tab := NewTable()
	mustDeclare(t, tab, "x", ConsistentHash, nil)
	for q, weight := range map[string]string{"a": "1", "b": "1", "c": "2", "never": "0"} {
		mustBind(t, tab, Binding{Source: "x", Destination: q, Key: weight})
	}
	const n = 8000
	before, shares := map[string]string{}, map[string]int{}
	for i := range n {
		key := fmt.Sprint("key", i)
		q := routed(t, tab, Message{Exchange: "x", Key: key})
		before[key] = q
		shares[q]++
	}
	for q, want := range map[string]int{"a": n / 4, "b": n / 4, "c": n / 2} {
		if got := shares[q]; got < want*7/10 || got > want*13/10 {
			t.Errorf("%s got %d, about %d are due", q, got, want)
		}
	}
	tab.Unbind(Binding{Source: "x", Destination: "b", Key: "1"})
	for key, q := range before {
		if now := routed(t, tab, Message{Exchange: "x", Key: key}); now != q && q != "b" || now == "b" {
			t.Fatalf("%s moved from %s to %s", key, q, now)
		}
	}
}

func TestConsistentHashArguments(t *testing.T) {
	tab := NewTable()
	mustDeclare(t, tab, "h", ConsistentHash, map[string]any{"hash-header": "user"})
	mustDeclare(t, tab, "p", ConsistentHash, map[string]any{"hash-property": "message_id"})
	for i := range 20 {
		mustBind(t, tab, Binding{Source: "h", Destination: fmt.Sprint("q", i), Key: "1"})
		mustBind(t, tab, Binding{Source: "p", Destination: fmt.Sprint("q", i), Key: "1"})
	}
	seen := map[string]bool{}
	for i := range 50 {
		m := Message{
			Key:      fmt.Sprint(i),
			Headers:  func() map[string]any { return map[string]any{"user": "same"} },
			Property: func(name string) string { return name },
		}
		for _, x := range []string{"h", "p"} {
			m.Exchange = x
			seen[x+routed(t, tab, m)] = true
		}
	}
	if len(seen) != 2 {
		t.Errorf("one header and one property led to %v", seen)
	}
	for key, want := range map[string]bool{"1": true, "0": true, "-1": false, "a": false, "1001": false, "": false} {
		if _, ok := Weight(key); ok != want {
			t.Errorf("weight %q: %t", key, ok)
		}
	}
}

// TestConsistentHashHeaviestBindingCounts: of two bindings of one queue the heavier counts, and the other when that is gone.
func TestConsistentHashHeaviestBindingCounts(t *testing.T) {
	tab := NewTable()
	mustDeclare(t, tab, "x", ConsistentHash, nil)
	mustBind(t, tab, Binding{Source: "x", Destination: "a", Key: "1"})
	for _, weight := range []string{"1", "3"} {
		mustBind(t, tab, Binding{Source: "x", Destination: "b", Key: weight})
	}
	const n = 8000
	share := func() (b int) {
		for i := range n {
			if routed(t, tab, Message{Exchange: "x", Key: fmt.Sprint("key", i)}) == "b" {
				b++
			}
		}
		return b
	}
	if got := share(); got < n*65/100 || got > n*85/100 {
		t.Errorf("b got %d of %d with weight 3 against 1", got, n)
	}
	tab.Unbind(Binding{Source: "x", Destination: "b", Key: "3"})
	if got := share(); got < n*35/100 || got > n*65/100 {
		t.Errorf("b got %d of %d with weight 1 against 1", got, n)
	}
}
