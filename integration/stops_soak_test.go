//go:build soak

package integration

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"warren/integration/cluster"
)

// TestStopsUnderLoad stops the whole cluster while messages flow, at once and one node after the other, by SIGTERM and by rabbitmqctl, and
// starts it in another order each time: what was confirmed is there, once.
func TestStopsUnderLoad(t *testing.T) {
	c := cluster.Start(t, 3)
	c.Ctl(1, mirrorAll...)
	rng := rand.New(rand.NewPCG(3, 0))
	for round := range 6 {
		queue := fmt.Sprintf("orders%d", round)
		declareQueue(t, c, round%3+1, queue)
		awaitCopiesAt(t, c, 1, queue, "every mirror is synchronised", inSync(2))
		l := startLoad(c, queue, 3*failoverMessages)
		l.reach(t, 500)
		order := rng.Perm(3)
		stop := func(i int) {
			if round < 3 {
				c.StopNode(i + 1)
				return
			}
			c.Ctl(i+1, "stop")
			cluster.Eventually(t, hang, c.Name(i+1)+" has stopped", func() bool { return !c.Runs(i + 1) })
		}
		if round%2 == 0 {
			var all sync.WaitGroup
			for _, i := range order {
				all.Go(func() { stop(i) })
			}
			all.Wait()
		} else {
			for _, i := range order {
				stop(i)
			}
		}
		confirmed := l.finish(t, 3*failoverMessages, 1, 2, 3)
		for name, numbers := range confirmed {
			if len(numbers) == 0 || len(numbers) >= l.each {
				t.Errorf("round %d: %d of %d messages of %s were confirmed before the stop", round, len(numbers), l.each, name)
			}
		}
		rng.Shuffle(3, func(i, j int) { order[i], order[j] = order[j], order[i] })
		c.StartNodes(order[0]+1, order[1]+1, order[2]+1)
		allAgree(t, c, 1, 2, 3)
		drainAll(t, c, order[0]+1, queue, confirmed)
	}
}
