package integration

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"warren/integration/cluster"
)

const hang = time.Minute // bounds hangs; what an issue promises is measured, not asserted

func TestMain(m *testing.M) { os.Exit(cluster.Main(m)) }

var mirrorAll = []string{"set_policy", "ha-all", "^", `{"ha-mode":"all"}`, "--apply-to", "all"}

// declareQueue declares a durable queue through node i, where its master is then placed.
func declareQueue(t *testing.T, c *cluster.Cluster, i int, name string) {
	t.Helper()
	conn, err := amqp.Dial(c.URI(i))
	if err != nil {
		t.Fatalf("dial %s: %v", c.Name(i), err)
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err != nil {
		t.Fatalf("open a channel on %s: %v", c.Name(i), err)
	}
	if _, err := ch.QueueDeclare(name, true, false, false, false, nil); err != nil {
		t.Fatalf("declare %s on %s: %v", name, c.Name(i), err)
	}
}

var pidNode = regexp.MustCompile(`<([^<>]+@[^.<>]+)\.\d+\.\d+\.\d+>`)

// nodesOf names, in order, the nodes of the process identifiers in a column of list_queues.
func nodesOf(column string) []string {
	var nodes []string
	for _, m := range pidNode.FindAllStringSubmatch(column, -1) {
		nodes = append(nodes, m[1])
	}
	return nodes
}

// queueColumns lists columns of one queue through node i; nil if it is not listed.
func queueColumns(c *cluster.Cluster, i int, queue string, columns ...string) []string {
	r := c.Tool("rabbitmqctl", i, append([]string{"-q", "list_queues", "name"}, columns...)...)
	for _, line := range strings.Split(r.Stdout, "\n") {
		if fields := strings.Split(line, "\t"); fields[0] == queue && len(fields) == len(columns)+1 {
			return fields[1:]
		}
	}
	return nil
}

func masterOf(t *testing.T, c *cluster.Cluster, i int, queue string) int {
	t.Helper()
	var master string
	cluster.Eventually(t, hang, "a master of "+queue+" is listed", func() bool {
		cols := queueColumns(c, i, queue, "pid")
		if cols == nil || len(nodesOf(cols[0])) != 1 {
			return false
		}
		master = nodesOf(cols[0])[0]
		return true
	})
	return c.Index(master)
}

// raftLeader is the node that cluster_status names as the metadata leader.
func raftLeader(t *testing.T, c *cluster.Cluster, through int) int {
	t.Helper()
	leader := ""
	cluster.Eventually(t, hang, "a metadata leader is named", func() bool {
		var status struct {
			Leader string `json:"metadata_leader"`
		}
		r := c.Tool("rabbitmqctl", through, "cluster_status", "--formatter", "json")
		if err := json.Unmarshal([]byte(r.Stdout), &status); err != nil {
			return false
		}
		leader = status.Leader
		return leader != ""
	})
	return c.Index(leader)
}

// mirrorsListed waits until node i lists want mirrors of queue.
func mirrorsListed(t *testing.T, c *cluster.Cluster, i int, queue string, want int) {
	t.Helper()
	cluster.Eventually(t, hang, fmt.Sprintf("%s lists %d mirrors of %s", c.Name(i), want, queue), func() bool {
		cols := queueColumns(c, i, queue, "slave_pids")
		return cols != nil && len(nodesOf(cols[0])) == want
	})
}

// others are the numbers of all nodes but one.
func others(c *cluster.Cluster, but int) []int {
	var rest []int
	for i := 1; i <= c.Nodes; i++ {
		if i != but {
			rest = append(rest, i)
		}
	}
	return rest
}

// load is one publisher on each node.
type load struct {
	publishers []*publisher // by node, from 0
	each       int          // messages that each publishes
	done       sync.WaitGroup
}

func startLoad(c *cluster.Cluster, queue string, total int) *load {
	return startLoadOnFirst(c, c.Nodes, queue, total)
}

// startLoadOnFirst publishes through the first nodes only.
func startLoadOnFirst(c *cluster.Cluster, nodes int, queue string, total int) *load {
	l := &load{each: total / nodes}
	for i := 1; i <= nodes; i++ {
		p := newPublisher(fmt.Sprintf("p%d", i))
		l.publishers = append(l.publishers, p)
		l.done.Go(func() { p.run(c.URI(i), queue, l.each) })
	}
	return l
}

// reach waits until every publisher has had count confirms, or has ended.
func (l *load) reach(t *testing.T, count int) {
	t.Helper()
	for _, p := range l.publishers {
		p.wait(t, hang, fmt.Sprintf("%d confirms", count), func(p *publisher) bool { return len(p.confirmed) >= count })
	}
}

// underWay fails the test if a surviving publisher was done already: then the test has shown nothing.
func (l *load) underWay(t *testing.T, gone int) {
	t.Helper()
	for i, p := range l.publishers {
		p.mu.Lock()
		if i+1 != gone && len(p.confirmed) >= l.each {
			t.Errorf("publisher on node %d had all its confirms before the failure", i+1)
		}
		p.mu.Unlock()
	}
}

// finish waits for the publishers; those on surviving nodes must have had every confirm.
func (l *load) finish(t *testing.T, total int, gone ...int) map[string]map[int]bool {
	t.Helper()
	l.done.Wait()
	confirmed := map[string]map[int]bool{}
	for i, p := range l.publishers {
		confirmed[p.name] = p.confirmed
		lost := false
		for _, g := range gone {
			lost = lost || g == i+1
		}
		if lost {
			continue
		}
		if p.err != nil {
			t.Errorf("publisher on surviving node %d: %v", i+1, p.err)
		}
		if len(p.confirmed) != total/len(l.publishers) || p.nacked > 0 {
			t.Errorf("publisher on surviving node %d: %d of %d confirmed, %d nacked", i+1, len(p.confirmed), total/len(l.publishers), p.nacked)
		}
		t.Logf("publisher on node %d: longest time between two confirms %v", i+1, p.longest)
	}
	return confirmed
}

// noRepeats fails if a message was delivered twice to the one consumer, which acknowledged each.
func noRepeats(t *testing.T, got map[string]*receipt) {
	t.Helper()
	for name, r := range got {
		for n, times := range r.seen {
			if times != 1 {
				t.Errorf("%s:%d was delivered %d times", name, n, times)
			}
		}
	}
}

const failoverMessages = 20_000

// failover publishes through every node while victim is killed, and checks that nothing confirmed is lost, nothing
// is doubled, and that the victim comes back as a mirror.
func failover(t *testing.T, c *cluster.Cluster, queue string, victim, mirrorsAfterReturn int) {
	t.Helper()
	l := startLoad(c, queue, failoverMessages)
	l.reach(t, failoverMessages/c.Nodes/3)
	c.Kill(victim)
	survivor := others(c, victim)[0]
	if r := inProcess(t, c, c.Name(survivor), "rabbitmqctl list_queues name messages", ""); r.Code != 0 ||
		strings.Contains(r.Stdout+r.Stderr, "unresponsive") || !strings.Contains(r.Stdout, queue) {
		t.Errorf("list_queues while node %d has just died: exit %d\n%s%s", victim, r.Code, r.Stdout, r.Stderr)
	}
	l.underWay(t, victim)
	confirmed := l.finish(t, failoverMessages, victim)
	noRepeats(t, drain(t, c.URI(survivor), queue, confirmed, hang))
	c.StartNode(victim)
	for i := 1; i <= c.Nodes; i++ {
		mirrorsListed(t, c, i, queue, mirrorsAfterReturn)
	}
}

func TestMasterIsKilled(t *testing.T) {
	c := cluster.Start(t, 3)
	c.Ctl(1, mirrorAll...)
	leader := raftLeader(t, c, 1)
	master := others(c, leader)[0]
	declareQueue(t, c, master, "orders")
	mirrorsAgree(t, c, "orders")
	failover(t, c, "orders", master, 2)
	if now := masterOf(t, c, master, "orders"); now == master {
		t.Errorf("the killed node %d is master again without having been promoted", master)
	}
	mirrorsAgree(t, c, "orders")
}

func TestMirrorIsKilled(t *testing.T) {
	c := cluster.Start(t, 3)
	c.Ctl(1, mirrorAll...)
	leader := raftLeader(t, c, 1)
	mirror := others(c, leader)[0]
	declareQueue(t, c, leader, "orders")
	failover(t, c, "orders", mirror, 2)
}

func TestMetadataLeaderIsKilledThatIsNeither(t *testing.T) {
	c := cluster.Start(t, 3)
	c.Ctl(1, "set_policy", "ha-two", "^", `{"ha-mode":"exactly","ha-params":2}`)
	leader := raftLeader(t, c, 1)
	failover(t, c, queueWithout(t, c, leader), leader, 1)
}

// queueWithout declares queues until the placement leaves one of them without a copy on node i, and names that one.
func queueWithout(t *testing.T, c *cluster.Cluster, i int) string {
	t.Helper()
	for n := 1; n <= 10; n++ {
		name := fmt.Sprintf("orders%d", n)
		declareQueue(t, c, others(c, i)[0], name)
		mirrorsListed(t, c, 1, name, 1)
		if cols := queueColumns(c, 1, name, "slave_pids"); !strings.Contains(cols[0], c.Name(i)) {
			return name
		}
	}
	t.Fatalf("of ten queues with two copies each has one on %s", c.Name(i))
	return ""
}

func TestMasterThatIsMetadataLeaderIsKilled(t *testing.T) {
	c := cluster.Start(t, 3)
	c.Ctl(1, mirrorAll...)
	leader := raftLeader(t, c, 1)
	declareQueue(t, c, leader, "orders")
	failover(t, c, "orders", leader, 2)
}

// mirrorsAgree checks that each node lists the same mirrors of queue in the same order.
func mirrorsAgree(t *testing.T, c *cluster.Cluster, queue string) {
	t.Helper()
	var first []string
	cluster.Eventually(t, hang, "every node lists the same mirrors of "+queue, func() bool {
		first = queueColumns(c, 1, queue, "slave_pids", "synchronised_slave_pids")
		for i := 2; i <= c.Nodes; i++ {
			if got := queueColumns(c, i, queue, "slave_pids", "synchronised_slave_pids"); got == nil || strings.Join(got, "|") != strings.Join(first, "|") {
				return false
			}
		}
		return len(first) == 2
	})
}

func TestMasterIsSuspended(t *testing.T) {
	c := cluster.Start(t, 3)
	c.Ctl(1, mirrorAll...)
	leader := raftLeader(t, c, 1)
	master := others(c, leader)[0]
	declareQueue(t, c, master, "orders")
	l := startLoad(c, "orders", failoverMessages)
	l.reach(t, failoverMessages/c.Nodes/3)
	c.Signal(master, syscall.SIGSTOP)
	l.underWay(t, master)
	asleep := time.Now()
	cluster.Eventually(t, hang, "another master serves and ten seconds have passed", func() bool {
		return time.Since(asleep) > 10*time.Second && masterOf(t, c, leader, "orders") != master
	})
	c.Signal(master, syscall.SIGCONT)
	confirmed := l.finish(t, failoverMessages, master)
	for i := 1; i <= c.Nodes; i++ {
		mirrorsListed(t, c, i, "orders", 2)
	}
	noRepeats(t, drain(t, c.URI(leader), "orders", confirmed, hang))
	if now := masterOf(t, c, master, "orders"); now == master {
		t.Errorf("node %d woke up and is still master", master)
	}
}
