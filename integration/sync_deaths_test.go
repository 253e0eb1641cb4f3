package integration

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"warren/integration/cluster"
)

// copied is the policy of queues whose mirrors are copied to at once, and that wait rather than lose.
const copied = `{"ha-mode":"all","ha-sync-mode":"automatic","ha-promote-on-failure":"when-synced"}`

// syncingQueue makes a queue on node 1 that holds n messages of a kilobyte, and waits until its mirrors are being copied to.
func syncingQueue(t *testing.T, c *cluster.Cluster, queue string, n int) {
	t.Helper()
	c.Ctl(1, "set_policy", queue, "^"+queue+"$", `{"ha-mode":"exactly","ha-params":1}`, "--priority", "9")
	declareQueue(t, c, 1, queue)
	publishBodies(t, c, 1, queue, 1, n, 1000)
	c.Ctl(1, "set_policy", queue, "^"+queue+"$", copied, "--priority", "9")
	awaitSyncing(t, c, queue)
}

// awaitSyncing waits until something of a queue has been sent to its mirrors, and not all.
func awaitSyncing(t *testing.T, c *cluster.Cluster, queue string) {
	t.Helper()
	cluster.Eventually(t, hang, queue+" is being synchronised", func() bool { return syncSent(c, queue) > 0 })
}

// awaitCopying waits until each of both mirrors of a queue holds some of its n messages, and not all.
func awaitCopying(t *testing.T, c *cluster.Cluster, queue string, n int) {
	t.Helper()
	cluster.Eventually(t, hang, "both mirrors of "+queue+" have begun to hold it", func() bool {
		ring := c.Ctl(2, "-q", "ring", queue)
		return strings.Count(ring, "NOT synchronised, lacks ") == 2 && !strings.Contains(ring, fmt.Sprintf("lacks %d messages", n))
	})
}

// syncSent is how many bytes a synchronisation that is under way has sent; 0: there is none.
func syncSent(c *cluster.Cluster, queue string) int {
	cols := queueColumns(c, 2, queue, "state", "sync_bytes")
	if len(cols) != 2 || !strings.HasPrefix(cols[0], "{syncing, ") {
		return 0
	}
	n, _ := strconv.Atoi(cols[1])
	return n
}

// atOnce runs a command that must be answered within a second.
func atOnce(t *testing.T, c *cluster.Cluster, args ...string) {
	t.Helper()
	began := time.Now()
	c.Ctl(2, args...)
	if took := time.Since(began); took > time.Second {
		t.Errorf("%v took %v", args, took)
	}
}

// sentWhole counts the log lines by which a mirror was sent at least n messages of a queue at once.
func sentWhole(c *cluster.Cluster, queue string, n int) (whole int) {
	for i := 1; i <= c.Nodes; i++ {
		for line := range strings.Lines(c.Log(i)) {
			_, sent, ok := strings.Cut(line, "messages_sent=")
			if !ok || !strings.Contains(line, "queue="+queue+" ") || !strings.Contains(line, "was sent what it lacked") {
				continue
			}
			if k, err := strconv.Atoi(strings.Fields(sent)[0]); err == nil && k >= n {
				whole++
			}
		}
	}
	return whole
}

// masterDiesInMidCopy: the master of a queue dies while its mirrors are copied to, having deleted another one in the same state at once:
// the queue waits for it, and is in sync soon after.
func masterDiesInMidCopy(t *testing.T, c *cluster.Cluster, then func()) {
	t.Helper()
	syncingQueue(t, c, "gone", 4000)
	syncingQueue(t, c, "late", 4000)
	awaitCopying(t, c, "late", 4000)
	atOnce(t, c, "delete_queue", "gone")
	c.Kill(1)
	cluster.Eventually(t, hang, "late waits for its master", func() bool { return listAll(c, 2)["late"].state == "down" })
	then()
	c.Configure(1, "") // the rest may be fast
	c.StartNode(1)
	awaitCopies(t, c, "late", "its mirrors are in sync", inSync(2))
	if n := sentWhole(c, "late", 4000); n > 0 {
		t.Errorf("%d times a mirror was sent what it had been sent before", n)
	}
	if all := listAll(c, 2); all["late"].messages != 4000 || all["gone"] != (listed{}) {
		t.Errorf("after the return of the master: %+v", all)
	}
}
