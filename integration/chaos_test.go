package integration

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"warren/integration/cluster"
)

// healed bounds how long after the last failure every confirmed message must have been delivered.
const healed = 90 * time.Second

// chaos is one run: clients that never rest, and failures round by round.
type chaos struct {
	t      *testing.T
	c      *cluster.Cluster
	rng    *rand.Rand
	ledger *ledger
	crowd  *crowd
	queues []string
}

// A mirror that is not synchronised must not be promoted here: what it lacks is lost then, as the operator asked.
const chaosPolicy = `{"ha-mode":"all","ha-sync-mode":"automatic","ha-promote-on-failure":"when-synced"}`

func newChaos(t *testing.T, c *cluster.Cluster, seed uint64) *chaos {
	t.Helper()
	x := &chaos{t: t, c: c, rng: rand.New(rand.NewPCG(seed, 0))}
	x.c.Ctl(1, "set_policy", "ha", "^chaos", chaosPolicy)
	for i := 1; i <= 3; i++ {
		queue := fmt.Sprintf("chaos%d", i)
		declareQueue(t, x.c, i, queue)
		x.queues = append(x.queues, queue)
	}
	x.ledger = newLedger(x.queues)
	x.crowd = newCrowd(x.c, x.ledger)
	t.Cleanup(x.crowd.stop)
	for i, queue := range x.queues {
		for k := range 2 {
			x.crowd.wg.Go(func() { x.crowd.publish(queue, 2*i+k) })
		}
		x.crowd.wg.Go(func() { x.crowd.consume(queue, i) })
	}
	return x
}

func (x *chaos) some(max time.Duration) time.Duration { return time.Duration(x.rng.Int64N(int64(max))) }

func (x *chaos) wait(d time.Duration) { x.crowd.pause(d) }

func (x *chaos) kill(nodes ...int) {
	var wg sync.WaitGroup
	for _, i := range nodes {
		x.ledger.disturb(i)
		wg.Go(func() { x.c.Kill(i) })
		x.wait(x.some(time.Second / 10))
	}
	wg.Wait()
}

// victim is a node with a role, or any.
func (x *chaos) victim() int {
	switch x.rng.IntN(3) {
	case 0:
		return raftLeader(x.t, x.c, 1)
	case 1:
		return masterOf(x.t, x.c, 1, x.queues[x.rng.IntN(len(x.queues))])
	}
	return 1 + x.rng.IntN(x.c.Nodes)
}

// failures are what a round may do; each leaves all nodes running.
var failures = []struct {
	name string
	do   func(x *chaos)
}{
	{"kill one", func(x *chaos) {
		v := x.victim()
		x.kill(v)
		x.wait(x.some(time.Second))
		x.c.StartNode(v)
	}},
	{"kill one after the other", func(x *chaos) {
		for range 3 {
			v := x.victim()
			x.kill(v)
			x.c.StartNode(v)
		}
	}},
	{"kill two", func(x *chaos) {
		v := others(x.c, 1+x.rng.IntN(x.c.Nodes))
		x.kill(v...)
		x.wait(x.some(time.Second))
		x.c.StartNodes(v...)
	}},
	{"power failure", func(x *chaos) {
		order := x.rng.Perm(x.c.Nodes)
		for i := range order {
			order[i]++
		}
		x.kill(order...)
		x.rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		x.c.StartNodes(order...)
	}},
	{"a promotion and at once a power failure", func(x *chaos) {
		v := x.victim()
		x.kill(v)
		x.wait(x.some(time.Second))
		x.kill(others(x.c, v)...)
		order := append(others(x.c, v), v)
		x.rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		x.c.StartNodes(order...)
	}},
	{"masters move while one is killed", func(x *chaos) {
		v := x.victim()
		var wg sync.WaitGroup
		for i, queue := range x.queues {
			wg.Go(func() {
				for range 5 { // what is refused meanwhile is: to where it is, to a mirror that is not synchronised, through a dead node
					x.c.Tool("rabbitmqctl", others(x.c, v)[i%2], "-t", "5", "transfer", queue, x.c.Name(1+(i+x.c.Nodes)%x.c.Nodes))
					x.c.Tool("rabbitmqctl", others(x.c, v)[i%2], "-t", "5", "transfer", queue, x.c.Name(1+(i+1)%x.c.Nodes))
				}
			})
		}
		x.wait(x.some(300 * time.Millisecond))
		x.kill(v)
		wg.Wait()
		x.c.StartNode(v)
	}},
	{"suspend one", func(x *chaos) {
		v := x.victim()
		x.suspend(v, time.Second+x.some(11*time.Second))
	}},
	{"suspend one while another is killed", func(x *chaos) {
		v := x.victim()
		o := others(x.c, v)[x.rng.IntN(2)]
		var wg sync.WaitGroup
		wg.Go(func() { x.suspend(v, 5*time.Second) })
		x.wait(100 * time.Millisecond)
		x.kill(o)
		wg.Wait()
		x.c.StartNode(o)
	}},
	{"stop one in good order", func(x *chaos) {
		v := x.victim()
		x.ledger.disturb(v)
		x.c.StopNode(v)
		x.wait(x.some(time.Second))
		x.c.StartNode(v)
	}},
	{"policies come and go", func(x *chaos) {
		for range 6 {
			x.c.Ctl(1+x.rng.IntN(3), "clear_policy", "ha")
			x.wait(x.some(300 * time.Millisecond))
			x.c.Ctl(1+x.rng.IntN(3), "set_policy", "ha", "^chaos",
				`{"ha-mode":"exactly","ha-params":2,"ha-promote-on-failure":"when-synced"}`)
			x.wait(x.some(300 * time.Millisecond))
			x.c.Ctl(1+x.rng.IntN(3), "set_policy", "ha", "^chaos", chaosPolicy)
			x.wait(x.some(300 * time.Millisecond))
		}
	}},
	{"queues come and go while one is killed", func(x *chaos) {
		v := x.victim()
		var wg sync.WaitGroup
		wg.Go(func() { x.flood(others(x.c, v)[0], 200) })
		x.wait(x.some(time.Second))
		x.kill(v)
		wg.Wait()
		x.c.StartNode(v)
	}},
}

