package gmtest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"warren/dataplane/gm"
	"warren/dataplane/gm/internal/mutation"
)

// script plays a history by hand: every frame waits until the test passes it on.
type script struct {
	t      *testing.T
	rule   mutation.Rule
	groups map[string]*gm.Group
	self   map[string]gm.Member
	queue  map[string][][]byte // "ab": from a to b
	seen   map[string][]string // what the users got
}

func newScript(t *testing.T, rule mutation.Rule) *script {
	return &script{
		t: t, rule: rule, groups: map[string]*gm.Group{}, self: map[string]gm.Member{}, queue: map[string][][]byte{},
		seen: map[string][]string{},
	}
}

func (s *script) add(node string, join uint64, cfg gm.Config) {
	cfg.Self = gm.Member{Node: node, Incarnation: 1, JoinIndex: join}
	g := gm.NewMutated(cfg, mutation.Mutation{Rule: s.rule})
	for other := range s.groups {
		g.LinkUp(other, 1)
		s.groups[other].LinkUp(node, 1)
	}
	s.groups[node], s.self[node] = g, cfg.Self
}

func (s *script) view(version uint64, nodes string) gm.View {
	v := gm.View{Version: version}
	for _, n := range nodes {
		v.Members = append(v.Members, s.self[string(n)])
	}
	return v
}

// take carries out the outputs of a node: frames wait in queues.
func (s *script) take(node string) {
	for outs := s.groups[node].Take(nil); len(outs) > 0; outs = s.groups[node].Take(nil) {
		for _, o := range outs {
			switch o.Kind {
			case gm.Send:
				s.queue[node+o.To.Node] = append(s.queue[node+o.To.Node], o.Whole())
			case gm.Deliver:
				s.seen[node] = append(s.seen[node], string(o.Payload))
			case gm.SenderClosed:
				s.seen[node] = append(s.seen[node], fmt.Sprintf("closed %s %d", o.Sender.Node, o.Number))
			case gm.BaselineRaised:
				s.seen[node] = append(s.seen[node], fmt.Sprintf("raised %s %d-%d", o.Sender.Node, o.From, o.Number))
			}
		}
	}
}

// pass hands over the frames waiting on links "ab", one after the other, until the first whose description begins with
// until; "" passes all.
func (s *script) pass(link, until string) {
	for len(s.queue[link]) > 0 {
		f := s.queue[link][0]
		if until != "" && strings.HasPrefix(gm.Describe(f), until) {
			return
		}
		s.queue[link] = s.queue[link][1:]
		if err := s.groups[link[1:]].Receive(s.self[link[:1]], f); err != nil {
			s.t.Fatal(err)
		}
		s.take(link[1:])
	}
	if until != "" {
		s.t.Fatalf("no frame %q came on %s", until, link)
	}
}

// rest passes everything until nothing moves among the nodes.
func (s *script) rest(nodes string) {
	for moved := true; moved; {
		moved = false
		for _, a := range nodes {
			s.take(string(a))
			for _, b := range nodes {
				link := string(a) + string(b)
				moved = moved || len(s.queue[link]) > 0
				s.pass(link, "")
			}
		}
	}
}

func (s *script) broadcast(node, text string, c gm.Class) {
	if _, err := s.groups[node].Broadcast([]byte(text), c); err != nil {
		s.t.Fatalf("%s broadcasts %s: %v", node, text, err)
	}
	s.take(node)
}

func (s *script) install(v gm.View, nodes string) {
	for _, n := range nodes {
		s.groups[string(n)].Install(v)
		s.take(string(n))
	}
}

// scriptRegained is script (a) of design/gm.md: a predecessor that is lost and regained is a new one (R7). It returns what
// user a got, in order.
func scriptRegained(t *testing.T, rule mutation.Rule) []string {
	s := newScript(t, rule)
	for _, n := range []string{"a", "b", "c"} {
		s.add(n, 1, gm.Config{})
	}
	s.add("d", 2, gm.Config{})
	v0, v1, v2 := s.view(1, "abc"), s.view(2, "abcd"), s.view(3, "abc")
	s.install(v0, "abc")
	s.rest("abc")
	s.install(v1, "a")
	s.broadcast("b", "B1", gm.Control)
	s.pass("bc", "")
	s.broadcast("c", "C1", gm.Control)
	s.pass("ca", "data v1 #2:1") // B1 reaches a in v1, where c is not its predecessor
	s.install(v2, "a")
	s.pass("ca", "")
	s.install(v1, "bc")
	s.install(v2, "bc")
	s.rest("abc")
	return s.seen["a"]
}

func TestScriptRegainedPredecessor(t *testing.T) {
	if got := scriptRegained(t, mutation.None); !slices.Equal(got, []string{"B1", "C1", "closed d 0"}) {
		t.Errorf("a delivered %q", got)
	}
	if got := scriptRegained(t, mutation.KeepStarted); slices.Contains(got, "B1") {
		t.Errorf("the script does not notice that R7 is broken: %q", got)
	}
}

