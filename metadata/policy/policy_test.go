package policy

import (
	"errors"
	"strings"
	"testing"
)

// The texts are those that rabbitmqctl printed (05-policies.txt), but where RabbitMQ crashes.
func TestParseTexts(t *testing.T) {
	haMissing := "ha-mode must be specified to specify ha-params, ha-sync-mode or ha-promote-on-shutdown"
	for _, c := range []struct{ definition, want string }{
		{`{"ha-mode":"all"}`, ""},
		{`{}`, "no policy provided"},
		{`[]`, "definition must be a dictionary: []"},
		{`{"ha-mdoe":"all"}`, `[{<<"ha-mdoe">>,<<"all">>}] are not recognised policy settings`},
		{`{"ha-mdoe":"all","foo":1,"ha-mode":"all"}`, `[{<<"foo">>,1},{<<"ha-mdoe">>,<<"all">>}] are not recognised policy settings`},
		{`{"single-active-consumer":true}`, `[{<<"single-active-consumer">>,true}] are not recognised policy settings`},
		{`{"ha-mode":"some"}`, `<<"some">> is not a valid ha-mode value`},
		{`{"ha-mode":2}`, `2 is not a valid ha-mode value`},
		{`{"ha-mode":"all","ha-params":2}`, `ha-mode="all" does not take parameters`},
		{`{"ha-params":2}`, haMissing},
		{`{"ha-sync-mode":"automatic"}`, haMissing},
		{`{"ha-min-in-sync":2}`, haMissing},
		{`{"ha-mode":"exactly"}`, `ha-mode="exactly" takes an integer, none given`},
		{`{"ha-mode":"exactly","ha-params":"2"}`, `ha-mode="exactly" takes an integer, <<"2">> given`},
		{`{"ha-mode":"exactly","ha-params":0}`, `ha-mode="exactly" takes an integer, 0 given`},
		{`{"ha-mode":"exactly","ha-params":2.5}`, `ha-mode="exactly" takes an integer, 2.5 given`},
		{`{"ha-mode":"exactly","ha-params":["a@b"]}`, `ha-mode="exactly" takes an integer, [<<"a@b">>] given`},
		{`{"ha-mode":"exactly","ha-params":null}`, `ha-mode="exactly" takes an integer, null given`},
		{`{"ha-mode":"exactly","ha-params":99}`, ""},
		{`{"ha-mode":"nodes"}`, `ha-mode="nodes" takes a list, none given`},
		{`{"ha-mode":"nodes","ha-params":"rmq1@localhost"}`, `ha-mode="nodes" takes a list, <<"rmq1@localhost">> given`},
		{`{"ha-mode":"nodes","ha-params":[]}`, `ha-mode="nodes" list must be non-empty`},
		{`{"ha-mode":"nodes","ha-params":2}`, `ha-mode="nodes" takes a list, 2 given`},
		{`{"ha-mode":"nodes","ha-params":[1,2]}`, `ha-mode="nodes" takes a list of strings, [1,2] was not a string`},
		{`{"ha-mode":"nodes","ha-params":["rmq1@localhost",3]}`, `ha-mode="nodes" takes a list of strings, [3] was not a string`},
		{`{"ha-mode":"nodes","ha-params":["nosuch@node","nosuch@node"]}`, ""},
		{`{"ha-mode":"all","ha-sync-mode":"auto"}`, `ha-sync-mode must be "manual" or "automatic", got <<"auto">>`},
		{`{"ha-mode":"all","ha-sync-mode":true}`, `ha-sync-mode must be "manual" or "automatic", got true`},
		{`{"ha-mode":"all","ha-promote-on-shutdown":"never"}`, `ha-promote-on-shutdown must be "always" or "when-synced", got <<"never">>`},
		{`{"ha-mode":"all","ha-promote-on-failure":0}`, `ha-promote-on-failure must be "always" or "when-synced", got 0`},
		{`{"ha-mode":"all","ha-sync-batch-size":"10"}`, `ha-sync-batch-size takes an integer greater than 0, <<"10">> given`},
		{`{"ha-mode":"all","ha-sync-batch-size":null}`, `ha-sync-batch-size takes an integer greater than 0, null given`},
		{`{"ha-mode":"all","ha-sync-batch-size":1}`, ""},
		{`{"ha-mode":"all","ha-sync-strategy":"fast"}`, `ha-sync-strategy must be "online" or "blocking", got <<"fast">>`},
		{`{"ha-mode":"all","ha-mirror-timeout":0}`, `ha-mirror-timeout takes an integer greater than 0, 0 given`},
		{`{"queue-master-locator":"nosuch"}`, `<<"nosuch">> invalid queue-master-locator value`},
		{`{"queue-master-locator":1}`, `1 invalid queue-master-locator value`},
		{`{"message-ttl":-1}`, "-1 is not a valid message TTL"},
		{`{"message-ttl":"x"}`, `<<"x">> is not a valid message TTL`},
		{`{"message-ttl":0}`, ""},
		{`{"expires":0}`, "0 is not a valid queue expiry"},
		{`{"max-length":"5"}`, `<<"5">> is not a valid maximum length`},
		{`{"max-length-bytes":-2}`, "-2 is not a valid maximum length in bytes"},
		{`{"overflow":"nosuch"}`, `<<"nosuch">> is not a valid overflow value`},
		{`{"dead-letter-exchange":1}`, "1 is not a valid dead letter exchange name"},
		{`{"dead-letter-routing-key":1}`, "1 is not a valid dead letter routing key"},
		{`{"alternate-exchange":5}`, "5 is not a valid alternate exchange name"},
		{`{"queue-mode":"x"}`, `<<"x">> is not a valid queue-mode value`},
		{`{"delivery-limit":"x"}`, `<<"x">> is not a valid delivery limit`},
		{`{"queue-version":3}`, "3 is not a valid queue-version value"},
		{`{"max-age":"1h"}`, ""},
		{`{"ha-mode":"exactly","ha-params":0,"ha-sync-mode":"x","message-ttl":-1}`, "-1 is not a valid message TTL"},
		{`{"ha-mode":"all","ha-mode":"all"}`, `[<<"ha-mode">>] duplicate keys not allowed`},
	} {
		_, err := Parse(c.definition, false)
		if got := text(err); got != c.want {
			t.Errorf("Parse(%s)\n got %q\nwant %q", c.definition, got, c.want)
		}
	}
}

