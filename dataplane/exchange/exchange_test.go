package exchange

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func mustDeclare(t testing.TB, tab *Table, name, typ string, args map[string]any) {
	t.Helper()
	if err := tab.Declare(Exchange{name, typ, args}); err != nil {
		t.Fatal(err)
	}
}

func mustBind(t testing.TB, tab *Table, b Binding) {
	t.Helper()
	if err := tab.Bind(b); err != nil {
		t.Fatal(err)
	}
}

func routed(t testing.TB, tab *Table, m Message) string {
	t.Helper()
	var s Scratch
	qs, err := tab.Route(&s, m)
	if err != nil {
		t.Fatal(err)
	}
	qs = slices.Sorted(slices.Values(qs))
	return strings.Join(qs, " ")
}

func TestDefaultExchange(t *testing.T) {
	tab := NewTable()
	if got := routed(t, tab, Message{Key: "q", More: []string{"r", "q"}}); got != "q r" {
		t.Errorf("got %q", got)
	}
}

func TestUnknown(t *testing.T) {
	tab := NewTable()
	var s Scratch
	var unknown *UnknownExchangeError
	if _, err := tab.Route(&s, Message{Exchange: "x"}); !errors.As(err, &unknown) || unknown.Name != "x" {
		t.Errorf("route: %v", err)
	}
	if err := tab.Bind(Binding{Source: "x", Destination: "q"}); !errors.As(err, &unknown) {
		t.Errorf("bind: %v", err)
	}
	var typ *UnknownTypeError
	if err := tab.Declare(Exchange{Name: "x", Type: "odd"}); !errors.As(err, &typ) {
		t.Errorf("declare: %v", err)
	}
}

func TestDirectAndFanout(t *testing.T) {
	tab := NewTable()
	mustDeclare(t, tab, "d", Direct, nil)
	mustDeclare(t, tab, "f", Fanout, nil)
	mustBind(t, tab, Binding{Source: "d", Destination: "q1", Key: "a"})
	mustBind(t, tab, Binding{Source: "d", Destination: "q1", Key: "a", Args: map[string]any{"x": 1}})
	mustBind(t, tab, Binding{Source: "d", Destination: "q2", Key: "b"})
	mustBind(t, tab, Binding{Source: "f", Destination: "q1"})
	mustBind(t, tab, Binding{Source: "f", Destination: "q2", Key: "b"})
	for key, want := range map[string]string{"a": "q1", "b": "q2", "c": ""} {
		if got := routed(t, tab, Message{Exchange: "d", Key: key}); got != want {
			t.Errorf("direct %s: %q, want %q", key, got, want)
		}
	}
	if got := routed(t, tab, Message{Exchange: "d", Key: "a", More: []string{"b"}}); got != "q1 q2" {
		t.Errorf("more keys: %q", got)
	}
	if got := routed(t, tab, Message{Exchange: "f", Key: "zz"}); got != "q1 q2" {
		t.Errorf("fanout: %q", got)
	}
	// Two bindings lead to q1; it is routed to until both are gone.
	if !tab.Unbind(Binding{Source: "d", Destination: "q1", Key: "a"}) || routed(t, tab, Message{Exchange: "d", Key: "a"}) != "q1" {
		t.Error("one of two bindings gone: q1 must stay")
	}
	if !tab.Unbind(Binding{Source: "d", Destination: "q1", Key: "a", Args: map[string]any{"x": int64(1)}}) || routed(t, tab, Message{Exchange: "d", Key: "a"}) != "" {
		t.Error("both gone: q1 must go")
	}
	if tab.Unbind(Binding{Source: "d", Destination: "q1", Key: "a"}) {
		t.Error("a binding that is not there was unbound")
	}
	if tab.Bindings("d") != 1 {
		t.Errorf("%d bindings left, want 1", tab.Bindings("d"))
	}
	tab.Delete("d")
	if tab.Has("d") || !tab.Has("f") || !tab.Has("") {
		t.Error("Has is wrong after Delete")
	}
}

// moment is a type like the codec's for times.
type moment uint64