// scriptOldToken is script (b): the carrier of D1 is expelled while Closing{D,0,0} of an older view is under way.
func scriptOldToken(t *testing.T, rule mutation.Rule) []string {
	s := newScript(t, rule)
	for _, n := range []string{"a", "b", "d", "e"} {
		s.add(n, 1, gm.Config{})
	}
	s.install(s.view(1, "abde"), "abde")
	s.rest("abde")
	s.broadcast("d", "D1", gm.Control)
	s.install(s.view(2, "abe"), "ab") // d is dead; e, its successor, does not know yet
	s.pass("ba", "")
	s.pass("ab", "") // the token of view 2 passes b, which has nothing of d
	s.pass("de", "") // e carries D1
	s.pass("ea", "") // and hands it to a
	delete(s.queue, "ab")
	delete(s.queue, "ba")
	s.groups["a"].LinkUp("b", 1) // the link between a and b is a new one, so that b answers before it hears of a new token
	s.groups["b"].LinkUp("a", 1)
	s.take("a")
	s.take("b")
	delete(s.queue, "ab")
	delete(s.queue, "ba")
	s.install(s.view(3, "ab"), "ab") // e is expelled
	s.rest("ab")
	return append(s.seen["a"], s.seen["b"]...)
}

func TestScriptOldToken(t *testing.T) {
	want := []string{"D1", "closed d 1", "closed e 0", "D1", "closed d 1", "closed e 0"}
	if got := scriptOldToken(t, mutation.None); !slices.Equal(got, want) {
		t.Errorf("a and b got %q", got)
	}
	if got := scriptOldToken(t, mutation.OldToken); slices.Equal(got, want) {
		t.Errorf("the script does not notice that R8 is broken: %q", got)
	}
}

// scriptBlocked: what becomes stable in a view without the joiner while it waits for the joiner's credit still comes before
// its Stable (R10).
func scriptBlocked(t *testing.T, rule mutation.Rule) gm.Stats {
	s := newScript(t, rule)
	s.add("a", 1, gm.Config{})
	s.add("b", 1, gm.Config{})
	s.add("d", 2, gm.Config{Window: 1})
	s.install(s.view(1, "ab"), "ab")
	s.rest("ab")
	s.broadcast("a", "m1", gm.Bulk)
	s.broadcast("a", "m2", gm.Bulk)
	s.pass("ab", "")
	s.groups["b"].Persisted(s.self["a"], 2)
	s.take("b")
	s.install(s.view(2, "abd"), "bd")
	s.pass("db", "")
	s.pass("bd", "")
	s.pass("ba", "") // a, still in view 1, learns that all have m1 and m2
	s.pass("ab", "") // b learns it while m2 waits for d's credit
	s.pass("bd", "")
	if got := s.seen["d"]; !slices.Equal(got, []string{"m1"}) {
		t.Fatalf("d got %q before it persisted anything", got)
	}
	s.groups["d"].Persisted(s.self["a"], 1)
	s.take("d")
	s.pass("db", "")
	s.pass("bd", "")
	if got := s.seen["d"]; rule == mutation.None && !slices.Equal(got, []string{"m1", "m2"}) {
		t.Errorf("d got %q", got)
	}
	return s.groups["d"].Stats()
}

func TestScriptBlockedJoiner(t *testing.T) {
	if d := scriptBlocked(t, mutation.None).Defects; d != (gm.Defects{}) {
		t.Errorf("defects %+v", d)
	}
	if d := scriptBlocked(t, mutation.StableOvertakes).Defects; d == (gm.Defects{}) {
		t.Error("the script does not notice that R10 is broken")
	}
}

// TestScriptRaisedBaseline: messages that became stable before the joiner counted, lost on their way to it, are past its raised
// baseline (R9).
func TestScriptRaisedBaseline(t *testing.T) {
	s := newScript(t, mutation.None)
	s.add("a", 1, gm.Config{})
	s.add("b", 1, gm.Config{})
	s.add("d", 2, gm.Config{})
	s.install(s.view(1, "ab"), "ab")
	s.rest("ab")
	s.broadcast("a", "m1", gm.Control)
	s.pass("ab", "")
	s.install(s.view(2, "abd"), "bd")
	s.pass("db", "")
	s.pass("bd", "data") // the Start arrives, m1 is lost with the link
	s.pass("ba", "")     // a, in view 1, learns that all have m1
	s.pass("ab", "")
	delete(s.queue, "bd")
	s.groups["b"].LinkUp("d", 1)
	s.groups["d"].LinkUp("b", 1)
	s.take("d")
	s.pass("db", "")
	s.pass("bd", "")
	s.install(s.view(2, "abd"), "a")
	s.rest("abd")
	s.broadcast("a", "m2", gm.Control)
	s.rest("abd")
	if got := s.seen["d"]; !slices.Equal(got, []string{"raised a 0-1", "m2"}) {
		t.Errorf("d got %q", got)
	}
	for n, g := range s.groups {
		if !g.Idle() {
			t.Errorf("%s is not idle: %+v", n, g.Stats())
		}
	}
}
