package integration

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"warren/integration/cluster"
)

// asideSet is a set of messages as `salvage` lists it.
type asideSet struct {
	Set, VHost, Queue, Reason, Path string
	Messages, Published             int
	Bytes                           int `json:"message_bytes"`
}

func asideSets(t *testing.T, c *cluster.Cluster, i int) (sets []asideSet) {
	t.Helper()
	r := c.Tool("rabbitmqctl", i, "-q", "salvage", "--formatter", "json")
	if err := json.Unmarshal([]byte(r.Stdout), &sets); err != nil || r.Code != 0 {
		t.Fatalf("salvage: %v, %+v", err, r)
	}
	return sets
}

// asideOf is the one set of a queue whose name is known ("": not known).
func asideOf(t *testing.T, c *cluster.Cluster, i int, queue string) (found asideSet) {
	t.Helper()
	for _, set := range asideSets(t, c, i) {
		if set.Queue == queue {
			found = set
		}
	}
	return found
}

// salvage: what a copy on node i of a queue that publishTo filled had to give up is listed there with its queue, number and reason, and
// published again: in order, with a header that says so, once; to the queue itself, to another one, through an exchange. What stands
// in the way is said, and changes nothing; the set is removed only when all is confirmed.
func salvage(t *testing.T, c *cluster.Cluster, i int, queue string) {
	t.Helper()
	var first asideSet
	cluster.Eventually(t, hang, "what the copy of "+queue+" held is set aside", func() bool {
		first = asideOf(t, c, i, queue)
		return first.Set != ""
	})
	if first.VHost != "/" || first.Messages != tableMessages || !strings.Contains(first.Reason, "counted") || first.Bytes < 6*tableMessages {
		t.Fatalf("set: %+v", first)
	}
	set := first.Set
	refused := func(want string, args ...string) {
		t.Helper()
		r := c.Tool("rabbitmqctl", i, append([]string{"-q", "salvage"}, args...)...)
		if r.Code != 69 || !strings.Contains(r.Stderr, want) {
			t.Errorf("salvage %v: %+v, want %q", args, r, want)
		}
	}
	refused("nothing is set aside as 'nosuch' on this node", "nosuch")
	refused("no queue 'nosuch' in vhost '/'", set, "--to-queue", "nosuch")
	refused("name a queue or an exchange", asideOf(t, c, i, "").Set) // of the queue that was deleted
	refused("no exchange 'nosuch' in vhost '/'", set, "--exchange", "nosuch")
	refused("no queue takes a message with routing key 'nobody'", set, "--exchange", "amq.direct", "--routing-key", "nobody")
	c.Ctl(i, "set_policy", "full", "^full$", `{"max-length":5,"overflow":"reject-publish"}`)
	declareQueue(t, c, 2, "full")
	declareQueue(t, c, 2, "other")
	refused("5 of 20 messages are published", set, "--to-queue", "full")
	if n := asideOf(t, c, i, queue).Published; n != 5 {
		t.Errorf("%d messages count as published", n)
	}
	again := c.Ctl(i, "-q", "salvage", set, "--to-queue", "other", "--keep")
	if want := "15 messages are published to queue 'other' in vhost '/' and confirmed; 5 were before. The set is kept\n"; again != want {
		t.Errorf("salvage said %q, want %q", again, want)
	}
	wantSalvaged(t, c, "full", set, queue, 1, 5)
	wantSalvaged(t, c, "other", set, queue, 6, tableMessages)
	conn, ch := dialChannel(t, c, 2)
	defer conn.Close()
	if err := ch.QueueBind("other", "there", "amq.direct", false, nil); err != nil {
		t.Fatal(err)
	}
	c.Ctl(i, "salvage", set, "--restart", "--exchange", "amq.direct", "--routing-key", "there", "--keep")
	wantSalvaged(t, c, "other", set, queue, 1, tableMessages)
	c.Ctl(i, "salvage", set, "--restart")
	wantSalvaged(t, c, queue, set, queue, 1, tableMessages)
	if _, err := os.Stat(first.Path); !errors.Is(err, os.ErrNotExist) || asideOf(t, c, i, queue).Set != "" {
		t.Errorf("what was published is still there: %v", err)
	}
}

// wantSalvaged takes all messages of a queue, which must be those that publishTo gave the numbers from first to last.
func wantSalvaged(t *testing.T, c *cluster.Cluster, queue, set, source string, first, last int) {
	t.Helper()
	conn, ch := dialChannel(t, c, 3)
	defer conn.Close()
	var got, want []string
	for {
		d, ok, err := ch.Get(queue, true)
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			break
		}
		got = append(got, string(d.Body))
		from, _ := d.Headers["x-salvaged"].(amqp.Table)
		if from["set"] != set || from["queue"] != source || from["vhost"] != "/" || from["position"] != int64(first+len(got)-1) || d.DeliveryMode != amqp.Persistent {
			t.Errorf("%s: message %d says %v", queue, len(got), d.Headers)
		}
	}
	for n := first; n <= last; n++ {
		want = append(want, fmt.Sprintf("%s:%d", source, n))
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s holds %v, want %v", queue, got, want)
	}
}
