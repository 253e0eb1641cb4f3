//go:build soak

package integration

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"warren/integration/cluster"
)

// TestFailoverTime kills the node that is both master and metadata leader FAILOVERS times (30) and prints how long
// a publisher on another node waited for its confirms.
func TestFailoverTime(t *testing.T) {
	times := int(number(t, "FAILOVERS", 30))
	c := cluster.Start(t, 3)
	c.Ctl(1, mirrorAll...)
	var waits []time.Duration
	for i := range times {
		queue := fmt.Sprintf("orders%d", i)
		leader := raftLeader(t, c, 1)
		declareQueue(t, c, leader, queue)
		for n := 1; n <= c.Nodes; n++ {
			mirrorsListed(t, c, n, queue, 2)
		}
		p := newPublisher("p1")
		done := make(chan struct{})
		go func() { defer close(done); p.run(c.URI(others(c, leader)[i%2]), queue, 4*publishRate) }()
		p.wait(t, hang, "half a second of confirms", func(p *publisher) bool { return len(p.confirmed) >= publishRate/2 })
		killed := time.Now()
		c.Kill(leader)
		<-done
		if p.err != nil {
			t.Fatalf("kill %d, of node %d: %v", i+1, leader, p.err)
		}
		waits = append(waits, p.longest)
		t.Logf("kill %d, of node %d at %s: %v", i+1, leader, killed.Format("15:04:05.000"), p.longest.Round(time.Millisecond))
		c.StartNode(leader)
		c.Ctl(leader, "delete_queue", queue)
	}
	slices.Sort(waits)
	t.Logf("median %v, nine of ten within %v, longest %v", waits[len(waits)/2], waits[len(waits)*9/10], waits[len(waits)-1])
	if os.Getenv("FAILOVER_LOGS") != "" {
		for i := 1; i <= 3; i++ {
			_ = os.WriteFile(fmt.Sprintf("%s.%d", os.Getenv("FAILOVER_LOGS"), i), []byte(c.Log(i)), 0o600)
		}
	}
}
