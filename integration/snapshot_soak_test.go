//go:build soak

package integration

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"warren/integration/cluster"
)

// changeMetadata declares and deletes so many queues through node i.
func changeMetadata(t *testing.T, c *cluster.Cluster, i, count int) {
	t.Helper()
	conn, ch := dialChannel(t, c, i)
	defer conn.Close()
	for k := range count {
		name := fmt.Sprintf("passing%d", k)
		if _, err := ch.QueueDeclare(name, false, false, false, false, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := ch.QueueDelete(name, false, false, false); err != nil {
			t.Fatal(err)
		}
	}
}

// TestMetadataSnapshotUnderLoad: while messages flow, so much of the metadata changes that the log which a node that is away would need
// is cut: it gets a snapshot, one that was killed and one that only stood still.
func TestMetadataSnapshotUnderLoad(t *testing.T) {
	c := cluster.StartConfigured(t, 3, "warren.metadata_snapshot_after = 32")
	c.Ctl(1, "set_policy", "ha-all", "^orders", `{"ha-mode":"all"}`)
	leader := raftLeader(t, c, 1)
	away, other := others(c, leader)[0], others(c, leader)[1]
	declareQueue(t, c, other, "orders")
	mirrorsListed(t, c, leader, "orders", 2)
	const messages = 6 * failoverMessages
	l := startLoad(c, "orders", messages)
	for _, how := range []string{"killed", "suspended"} {
		l.reach(t, 1000)
		before := c.Log(away)
		if how == "killed" {
			c.Kill(away)
		} else {
			c.Signal(away, syscall.SIGSTOP)
		}
		snapshots := strings.Count(c.Log(leader), "snapshot complete up to")
		changeMetadata(t, c, other, 60)
		cluster.Eventually(t, hang, "the leader has cut its log twice", func() bool {
			changeMetadata(t, c, other, 2)
			return strings.Count(c.Log(leader), "snapshot complete up to") >= snapshots+2
		})
		if how == "killed" {
			c.StartNode(away)
		} else {
			c.Signal(away, syscall.SIGCONT)
		}
		cluster.Eventually(t, hang, "the node that was "+how+" got a snapshot", func() bool {
			return strings.Contains(strings.TrimPrefix(c.Log(away), before), "Installed remote snapshot")
		})
		l.underWayOf(t, other)
		allAgree(t, c, 1, 2, 3)
		mirrorsListed(t, c, away, "orders", 2)
	}
	confirmed := l.finish(t, messages, away)
	drainAll(t, c, away, "orders", confirmed)
	if kept, err := filepath.Glob(filepath.Join(c.DataDir(leader), "raft", "snapshots", "*")); err != nil || len(kept) == 0 || len(kept) > 2 {
		t.Errorf("snapshots kept: %v, %v", kept, err)
	}
}