func TestHeaders(t *testing.T) {
	tests := []struct {
		match   string
		args    map[string]any
		headers map[string]any
		want    bool
	}{
		{"all", map[string]any{"a": int32(1), "b": "x"}, map[string]any{"a": int64(1), "b": "x", "c": 1}, true},
		{"all", map[string]any{"a": int32(1), "b": "x"}, map[string]any{"a": int64(1)}, false},
		{"all", map[string]any{"a": uint8(255)}, map[string]any{"a": int8(-1)}, false},
		{"any", map[string]any{"a": int32(1), "b": "x"}, map[string]any{"b": "x"}, true},
		{"any", map[string]any{"a": int32(1), "b": "x"}, map[string]any{"b": "y"}, false},
		{"", map[string]any{"a": "1"}, map[string]any{"a": "1"}, true},
		{"all", map[string]any{"a": nil}, map[string]any{"a": "whatever"}, true},
		{"all", map[string]any{"a": nil}, nil, false},
		{"all", map[string]any{}, nil, true},
		{"any", map[string]any{}, map[string]any{"a": 1}, false},
		{"all", map[string]any{"x-a": "1"}, nil, true},
		{"all-with-x", map[string]any{"x-a": "1"}, nil, false},
		{"all-with-x", map[string]any{"x-a": "1"}, map[string]any{"x-a": "1"}, true},
		{"any", map[string]any{"x-a": "1", "b": true}, map[string]any{"x-a": "1"}, false},
		{"any-with-x", map[string]any{"x-a": "1", "b": true}, map[string]any{"x-a": "1"}, true},
		{"all", map[string]any{"a": 1.5}, map[string]any{"a": 1.5}, true},
		{"all", map[string]any{"a": 1}, map[string]any{"a": 1.0}, true},
		{"all", map[string]any{"a": float32(-2)}, map[string]any{"a": int8(-2)}, true},
		{"all", map[string]any{"a": float32(1.5)}, map[string]any{"a": 1}, false},
		{"all", map[string]any{"a": 1 << 53}, map[string]any{"a": float64(1<<53 + 2)}, false},
		{"all", map[string]any{"a": "xy"}, map[string]any{"a": []byte("xy")}, true},
		{"all", map[string]any{"a": []byte("xy")}, map[string]any{"a": "xz"}, false},
		{"all", map[string]any{"a": moment(5)}, map[string]any{"a": int16(5)}, true},
		{"all", map[string]any{"a": "1"}, map[string]any{"a": 1}, false},
	}
	for i, tt := range tests {
		tab := NewTable()
		mustDeclare(t, tab, "h", Headers, nil)
		args := map[string]any{}
		for k, v := range tt.args {
			args[k] = v
		}
		if tt.match != "" {
			args["x-match"] = tt.match
		}
		b := Binding{Source: "h", Destination: "q", Args: args}
		mustBind(t, tab, b)
		calls := 0
		got := routed(t, tab, Message{Exchange: "h", Headers: func() map[string]any { calls++; return tt.headers }})
		if (got == "q") != tt.want {
			t.Errorf("%d: x-match %q, %v against %v: routed to %q, want match %t", i, tt.match, tt.args, tt.headers, got, tt.want)
		}
		if calls != 1 {
			t.Errorf("%d: headers asked for %d times", i, calls)
		}
		if !tab.Unbind(b) || routed(t, tab, Message{Exchange: "h", Headers: func() map[string]any { return tt.headers }}) != "" {
			t.Errorf("%d: unbound but still routed to", i)
		}
	}
}

func TestExchangeToExchange(t *testing.T) {
	tab := NewTable()
	for _, x := range []string{"a", "b", "c"} {
		mustDeclare(t, tab, x, Fanout, nil)
		mustBind(t, tab, Binding{Source: x, Destination: "q" + x})
		mustBind(t, tab, Binding{Source: x, Destination: "all"})
	}
	mustBind(t, tab, Binding{Source: "a", Destination: "b", ToExchange: true})
	mustBind(t, tab, Binding{Source: "b", Destination: "c", ToExchange: true})
	mustBind(t, tab, Binding{Source: "c", Destination: "a", ToExchange: true}) // a cycle
	if got := routed(t, tab, Message{Exchange: "b"}); got != "all qa qb qc" {
		t.Errorf("got %q", got)
	}
	tab.Delete("c")
	if got := routed(t, tab, Message{Exchange: "b"}); got != "all qb" {
		t.Errorf("after c is gone: %q", got)
	}
}

