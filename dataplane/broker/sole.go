package broker

import (
	"context"

	"warren/metadata/state"
)

// Activity is what a consumer of a queue does, by RabbitMQ's words (activity_status of list_consumers).
type Activity string

const (
	ActivityUp      Activity = "up"            // as every consumer of the queue
	ActivitySole    Activity = "single_active" // it alone is given messages
	ActivityWaiting Activity = "waiting"       // it is another's turn
)

// Activities finds out what the consumers of a vhost's queues do: it asks the masters of the queues with a single active consumer.
// A queue whose master does not answer has nobody active. It returns how many nodes did not answer.
func (n *Node) Activities(ctx context.Context, vhost string) (of func(Connection, ConsumerInfo) Activity, silent int) {
	var queues []*state.Queue
	n.View(func(s *state.State) {
		for _, q := range s.VhostQueues(vhost) {
			if singleActive(q) {
				queues = append(queues, q)
			}
		}
	})
	sole := make(map[string]QueueFigures, len(queues))
	silent, _ = n.Figures(ctx, queues, func(q *state.Queue, f QueueFigures) error {
		sole[q.Name] = f
		return nil
	})
	return func(c Connection, k ConsumerInfo) Activity {
		f, single := sole[k.Queue]
		switch {
		case !single:
			return ActivityUp
		case f.SoleConsumer != 0 && f.SoleConsumer == k.ID && f.SoleNode == c.Node && f.SoleIncarnation == c.Incarnation:
			return ActivitySole
		}
		return ActivityWaiting
	}, silent
}
