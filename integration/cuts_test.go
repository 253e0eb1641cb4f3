package integration

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"warren/integration/cluster"
)

// cutLines make nodes notice a cut soon.
const cutLines = "warren.heartbeat_interval = 200ms\nwarren.lease = 1200ms\nwarren.unreachable_after = 1200ms\n"

// cuts is a chaos test whose nodes' links are cut.
type cuts struct {
	*chaos
	net *cluster.Network
}

func newCuts(t *testing.T) *cuts {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	c, net := cluster.StartCut(t, 3, cutLines)
	return &cuts{newChaos(t, c, seed), net}
}

// during cuts links, does something, heals them and has all promises judged.
func (x *cuts) during(what string, cut, then func()) {
	x.t.Helper()
	x.t.Log(time.Now().Format("15:04:05.000 ") + what)
	for i := 1; i <= x.c.Nodes; i++ {
		x.ledger.disturb(i)
	}
	cut()
	then()
	x.net.Heal()
	x.settle()
	oneMasterPerEpoch(x.t, x.c)
}

var masterLine = regexp.MustCompile(`(?:this node's copy is master|promoted without being synchronised)" node=(\S+) queue=(\S+) vhost=\S+ epoch=(\d+)`)

// oneMasterPerEpoch: no two nodes acted as master of a queue in the same epoch.
func oneMasterPerEpoch(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	acted := map[string]string{}
	for i := 1; i <= c.Nodes; i++ {
		for _, m := range masterLine.FindAllStringSubmatch(c.Log(i), -1) {
			term := m[2] + " in epoch " + m[3]
			if other := acted[term]; other != "" && other != m[1] {
				t.Errorf("%s and %s were both master of %s", other, m[1], term)
			}
			acted[term] = m[1]
		}
	}
	if len(acted) == 0 {
		t.Error("no log says who is master")
	}
}

// B58, B61, B11: a node that is cut off from both others, master of a queue and leader of the metadata, closes its clients and
// confirms nothing; the others go on, and it comes back by itself. Nothing that was confirmed is lost.
func TestLinksAreCut(t *testing.T) {
	x := newCuts(t)
	alone := raftLeader(t, x.c, 1)
	rest := others(x.c, alone)
	queue := x.queues[alone-1]
	x.during("the leader, which is master, is cut off", func() { x.net.Isolate(alone) }, func() {
		awaitCopiesAt(t, x.c, rest[0], queue, "another node is master", func(k copies) bool { return k.master != alone })
		if confirmed, _ := publishTo(t, x.c, rest[1], declaredAt(t, x.c, rest[0], "meanwhile"), 10); confirmed != 10 {
			t.Errorf("the majority confirmed %d of 10", confirmed)
		}
		x.awaitPaused(alone)
	})
}

func declaredAt(t *testing.T, c *cluster.Cluster, i int, queue string) string {
	declareQueue(t, c, i, queue)
	return queue
}

// paused is 1 if a node says that it is paused.
func (x *cuts) paused(i int) int {
	if r := x.c.Tool("rabbitmqctl", i, "status", "--formatter", "json"); strings.Contains(r.Stdout, `"state":"paused"`) {
		return 1
	}
	return 0
}

func (x *cuts) awaitPaused(i int) {
	x.t.Helper()
	cluster.Eventually(x.t, hang, x.c.Name(i)+" is paused", func() bool { return x.paused(i) == 1 })
}
