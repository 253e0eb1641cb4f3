package state

import (
	"slices"
	"strconv"
	"strings"

	"warren/metadata/policy"
)

// Arguments of a queue that was declared as a quorum queue and is a mirrored one here; both are compared arguments.
const (
	argQueueType = "x-queue-type"
	argGroupSize = "x-quorum-initial-group-size"
)

// quorumSize is how many copies a queue has that was declared as a quorum queue; 0: it was not.
func quorumSize(compared []Argument) int {
	const usual, most = 3, 1000 // RabbitMQ's default; more nodes than there are
	kind, size := "", usual
	for _, a := range compared {
		switch a.Key {
		case argQueueType:
			kind = a.Text
		case argGroupSize:
			if n, err := strconv.Atoi(a.Text); err == nil && n > 0 {
				size = min(n, most)
			}
		}
	}
	if kind != "quorum" {
		return 0
	}
	return size
}

// withType completes the effective policy of a queue that was declared as a quorum queue: unless a policy mirrors it otherwise, it
// has that many copies, synchronises by itself, and promotes only who has everything. Other queues keep the definition.
func withType(compared []Argument, d policy.Definition) policy.Definition {
	size := quorumSize(compared)
	if _, mirrored := d.Raw("ha-mode"); size == 0 || mirrored {
		return d
	}
	out := slices.DeleteFunc(slices.Clone(d), func(e policy.Entry) bool { return e.Key == "ha-params" })
	for _, e := range []policy.Entry{
		{Key: "ha-mode", Value: `"exactly"`}, {Key: "ha-params", Value: strconv.Itoa(size)},
		{Key: "ha-promote-on-failure", Value: `"when-synced"`}, {Key: "ha-sync-mode", Value: `"automatic"`},
	} {
		if _, said := out.Raw(e.Key); !said {
			out = append(out, e)
			slices.SortFunc(out, func(a, b policy.Entry) int { return strings.Compare(a.Key, b.Key) })
		}
	}
	return out
}
