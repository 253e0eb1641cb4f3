//go:build soak

package integration

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"warren/integration/cluster"
)

// B04 and B19 with 200 queues on five nodes: nodes that restart one after the other, before anything is synchronised again, leave every
// queue to be declared; so do all nodes that stop and start at once, and a network in which nobody reaches anybody.
func TestFieldReportsManyQueues(t *testing.T) {
	const queues, each = 200, 100
	c, net := cluster.StartCut(t, 5, cutLines)
	c.Ctl(1, "set_policy", "ha", "^", `{"ha-mode":"all"}`)
	var names []string
	for i := 1; i <= c.Nodes; i++ {
		names = append(names, declareMany(t, c, i, fmt.Sprintf("many%d.", i), queues/c.Nodes)...)
	}
	awaitAll(t, c, names, 0)
	ch := channelOf(t, dial(t, c.URI(1)))
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		put(t, ch, "", name, text(numbers(1, each)...)...)
	}
	for i := 1; i <= 2; i++ {
		c.StopNode(i)
		c.StartNode(i)
	}
	allDeclared(t, c, names)
	awaitAll(t, c, names, each)
	everyNode := func(do func(int)) {
		var all sync.WaitGroup
		for i := 1; i <= c.Nodes; i++ {
			all.Go(func() { do(i) })
		}
		all.Wait()
	}
	everyNode(c.StopNode)
	everyNode(c.StartNode)
	awaitAll(t, c, names, each)
	for i := 1; i <= c.Nodes; i++ {
		net.Isolate(i)
	}
	allAre(t, c, "paused")
	net.Heal()
	allAre(t, c, "running")
	awaitAll(t, c, names, each)
	allDeclared(t, c, names)
}

func allAre(t *testing.T, c *cluster.Cluster, state string) {
	t.Helper()
	for i := 1; i <= c.Nodes; i++ {
		cluster.Eventually(t, hang, c.Name(i)+" is "+state, func() bool { return nodeState(c, i) == state })
	}
}

// allDeclared: a passive declaration of every queue succeeds.
func allDeclared(t *testing.T, c *cluster.Cluster, names []string) {
	t.Helper()
	conn := dial(t, c.URI(3))
	for _, name := range names {
		if _, err := channelOf(t, conn).QueueDeclarePassive(name, true, false, false, false, nil); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// awaitAll waits until every queue runs with all its mirrors synchronised and holds so many messages.
func awaitAll(t *testing.T, c *cluster.Cluster, names []string, messages int) {
	t.Helper()
	wrong := ""
	defer func() {
		if t.Failed() {
			t.Logf("the first queue that is not as it should be: %q", wrong)
		}
	}()
	cluster.Eventually(t, 2*hang, fmt.Sprintf("%d queues have their mirrors and %d messages", len(names), messages), func() bool {
		r := c.Tool("rabbitmqctl", 1, "-q", "list_queues", "name", "state", "messages", "synchronised_slave_pids")
		right := 0
		for line := range strings.Lines(r.Stdout) {
			f := strings.Split(strings.TrimRight(line, "\n"), "\t")
			if len(f) == 4 && f[1] == "running" && f[2] == fmt.Sprint(messages) && len(nodesOf(f[3])) == c.Nodes-1 {
				right++
			} else if len(f) == 4 && f[0] != "name" {
				wrong = line
			}
		}
		return right == len(names)
	})
}

// B17: short-lived queues come and go while the master of them all dies: no node keeps a file or an open file of one that is gone.
func TestFieldReportsShortLived(t *testing.T) {
	c := cluster.Start(t, 3)
	c.Ctl(1, mirrorAll...)
	ch := channelOf(t, dial(t, c.URI(2)))
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	come := func(first, last int) {
		for k := first; k <= last; k++ {
			if err := shortLived(ch, fmt.Sprintf("short%d", k), k%10 == 0); err != nil {
				t.Error(err)
				return
			}
		}
	}
	come(1, 50)
	deleteMany(t, c, 1, kept(1, 50))
	filesBefore, openBefore := map[int]int{}, map[int]int{}
	for i := 1; i <= c.Nodes; i++ {
		filesBefore[i], openBefore[i] = files(t, c.DataDir(i)), c.OpenFiles(i)
	}
	var going sync.WaitGroup
	going.Go(func() { come(51, 1000) })
	cluster.Eventually(t, hang, "it is under way", func() bool { return len(listAll(c, 3)) > 20 })
	c.Kill(1)
	c.StartNode(1)
	going.Wait()
	deleteMany(t, c, 3, kept(51, 1000))
	for i := 1; i <= c.Nodes; i++ {
		var nowFiles, nowOpen int
		cluster.Eventually(t, hang, c.Name(i)+" has given everything back", func() bool {
			nowFiles, nowOpen = files(t, c.DataDir(i)), c.OpenFiles(i)
			return nowFiles <= filesBefore[i]+10 && nowOpen <= openBefore[i]+10
		})
		t.Logf("node %d: %d files before, %d after a thousand queues; %d open before, %d after", i, filesBefore[i], nowFiles, openBefore[i], nowOpen)
	}
}

// shortLived declares a queue, publishes to it, and deletes it unless it is kept.
func shortLived(ch *amqp.Channel, name string, keep bool) error {
	_, err := ch.QueueDeclare(name, true, false, false, false, nil)
	var d *amqp.DeferredConfirmation
	if err == nil {
		d, err = ch.PublishWithDeferredConfirm("", name, false, false, amqp.Publishing{DeliveryMode: amqp.Persistent, Body: []byte("one")})
	}
	if err == nil && !d.Wait() {
		err = errors.New("a publish was not confirmed")
	}
	if err == nil && !keep {
		_, err = ch.QueueDelete(name, false, false, false)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

func kept(first, last int) (names []string) {
	for k := first; k <= last; k++ {
		if k%10 == 0 {
			names = append(names, fmt.Sprintf("short%d", k))
		}
	}
	return names
}

// files counts the files below a directory. Some may go while it does.
func files(t *testing.T, dir string) (n int) {
	t.Helper()
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			n++
		}
		if err != nil && !os.IsNotExist(err) {
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}