func TestAlternateExchange(t *testing.T) {
	tab := NewTable()
	ae := func(to string) map[string]any { return map[string]any{"alternate-exchange": to} }
	mustDeclare(t, tab, "main", Direct, ae("second"))
	mustDeclare(t, tab, "second", Direct, ae("last"))
	mustDeclare(t, tab, "last", Fanout, ae("main"))
	mustDeclare(t, tab, "void", Fanout, nil)
	mustBind(t, tab, Binding{Source: "main", Destination: "q1", Key: "a"})
	mustBind(t, tab, Binding{Source: "second", Destination: "q2", Key: "b"})
	mustBind(t, tab, Binding{Source: "main", Destination: "void", Key: "v", ToExchange: true})
	if got := routed(t, tab, Message{Exchange: "main", Key: "a"}); got != "q1" {
		t.Errorf("routed: %q", got)
	}
	if got := routed(t, tab, Message{Exchange: "main", Key: "b"}); got != "q2" {
		t.Errorf("by the alternate: %q", got)
	}
	if got := routed(t, tab, Message{Exchange: "main", Key: "c"}); got != "" {
		t.Errorf("a ring of alternates that routes nowhere: %q", got)
	}
	// An exchange that is bound counts as routed, even if it leads nowhere itself.
	if got := routed(t, tab, Message{Exchange: "main", Key: "v"}); got != "" {
		t.Errorf("by a bound exchange: %q", got)
	}
	mustBind(t, tab, Binding{Source: "last", Destination: "q3"})
	if got := routed(t, tab, Message{Exchange: "main", Key: "v"}); got != "" {
		t.Errorf("the alternate was used although a binding matched: %q", got)
	}
	if got := routed(t, tab, Message{Exchange: "main", Key: "c"}); got != "q3" {
		t.Errorf("the alternate's alternate: %q", got)
	}
}

// topicMatches is the definition, written as plainly as it can be.
func topicMatches(pattern, words []string) bool {
	switch {
	case len(pattern) == 0:
		return len(words) == 0
	case pattern[0] == "#":
		return topicMatches(pattern[1:], words) || len(words) > 0 && topicMatches(pattern, words[1:])
	case len(words) == 0:
		return false
	}
	return (pattern[0] == "*" || pattern[0] == words[0]) && topicMatches(pattern[1:], words[1:])
}

// splitTopic: an empty key has no words, as with RabbitMQ.
func splitTopic(key string) []string {
	if key == "" {
		return nil
	}
	return strings.Split(key, ".")
}

func TestTopicAgainstNaiveMatcher(t *testing.T) {
	for seed := range uint64(300) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		words := func(vocabulary []string, most int) string {
			ws := make([]string, 1+rnd.IntN(most))
			for i := range ws {
				ws[i] = vocabulary[rnd.IntN(len(vocabulary))]
			}
			return strings.Join(ws, ".")
		}
		tab := NewTable()
		mustDeclare(t, tab, "t", Topic, nil)
		bound := map[topicBinding]bool{}
		for step := range 60 {
			b := topicBinding{words([]string{"a", "b", "*", "#", "#", ""}, 5), fmt.Sprint("q", rnd.IntN(25))}
			full := Binding{Source: "t", Key: b.key, Destination: b.queue}
			if step%3 == 2 {
				if got := tab.Unbind(full); got != bound[b] {
					t.Fatalf("seed %d: unbind %v: %t, want %t", seed, b, got, bound[b])
				}
				delete(bound, b)
			} else {
				mustBind(t, tab, full)
				bound[b] = true
			}
			key := words([]string{"a", "b", "", "#", "*"}, 6)
			want := map[string]bool{}
			for b := range bound {
				if topicMatches(splitTopic(b.key), splitTopic(key)) {
					want[b.queue] = true
				}
			}
			got := routed(t, tab, Message{Exchange: "t", Key: key})
			list := []string{}
			for q := range want {
				list = append(list, q)
			}
			slices.Sort(list)
			if got != strings.Join(list, " ") {
				t.Fatalf("seed %d, key %q, bindings %v: got %q, want %q", seed, key, bound, got, list)
			}
		}
		for b := range bound {
			tab.Unbind(Binding{Source: "t", Key: b.key, Destination: b.queue})
		}
		if root := &tab.exchanges["t"].topic.root; !root.empty() {
			t.Fatalf("seed %d: the trie keeps nodes after all bindings are gone", seed)
		}
	}
}