func (x *chaos) suspend(node int, d time.Duration) {
	x.ledger.disturb(node)
	x.c.Signal(node, syscall.SIGSTOP)
	x.wait(d)
	x.c.Signal(node, syscall.SIGCONT)
}

// flood declares and deletes queues through node; what fails meanwhile is only logged: the node next to it is being killed.
func (x *chaos) flood(node, count int) {
	conn, err := amqp.Dial(x.c.URI(node))
	if err != nil {
		x.t.Logf("flood: %v", err)
		return
	}
	defer conn.Close()
	ch, err := conn.Channel()
	for i := 0; i < count && err == nil; i++ {
		name := fmt.Sprintf("chaos.flood%d", i)
		if _, err = ch.QueueDeclare(name, true, false, false, false, nil); err == nil {
			_, err = ch.QueueDelete(name, false, false, false)
		}
	}
	if err != nil {
		x.t.Logf("flood: %v", err)
	}
}

// settle stops the publishers, and judges once all is quiet: everything confirmed was delivered, every queue is empty and
// has its mirrors back.
func (x *chaos) settle() {
	x.t.Helper()
	x.wait(time.Second / 2)
	x.crowd.quiet.Store(true)
	began := time.Now()
	for {
		count, some := x.ledger.missing()
		waiting := x.crowd.waiting.Load()
		state := ""
		if count == 0 && waiting == 0 {
			if state = x.unsettled(); state == "" {
				break
			}
		}
		if time.Since(began) > healed {
			x.t.Errorf("not within %v after the failures: %d confirmed messages missing (%s), %d publishes unanswered, %s",
				healed, count, some, waiting, state)
			for i := 1; i <= x.c.Nodes; i++ {
				x.c.Signal(i, syscall.SIGQUIT) // its goroutines go to its log
			}
			x.wait(time.Second)
			x.keepLogs()
			return
		}
		x.wait(50 * time.Millisecond)
	}
	faults, summary := x.ledger.report()
	for _, f := range faults {
		x.t.Error(f)
	}
	x.keepLogs()
	x.t.Logf("settled after %v: %s, %d nacks", time.Since(began).Round(time.Millisecond), summary, x.crowd.nacks.Load())
	x.crowd.quiet.Store(false)
}

// keepLogs copies the nodes' logs to the directory CHAOS_LOGS, if that is set and the test has failed.
func (x *chaos) keepLogs() {
	dir := os.Getenv("CHAOS_LOGS")
	if dir == "" || !x.t.Failed() {
		return
	}
	for i := 1; i <= x.c.Nodes; i++ {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("rabbit%d.log", i)), []byte(x.c.Log(i)), 0o600); err != nil {
			x.t.Error(err)
		}
	}
}

// unsettled names what is not yet as it should be in quiet times.
func (x *chaos) unsettled() string {
	for i := 1; i <= x.c.Nodes; i++ {
		for _, queue := range x.queues {
			cols := queueColumns(x.c, i, queue, "messages", "state", "synchronised_slave_pids")
			if cols == nil || cols[0] != "0" || cols[1] != "running" || len(nodesOf(cols[2])) != x.c.Nodes-1 {
				return fmt.Sprintf("%s on node %d: messages, state, synchronised mirrors are %q", queue, i, cols)
			}
		}
	}
	return ""
}

// TestChaosBriefly is a taste of TestChaos: a node is killed, then all of them.
func TestChaosBriefly(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	x := newChaos(t, cluster.Start(t, 3), seed)
	x.wait(time.Second / 2)
	for _, name := range []string{"kill one", "power failure"} {
		x.round(name)
	}
}

func (x *chaos) round(name string) {
	x.t.Helper()
	for _, f := range failures {
		if f.name == name {
			f.do(x)
		}
	}
	x.settle()
}
