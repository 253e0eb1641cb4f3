package integration

import (
	"fmt"
	"slices"
	"testing"

	"warren/integration/cluster"
)

// Queues that are all synchronised at once share what may be under way to a node; none of them waits for ever, and each mirror
// has everything afterwards.
func TestManyQueuesAreSynchronisedAtOnce(t *testing.T) {
	const queues, messages = 20, 250
	c := cluster.Start(t, 3)
	for i := range queues {
		declareQueue(t, c, 1, fmt.Sprintf("many%d", i))
		publishBodies(t, c, 1, fmt.Sprintf("many%d", i), 1, messages, 4096)
	}
	c.Ctl(1, "set_policy", "all", "^", `{"ha-mode":"all","ha-sync-mode":"automatic"}`)
	for i := range queues {
		awaitCopies(t, c, fmt.Sprintf("many%d", i), "is synchronised", inSync(2))
	}
	c.Kill(1)
	for _, i := range []int{0, queues / 2, queues - 1} {
		q := fmt.Sprintf("many%d", i)
		awaitCopiesAt(t, c, 2, q, "a mirror is promoted", func(k copies) bool { return k.master != 1 && k.master != 0 })
		if got, want := clipped(takeReady(t, c, 2, q, 0)), numbers(1, messages); !slices.Equal(got, want) {
			t.Errorf("%s: the promoted mirror held %d messages, want %d", q, len(got), len(want))
		}
	}
}
