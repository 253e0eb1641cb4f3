package command

import (
	"strings"
	"testing"

	"warren/ctl/admin"
)

func ringOfThree() admin.RingInfo {
	return admin.RingInfo{
		Policy: "ha", Mode: "exactly", Count: 3, Status: "running", Master: "a@h", Epoch: 2, View: 40,
		Members: []admin.RingMember{
			{Node: "a@h", NodeStatus: "running", State: "up", Synchronised: true, Age: 3, Answered: true, Received: 100, Persisted: 100},
			{Node: "b@h", NodeStatus: "running", State: "up", Age: 9, Answered: true, Received: 90, Persisted: 80, Missing: 7,
				Window: 1 << 20, WindowLimit: 4 << 20},
			{Node: "c@h", NodeStatus: "down", State: "away"},
		},
		OnFailure: admin.Successor{Node: "b@h", Loss: true},
	}
}

func lost(messages uint64, more bool) admin.RingInfo {
	r := ringOfThree()
	r.LossEpoch, r.LossKnown, r.Lost, r.LostMore = 2, true, messages, more
	return r
}

func TestRingText(t *testing.T) {
	want := `orders: running, epoch 2, view 40

 +-> a@h  master, synchronised, not behind
 |      v
 |   b@h  mirror, NOT synchronised, lacks 7 messages, 10 operations behind, 10 of its own not yet safe, window 25% full (1048576 of 4194304 bytes)
 +------+
  ... c@h  away (node down)
`
	if got := ringText("orders", ringOfThree()); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestWhyText(t *testing.T) {
	r := ringOfThree()
	down := r
	down.Status, down.Recoverers = "down", []string{"a@h"}
	few := admin.RingInfo{
		Policy: "ha", Mode: "exactly", Count: 3, Status: "running", Master: "a@h",
		Members: []admin.RingMember{{Node: "a@h", NodeStatus: "running", State: "up", Synchronised: true}},
	}
	plain := admin.RingInfo{Status: "running", Master: "a@h"}
	for _, tc := range []struct {
		r    admin.RingInfo
		want []string
	}{
		{r, []string{
			"Queue 'orders' has 3 copies, the master included: policy 'ha' sets ha-mode to exactly.", "- a@h is the master",
			"- b@h is a mirror that is not synchronised: it lacks 7 messages that are older than its joining", "- c@h has a place, but is away: the node is down",
			"If a@h fails: b@h, the oldest mirror, is promoted though it is not synchronised",
			"If a@h is stopped in good order: nobody is promoted",
		}},
		{down, []string{"The queue is down: its last master was a@h. It can be recovered from the disk of a@h"}},
		{few, []string{"has 3 copies, the master included", "Only 1 of them has a node to be on.", "If a@h fails: nobody is promoted"}},
		{plain, []string{"Queue 'orders' is not mirrored: no policy applies to it."}},
		{lost(7, false), []string{"7 messages were lost when a mirror was promoted that was not synchronised (last at the beginning of epoch 2)."}},
		{lost(7, true), []string{"At least 7 messages were lost when"}},
		{lost(0, true), []string{"Messages were lost when", "nobody knows how many"}},
		{lost(0, false), []string{"No message is known to have been lost when"}},
	} {
		got := whyText("orders", tc.r)
		for _, part := range tc.want {
			if !strings.Contains(got, part) {
				t.Errorf("%q is not in\n%s", part, got)
			}
		}
	}
}