// topicBinding is a binding of the topic test.
type topicBinding struct{ key, queue string }

// TestNestedHashesAreNotExponential would not end in a lifetime if "#" were tried for every number of words recursively.
func TestNestedHashesAreNotExponential(t *testing.T) {
	tab := NewTable()
	mustDeclare(t, tab, "t", Topic, nil)
	mustBind(t, tab, Binding{Source: "t", Destination: "q", Key: strings.Repeat("#.a.", 30) + "b"})
	mustBind(t, tab, Binding{Source: "t", Destination: "r", Key: strings.Repeat("#.", 100) + "#"})
	if got := routed(t, tab, Message{Exchange: "t", Key: strings.TrimSuffix(strings.Repeat("a.", 120), ".")}); got != "r" {
		t.Errorf("got %q", got)
	}
}

func TestManyTargets(t *testing.T) {
	tab := NewTable()
	mustDeclare(t, tab, "f", Fanout, nil)
	mustDeclare(t, tab, "g", Fanout, nil)
	mustBind(t, tab, Binding{Source: "f", Destination: "g", ToExchange: true})
	for i := range 100 {
		mustBind(t, tab, Binding{Source: "f", Destination: fmt.Sprint("q", i)})
		mustBind(t, tab, Binding{Source: "g", Destination: fmt.Sprint("q", i)})
	}
	var s Scratch
	check := func(want int) {
		t.Helper()
		qs, err := tab.Route(&s, Message{Exchange: "f"})
		if err != nil {
			t.Fatal(err)
		}
		unique := map[string]bool{}
		for _, q := range qs {
			unique[q] = true
		}
		if len(qs) != want || len(unique) != want {
			t.Fatalf("%d queues, %d different, want %d", len(qs), len(unique), want)
		}
	}
	check(100)
	check(100) // the scratch is used again
	for i := range 90 {
		tab.Unbind(Binding{Source: "f", Destination: fmt.Sprint("q", i)})
		tab.Unbind(Binding{Source: "g", Destination: fmt.Sprint("q", i)})
	}
	check(10)
}

func TestRouteDoesNotAllocate(t *testing.T) {
	tab := NewTable()
	mustDeclare(t, tab, "d", Direct, nil)
	mustDeclare(t, tab, "t", Topic, nil)
	mustBind(t, tab, Binding{Source: "d", Destination: "q", Key: "k"})
	mustBind(t, tab, Binding{Source: "t", Destination: "q", Key: "a.*.#"})
	var s Scratch
	for _, m := range []Message{{Exchange: "d", Key: "k"}, {Exchange: "t", Key: "a.b.c"}, {Key: "q"}} {
		n := testing.AllocsPerRun(100, func() {
			if qs, err := tab.Route(&s, m); err != nil || len(qs) != 1 {
				t.Fatal(qs, err)
			}
		})
		if n != 0 {
			t.Errorf("%q: %.0f allocations", m.Exchange, n)
		}
	}
}

func BenchmarkRoute(b *testing.B) {
	tab := NewTable()
	for _, typ := range []string{Direct, Fanout, Topic, Headers} {
		mustDeclare(b, tab, typ, typ, nil)
	}
	for i := range 1000 {
		q := fmt.Sprint("q", i)
		mustBind(b, tab, Binding{Source: Direct, Destination: q, Key: q})
		mustBind(b, tab, Binding{Source: Topic, Destination: q, Key: fmt.Sprintf("*.r%d.#", i)})
		if i < 100 {
			mustBind(b, tab, Binding{Source: Fanout, Destination: q})
			mustBind(b, tab, Binding{Source: Headers, Destination: q, Args: map[string]any{"n": i}})
		}
	}
	headers := map[string]any{"n": 50}
	for _, typ := range []string{Direct, Fanout, Topic, Headers} {
		key := "q500"
		if typ == Topic {
			key = "x.r500.y.z"
		}
		b.Run("type="+typ, func(b *testing.B) {
			var s Scratch
			b.ReportAllocs()
			for b.Loop() {
				if _, err := tab.Route(&s, Message{Exchange: typ, Key: key, Headers: func() map[string]any { return headers }}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