func text(err error) string {
	var v *ValidationError
	if errors.As(err, &v) {
		return v.Text
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

func TestParseNotJSON(t *testing.T) {
	for _, s := range []string{`{"ha-mode":`, `all`, ``, `{} {}`} {
		if _, err := Parse(s, false); !errors.Is(err, ErrJSON) {
			t.Errorf("Parse(%q): %v", s, err)
		}
	}
}

func TestParseOperatorKeys(t *testing.T) {
	if _, err := Parse(`{"max-length":5,"expires":10}`, true); err != nil {
		t.Error(err)
	}
	_, err := Parse(`{"dead-letter-exchange":"x"}`, true)
	if want := `[{<<"dead-letter-exchange">>,<<"x">>}] are not recognised policy settings`; text(err) != want {
		t.Errorf("got %q", text(err))
	}
}

func TestCheckTexts(t *testing.T) {
	for _, c := range []struct {
		pattern string
		apply   ApplyTo
		want    string
	}{
		{`^(?!amq\.).*`, ApplyToAll, ""},
		{"(?i)^HA", ApplyToQueues, ""},
		{"", ApplyToExchanges, ""},
		{"(", ApplyToAll, `pattern should be regular expression but is invalid: {"missing )",1}`},
		{"*", ApplyToAll, `pattern should be regular expression but is invalid: {"nothing to repeat",0}`},
		{"a|*b", ApplyToAll, `pattern should be regular expression but is invalid: {"nothing to repeat",2}`},
		{"[", ApplyToAll, `pattern should be regular expression but is invalid: {"missing terminating ] for character class",` +
			"\n" + strings.Repeat(" ", 54) + "1}"},
		{"^b", "queue", "apply-to 'queue' unrecognised; should be 'queues', 'exchanges' or 'all'"},
		{"^b", "", "apply-to '' unrecognised; should be 'queues', 'exchanges' or 'all'"},
	} {
		if got := text(Check(c.pattern, c.apply)); got != c.want {
			t.Errorf("Check(%q, %q)\n got %q\nwant %q", c.pattern, c.apply, got, c.want)
		}
	}
	if got := (&ValidationError{Text: "x"}).Error(); got != "Validation failed\n\nx\n" {
		t.Errorf("Error() = %q", got)
	}
}

func TestMatchLimits(t *testing.T) {
	m, err := NewMatcher(`^(a+)+$`)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Match(strings.Repeat("a", 40) + "!"); !errors.Is(err, ErrTimeout) {
		t.Errorf("an exploding pattern: %v", err)
	}
	look, err := NewMatcher(`^(?!amq\.).*`)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"amq.gen-1": false, "orders": true} {
		if got, err := look.Match(name); got != want || err != nil {
			t.Errorf("Match(%q) = %v, %v", name, got, err)
		}
	}
}

func TestChoose(t *testing.T) {
	rule := func(name, pattern string, to ApplyTo, prio int64) Rule {
		m, err := NewMatcher(pattern)
		if err != nil {
			t.Fatal(err)
		}
		return Rule{name, m, to, prio}
	}
	rules := []Rule{rule("b", "^q", ApplyToAll, 1), rule("a", "^q", ApplyToAll, 1), rule("x", "^q", ApplyToExchanges, 9), rule("low", "", ApplyToQueues, -1)}
	Sort(rules)
	for _, c := range []struct {
		kind ApplyTo
		name string
		want string
	}{{ApplyToQueues, "q1", "a"}, {ApplyToExchanges, "q1", "x"}, {ApplyToQueues, "other", "low"}, {ApplyToExchanges, "other", ""}} {
		if got, _, err := Choose(rules, c.kind, c.name); got != c.want || err != nil {
			t.Errorf("Choose(%s, %s) = %q, %v, want %q", c.kind, c.name, got, err, c.want)
		}
	}
}

func TestMergeAndRead(t *testing.T) {
	parse := func(s string, operator bool) Definition {
		d, err := Parse(s, operator)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	user := parse(`{"max-length":10,"ha-mode":"all","overflow":"drop-head","message-ttl":5}`, false)
	op := parse(`{"max-length":20,"ha-mode":"exactly","ha-params":2,"overflow":"reject-publish","expires":9}`, true)
	m := Merge(user, op)
	want := `{"expires":9,"ha-mode":"all","ha-params":2,"max-length":10,"message-ttl":5,"overflow":"reject-publish"}`
	if m.JSON() != want {
		t.Errorf("Merge = %s", m.JSON())
	}
	if ha := m.HA(); ha.Mode != "all" || ha.Count != 0 || ha.PromoteOnFailure != "always" || ha.PromoteOnShutdown != "when-synced" {
		t.Errorf("HA = %+v: a stray ha-params must be ignored (M6)", ha)
	}
	for _, c := range []struct{ user, op, want string }{
		{`{"ha-mode":"exactly","ha-params":3}`, `{"ha-mode":"exactly","ha-params":2}`, `{"ha-mode":"exactly","ha-params":3}`},
		{`{"ha-mode":"nodes","ha-params":["a"]}`, `{"ha-mode":"exactly","ha-params":2}`, `{"ha-mode":"exactly","ha-params":2}`},
		{`{"ha-mode":"exactly","ha-params":2}`, `{"ha-mode":"nodes","ha-params":["a"]}`, `{"ha-mode":"exactly","ha-params":2}`},
		{`{"ha-mode":"nodes","ha-params":["a","b"]}`, `{"ha-mode":"nodes","ha-params":["c"]}`, `{"ha-mode":"nodes","ha-params":["a","b"]}`},
	} {
		if got := Merge(parse(c.user, false), parse(c.op, true)).JSON(); got != c.want {
			t.Errorf("Merge(%s, %s) = %s", c.user, c.op, got)
		}
	}
	if got := parse(`{"queue-leader-locator":"balanced"}`, false).HA().Locator; got != "min-masters" {
		t.Errorf("locator = %q", got)
	}
}

// The definition comes back as list_policies shows it: sorted, compact.
func TestJSON(t *testing.T) {
	d, err := Parse(`{"ha-mode": "nodes", "ha-params": ["r<1>@h", "é"], "dead-letter-exchange": "a\"b"}`, false)
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"dead-letter-exchange":"a\"b","ha-mode":"nodes","ha-params":["r<1>@h","é"]}`; d.JSON() != want {
		t.Errorf("JSON = %s", d.JSON())
	}
}
