package integration

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"warren/integration/cluster"
)

// freeAddress is a loopback address on which nobody listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

// restore makes the data directory of a node that does not run a copy of another.
func restore(t *testing.T, to, from string) {
	t.Helper()
	if err := os.RemoveAll(to); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
}

// endsWith starts node i on what it has now; it has to end by itself and say so.
func endsWith(t *testing.T, c *cluster.Cluster, i int, text string) {
	t.Helper()
	before := strings.Count(c.Log(i), text)
	if said := c.StartFails(i); strings.Count(c.Log(i), text) == before {
		t.Errorf("%s ended with\n%s, not with %q", c.Name(i), said, text)
	}
}

// knownAddress is where node at thinks that node i's inter-node listener is.
func knownAddress(c *cluster.Cluster, at, i int) string {
	var s struct {
		Listeners map[string][]struct {
			Interface string `json:"interface"`
			Port      int    `json:"port"`
			Protocol  string `json:"protocol"`
		} `json:"listeners"`
	}
	if err := json.Unmarshal([]byte(c.Tool("rabbitmqctl", at, "cluster_status", "--formatter", "json").Stdout), &s); err != nil {
		return ""
	}
	for _, l := range s.Listeners[c.Name(i)] {
		if l.Protocol == "clustering" {
			return fmt.Sprintf("%s:%d", l.Interface, l.Port)
		}
	}
	return ""
}

// TestDisks has a node come back under load: on a copy of its data directory that was made while it was stopped; on one that it has
// been up since, which it refuses, however often; on an empty one; at another address; and after force_reset. No message is lost or
// doubled. Another name for the same disk is refused.
func TestDisks(t *testing.T) {
	c := cluster.Start(t, 3)
	c.Ctl(1, mirrorAll...)
	declareQueue(t, c, 1, "orders")
	mirrorsListed(t, c, 1, "orders", 2)
	const each = failoverMessages / 4
	l := startLoadOnFirst(c, 2, "orders", 2*each)
	l.reach(t, 200)

	copied := filepath.Join(t.TempDir(), "copy")
	c.StopNode(3)
	restore(t, copied, c.DataDir(3))
	r := c.Shell(fmt.Sprintf("bin/warren server --node other@localhost --data %s --config %s", c.DataDir(3), filepath.Join(c.Dir, "rabbit3", "rabbitmq.conf")))
	if out, err := r.CombinedOutput(); err == nil || !strings.Contains(string(out), "a node cannot be renamed") {
		t.Errorf("another name for the same disk: %v\n%s", err, out)
	}
	refusedWith(t, c.Tool("rabbitmqctl", 3, "rename_cluster_node", c.Name(3), "other@localhost"), 69, "A node cannot be renamed")

	restore(t, c.DataDir(3), copied)
	c.StartNode(3)
	mirrorsListed(t, c, 3, "orders", 2)
	l.reach(t, each/2)
	c.StopNode(3)
	restore(t, c.DataDir(3), copied)
	endsWith(t, c, 3, "is older than what the cluster knows of rabbit3@localhost")
	endsWith(t, c, 3, "is older than what the cluster knows of rabbit3@localhost") // as a service manager starts it again
	if err := os.RemoveAll(c.DataDir(3)); err != nil {
		t.Fatal(err)
	}
	c.StartNode(3)
	mirrorsListed(t, c, 1, "orders", 2)
	confirmed := l.finish(t, 2*each)

	moves := newPublisher("moves")
	l.done.Go(func() { moves.run(c.URI(1), "orders", each) })
	moves.wait(t, hang, "the load goes on", func(p *publisher) bool { return len(p.confirmed) > 200 })
	address := freeAddress(t)
	c.StopNode(2)
	c.Configure(2, "warren.internode.listen = "+address+"\nwarren.internode.address = "+address)
	c.Spawn(2)
	cluster.Eventually(t, hang, "the others know the new address", func() bool {
		return knownAddress(c, 1, 2) == address && knownAddress(c, 3, 2) == address
	})
	allAgree(t, c, 1, 2, 3)
	c.Ctl(3, "stop_app")
	c.Ctl(3, "force_reset")
	c.Ctl(3, "start_app") // it finds its cluster by the list of peers, and is let in as a node that lost its disk
	allAgree(t, c, 1, 2, 3)
	mirrorsListed(t, c, 3, "orders", 2)
	l.done.Wait()
	if moves.err != nil || len(moves.confirmed) != each {
		t.Errorf("%d of %d confirmed: %v", len(moves.confirmed), each, moves.err)
	}
	confirmed[moves.name] = moves.confirmed
	drainAll(t, c, 2, "orders", confirmed)
}
