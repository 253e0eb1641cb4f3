package command

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"warren/ctl/admin"
	"warren/ctl/format"
)

// Warren's own: a queue's ring, and why it is as it is.

func ringCommands() []command {
	return []command{
		ringCommand("ring", "Draws a queue's ring: each member's state, and how far it is behind", ringText),
		ringCommand("why", "Explains why a queue's mirrors are where they are, and who would be promoted next", whyText),
	}
}

func ringCommand(name, summary string, text func(queue string, r admin.RingInfo) string) command {
	return command{
		name: name, tools: []string{toolCtl, toolQueues}, group: "Replication", summary: summary, usage: "[--vhost <vhost>] <queue>",
		details: []string{"<queue>", "name of the queue"}, least: 1, most: 1, running: true,
		check: documentFormat,
		run: withClient(func(ctx context.Context, c *call, node Client) error {
			r, err := node.Ring(ctx, c.vhost, c.args[0])
			if err != nil {
				return noQueue(c, err)
			}
			if c.format == format.FormatJSON {
				return c.document(r)
			}
			print(c.env.Stdout, text(c.args[0], r))
			return nil
		}),
	}
}

// lag is how far a member is behind the one that has most.
func lag(r admin.RingInfo, m admin.RingMember) string {
	if !m.Answered {
		return "no answer"
	}
	var most uint64
	for _, o := range r.Members {
		most = max(most, o.Received)
	}
	if m.Received == most && m.Persisted == most {
		return "not behind"
	}
	return fmt.Sprintf("%d operations behind, %d of its own not yet safe", most-m.Received, m.Received-min(m.Persisted, m.Received))
}

// window is how full a member's window is; nothing for one that is empty.
func window(m admin.RingMember) string {
	if !m.Answered || m.WindowLimit <= 0 || m.Window <= 0 {
		return ""
	}
	return fmt.Sprintf(", window %d%% full (%d of %d bytes)", min(100, 100*m.Window/m.WindowLimit), m.Window, m.WindowLimit)
}

func ringText(queue string, r admin.RingInfo) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s, epoch %d, view %d\n\n", queue, r.Status, r.Epoch, r.View)
	var inside, outside []admin.RingMember
	for _, m := range r.Members {
		if m.State == "up" {
			inside = append(inside, m)
		} else {
			outside = append(outside, m)
		}
	}
	for i, m := range inside {
		role := "mirror"
		if m.Node == r.Master && r.Status == "running" {
			role = "master"
		}
		synchronised := "synchronised"
		if !m.Synchronised {
			synchronised = "NOT synchronised" + lacks(m, ", lacks %s messages")
		}
		edge := " |  "
		if i == 0 {
			edge = " +->"
		}
		fmt.Fprintf(&b, "%s %s  %s, %s, %s%s\n", edge, m.Node, role, synchronised, lag(r, m), window(m))
		if i < len(inside)-1 {
			b.WriteString(" |      v\n")
		}
	}
	if len(inside) > 1 {
		b.WriteString(" +------+\n")
	}
	for _, m := range outside {
		fmt.Fprintf(&b, "  ... %s  %s (node %s)\n", m.Node, m.State, m.NodeStatus)
	}
	return b.String()
}

// whyText is one fact a line.
func whyText(queue string, r admin.RingInfo) string {
	var b strings.Builder
	say := func(f string, args ...any) { fmt.Fprintf(&b, f+"\n", args...) }
	switch {
	case r.Mode == "":
		say("Queue '%s' is not mirrored: %s.", queue, policyPhrase(r, "no policy applies to it", "policy '%s' does not set ha-mode"))
	case r.Mode == "all":
		say("Queue '%s' is mirrored to all nodes: policy '%s' sets ha-mode to all.", queue, r.Policy)
	case r.Mode == "exactly":
		say("Queue '%s' has %d copies, the master included: policy '%s' sets ha-mode to exactly.", queue, r.Count, r.Policy)
		if n := len(r.Members); r.Status == "running" && n < r.Count {
			say("Only %d of them %s a node to be on.", n, map[bool]string{true: "has", false: "have"}[n == 1])
		}
	case r.Mode == "nodes":
		say("Queue '%s' is on the nodes that policy '%s' names: %s.", queue, r.Policy, strings.Join(r.Nodes, ", "))
	}
	for _, m := range r.Members {
		say("- %s %s", m.Node, memberPhrase(r, m))
	}
	if r.LossEpoch > 0 {
		say("%s", lossPhrase(r))
	}
	if r.Status != "running" {
		say("The queue is down: its last master was %s. It can be recovered from the disk of %s, when one of them is back.",
			r.Master, strings.Join(r.Recoverers, ", "))
		return b.String()
	}
	say("If %s fails: %s.", r.Master, successorPhrase(r.OnFailure, "ha-promote-on-failure"))
	say("If %s is stopped in good order: %s.", r.Master, successorPhrase(r.OnShutdown, "ha-promote-on-shutdown"))
	return b.String()
}

func lossPhrase(r admin.RingInfo) string {
	when := fmt.Sprintf("when a mirror was promoted that was not synchronised (last at the beginning of epoch %d)", r.LossEpoch)
	switch {
	case !r.LossKnown || r.LostMore && r.Lost == 0:
		return "Messages were lost " + when + ", nobody knows how many."
	case r.LostMore:
		return fmt.Sprintf("At least %d messages were lost %s.", r.Lost, when)
	case r.Lost == 0:
		return "No message is known to have been lost " + when + "."
	}
	return fmt.Sprintf("%d messages were lost %s.", r.Lost, when)
}

func policyPhrase(r admin.RingInfo, none, some string) string {
	if r.Policy == "" {
		return none
	}
	return fmt.Sprintf(some, r.Policy)
}

func memberPhrase(r admin.RingInfo, m admin.RingMember) string {
	stands := ""
	if m.Replaces != "" {
		stands = "; it stands in for " + m.Replaces
	}
	switch {
	case m.State == "away":
		return "has a place, but is away: the node is " + m.NodeStatus + "; it comes back with what it has" + stands
	case m.State == "joining":
		return "shall carry a mirror and is about to join" + stands
	case m.Node == r.Master:
		return "is the master" + stands
	case m.Synchronised:
		return "is a synchronised mirror" + stands
	}
	number := lacks(m, " %s")
	return "is a mirror that is not synchronised: it lacks" + number + " messages that are older than its joining" + stands
}

// lacks puts the number of messages that a mirror lacks into a text; "" if it is not known.
func lacks(m admin.RingMember, text string) string {
	switch {
	case !m.Answered || m.More && m.Missing == 0:
		return ""
	case m.More:
		return fmt.Sprintf(text, fmt.Sprintf("at least %d", m.Missing))
	}
	return fmt.Sprintf(text, strconv.Itoa(m.Missing))
}

func successorPhrase(s admin.Successor, key string) string {
	switch {
	case s.Node == "":
		return "nobody is promoted, and the queue is down until a node that held everything is back (no synchronised mirror, and " + key +
			" does not allow another)"
	case s.Loss:
		return s.Node + ", the oldest mirror, is promoted though it is not synchronised, and the messages that it lacks are lost (" + key + " is always)"
	}
	return s.Node + ", the oldest synchronised mirror, is promoted; nothing confirmed is lost"
}
