package placement

import (
	"fmt"
	"strings"
	"testing"
)

// nodes reads "a b:3 c! d~ w*": up with so many replicas, ! down, ~ draining, * witness.
func nodes(s string) (out []Node) {
	for _, f := range strings.Fields(s) {
		n := Node{Up: !strings.Contains(f, "!"), Draining: strings.Contains(f, "~"), Witness: strings.Contains(f, "*")}
		name, load, _ := strings.Cut(strings.Trim(f, "!~*"), ":")
		n.Name = name
		if load != "" {
			fmt.Sscan(load, &n.Replicas)
			n.Masters = n.Replicas
		}
		out = append(out, n)
	}
	return out
}

// copies reads "a+ b- c. d/ e>c": in the view synchronised, in the view not, joining and fresh, away, fresh stand-in for c. The place in the
// list is the age.
func copies(s string) (out []Copy) {
	for i, f := range strings.Fields(s) {
		name, orig, standIn := strings.Cut(f, ">")
		if standIn {
			name += "."
		}
		c := Copy{Node: name[:len(name)-1], JoinIndex: uint64(i + 1), StandInFor: orig}
		switch name[len(name)-1] {
		case '+':
			c.InView, c.Synchronised = true, true
		case '-':
			c.InView = true
		case '.':
			c.JoinIndex = 0
		case '/':
			c.Away = true
		}
		out = append(out, c)
	}
	return out
}

func TestAdjust(t *testing.T) {
	exactly := func(n int) Rule { return Rule{Mode: ModeExactly, Count: n} }
	list := func(s ...string) Rule { return Rule{Mode: ModeNodes, Nodes: s} }
	all := Rule{Mode: ModeAll}
	for _, c := range []struct {
		what   string
		rule   Rule
		copies string
		nodes  string
		want   string
	}{
		{"all takes every node but those that are down, draining or witnesses", all, "a+", "a b c! d~ w*", "add [b] drop []"},
		{"all keeps what is away", all, "a+ b/", "a b! c", "add [c] drop []"},
		{"exactly takes the least loaded, ties by name", exactly(3), "a+", "a b:2 c:1 d:1", "add [c d] drop []"},
		{"exactly with too few nodes takes all", exactly(5), "a+", "a b", "add [b] drop []"},
		{"exactly keeps those that exist", exactly(2), "a+ z-", "a b z:9", "add [] drop []"},
		{"one that is away keeps its seat", exactly(2), "a+ b/", "a b! c", "add [] drop []"},
		{"shrinking drops unsynchronised ones first", exactly(2), "a+ b- c+", "a b c", "add [] drop [b]"},
		{"then the youngest", exactly(2), "a+ b+ c+", "a b c", "add [] drop [c]"},
		{"never the master", exactly(1), "a+ b+ c+", "a b c", "add [] drop [c b]"},
		{"nothing with content goes before enough are synchronised", exactly(2), "a+ b- c-", "a b c", "add [] drop []"},
		{"but a fresh one does", exactly(2), "a+ b- c.", "a b c", "add [] drop [c]"},
		{"no rule drops all mirrors", Rule{}, "a+ b- c/ d.", "a b c! d", "add [] drop [d c b]"},
		{"a stand-in goes when its original is back", exactly(2), "a+ b- c>b", "a b c", "add [] drop [c]"},
		{"a stand-in holds the seat of the one away", exactly(2), "a+ b/ c>b", "a b! c", "add [] drop []"},
		{"nodes: the listed ones that are up", list("b", "c", "x"), "a+", "a b c!", "add [b] drop []"},
		{"nodes: unlisted ones stay until the listed are synchronised", list("c", "d"), "a+ b+ c- d-", "a b c d", "add [] drop []"},
		{"nodes: and go then", list("c", "d"), "a+ b+ c+ d+", "a b c d", "add [] drop [b]"},
		{"nodes: none of the listed exists", list("x"), "a+ b+", "a b", "add [] drop []"},
	} {
		add, drop := Adjust(c.rule, "a", copies(c.copies), nodes(c.nodes))
		if got := fmt.Sprintf("add %v drop %v", add, drop); got != c.want {
			t.Errorf("%s: %s, want %s", c.what, got, c.want)
		}
	}
	synced := copies("a+ b/ c+")
	synced[2].StandInFor = "b"
	if _, drop := Adjust(exactly(2), "a", synced, nodes("a b! c")); fmt.Sprint(drop) != "[b]" {
		t.Errorf("a synchronised stand-in inherits: drop %v", drop)
	}
}

func TestMaster(t *testing.T) {
	list := Rule{Mode: ModeNodes, Nodes: []string{"c", "b"}}
	for _, c := range []struct {
		what    string
		rule    Rule
		locator string
		client  string
		seed    uint64
		nodes   string
		want    string
	}{
		{"client-local", Rule{}, "", "b", 0, "a b", "b"},
		{"min-masters", Rule{}, MinMasters, "a", 0, "a:2 b:1 c:1", "b"},
		{"min-masters avoids draining nodes", Rule{}, MinMasters, "a", 0, "a:2 b~ c:1", "c"},
		{"random is the seed's", Rule{}, Random, "a", 4, "a b c", "b"},
		{"listed node, not the client's", list, "", "a", 0, "a b c", "c"},
		{"the client's if listed", list, "", "b", 0, "a b c", "b"},
		{"the first listed that is up", list, "", "a", 0, "a b c!", "b"},
		{"none listed is up", list, "", "a", 0, "a b! c!", "a"},
		{"client on a witness", Rule{}, "", "w", 0, "a:1 b w*", "b"},
		{"nobody", Rule{}, "", "a", 0, "a! w*", ""},
	} {
		if got, _ := Master(c.rule, c.locator, c.client, c.seed, nodes(c.nodes)); got != c.want {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
	}
}

func TestMoveToAndStandIn(t *testing.T) {
	list := Rule{Mode: ModeNodes, Nodes: []string{"c", "b"}}
	if got, ok := MoveTo(list, "a", copies("a+ b+ c-")); got != "b" || !ok {
		t.Errorf("MoveTo = %q, %v", got, ok)
	}
	if _, ok := MoveTo(list, "b", copies("b+ c+")); ok {
		t.Error("a listed master moves")
	}
	if got, ok := StandIn(copies("a+ b/"), nodes("a b! c:2 d:1 e~")); got != "d" || !ok {
		t.Errorf("StandIn = %q, %v", got, ok)
	}
}

// The table of metadata.md, Promotion.
func TestPromote(t *testing.T) {
	for _, c := range []struct {
		candidates []Candidate
		always     bool
		want       string
	}{
		{[]Candidate{{"b", false}, {"c", true}, {"d", true}}, false, "c false true"},
		{[]Candidate{{"b", false}, {"c", true}}, true, "c false true"},
		{[]Candidate{{"b", false}, {"c", false}}, true, "b true true"},
		{[]Candidate{{"b", false}}, false, " false false"},
		{nil, true, " false false"},
	} {
		node, loss, ok := Promote(c.candidates, c.always)
		if got := fmt.Sprint(node, " ", loss, " ", ok); got != c.want {
			t.Errorf("Promote(%v, %v) = %s, want %s", c.candidates, c.always, got, c.want)
		}
	}
}
