//go:build soak

package integration

import (
	"fmt"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"warren/integration/cluster"
)

// listLimit is ten times what list_queues of 10,000 queues may take on a machine that does nothing else.
const listLimit = 10 * time.Second

// TestListOfManyQueues lists 10,000 queues through each node.
func TestListOfManyQueues(t *testing.T) {
	const queues, channels = 10_000, 16
	c := cluster.Start(t, 3)
	conn, err := amqp.Dial(c.URI(1))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	done := make(chan error, channels)
	for w := range channels {
		go func() {
			ch, err := conn.Channel()
			for i := w; i < queues && err == nil; i += channels {
				_, err = ch.QueueDeclare(fmt.Sprintf("q%05d", i), true, false, false, false, nil)
			}
			done <- err
		}()
	}
	for range channels {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	for i := 1; i <= c.Nodes; i++ {
		for _, columns := range [][]string{{"name", "messages"}, {"name", "pid", "slave_pids", "policy", "state"}} {
			began := time.Now()
			out := c.Ctl(i, append([]string{"-s", "list_queues"}, columns...)...)
			took := time.Since(began)
			t.Logf("node %d lists %v in %v", i, columns, took)
			if n := strings.Count(out, "\n"); n != queues || took > listLimit {
				t.Errorf("node %d lists %d queues in %v, want %d within %v", i, n, took, queues, listLimit)
			}
		}
	}
}
