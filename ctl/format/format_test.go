package format

import (
	"strings"
	"testing"
)

func TestValues(t *testing.T) {
	pid := PID{"rmq1@localhost", 1795966129, 3619, 0}
	table := Table{{"x-max-priority", "signedint", int64(5)}, {`a"b`, "longstr", `c"\d`}, {"l", "array", List{"x", int64(1)}}, {"v", "void", nil}}
	for _, tc := range []struct {
		value              any
		text, json, pretty string
	}{
		{nil, "", `""`, ""},
		{"a\tb", "a\tb", `"a\tb"`, "a\tb"},
		{"<&>é", "<&>é", `"<&>é"`, "<&>é"},
		{Atom("running"), "running", `"running"`, "running"},
		{true, "true", "true", "true"},
		{uint64(1) << 63, "9223372036854775808", "9223372036854775808", "9223372036854775808"},
		{60.0, "60.0", "60", "60.0"},
		{2.4e-6, "2.4e-06", "0.0000024", "2.4e-06"},
		{pid, "<rmq1@localhost.1795966129.3619.0>", `"#PID<1795966129.3619.0>"`, "<1795966129.3619.0>"},
		{List{pid, pid}, "[<rmq1@localhost.1795966129.3619.0>, <rmq1@localhost.1795966129.3619.0>]", `["#PID<1795966129.3619.0>","#PID<1795966129.3619.0>"]`, "<1795966129.3619.0><1795966129.3619.0>"},
		{List{}, "[]", "[]", ""},
		{Tuple{Atom("syncing"), 5}, "{syncing, 5}", `["syncing",5]`, "{syncing, 5}"},
		{Map{{"b", Atom("x")}, {"a", 1}}, "[{b, x}, {a, 1}]", `{"b":"x","a":1}`, "[{b, x}, {a, 1}]"},
		{
			table, `[{"x-max-priority",5},{"a\"b","c\"\\d"},{"l",["x",1]},{"v",undefined}]`,
			`[["x-max-priority","signedint",5],["a\"b","longstr","c\"\\d"],["l","array",["x",1]],["v","void",""]]`,
			`[{"x-max-priority",5},{"a\"b","c\"\\d"},{"l",["x",1]},{"v",undefined}]`,
		},
	} {
		if got := Text(tc.value); got != tc.text {
			t.Errorf("Text(%v) = %s, want %s", tc.value, got, tc.text)
		}
		if got, err := JSON(tc.value); err != nil || string(got) != tc.json {
			t.Errorf("JSON(%v) = %s, %v, want %s", tc.value, got, err, tc.json)
		}
		if got := prettyText(tc.value); got != tc.pretty {
			t.Errorf("prettyText(%v) = %s, want %s", tc.value, got, tc.pretty)
		}
	}
}

func TestRows(t *testing.T) {
	type row = []any
	for _, tc := range []struct {
		name           string
		format         Format
		headers, whole bool
		rows           []row
		want           string
	}{
		{"table", FormatTable, true, false, []row{{"x", 1}, {"y", nil}}, "a\tb\nx\t1\ny\t\n"},
		{"table without headers", FormatTable, false, false, []row{{"x", 1}}, "x\t1\n"},
		{"no rows, streamed", FormatTable, true, false, nil, ""},
		{"no rows, whole", FormatTable, true, true, nil, "\n"},
		{"json", FormatJSON, false, false, []row{{"x", 1}, {"y", nil}}, "[\n{\"a\":\"x\",\"b\":1}\n,{\"a\":\"y\",\"b\":\"\"}\n]\n"},
		{"json, no rows, streamed", FormatJSON, true, false, nil, "[\n]\n"},
		{"json, no rows, whole", FormatJSON, true, true, nil, "[]\n"},
		{"csv", FormatCSV, true, false, []row{{`x"y`, 1}}, "\"a\",\"b\"\n\"x\"\"y\",\"1\"\n"},
		{"csv, no rows", FormatCSV, true, false, nil, ""},
		{"pretty, no rows", FormatPretty, true, true, nil, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var b strings.Builder
			rows := NewRows(&b, tc.format, []string{"a", "b"}, tc.headers, tc.whole)
			for _, r := range tc.rows {
				if err := rows.Row(r); err != nil {
					t.Fatal(err)
				}
			}
			if err := rows.Close(); err != nil || b.String() != tc.want {
				t.Errorf("got %q, %v; want %q", b.String(), err, tc.want)
			}
		})
	}
}

// As recorded: rows that fit into a line, rows that do not, and a value that is broken beside its name.
func TestErlang(t *testing.T) {
	var b strings.Builder
	rows := NewRows(&b, FormatErlang, []string{"name", "pid", "slave_pids", "apply-to"}, true, false)
	pid := PID{"a@b", 12571, 3609, 0}
	table := Table{{"x-max-priority", "signedint", int64(5)}, {"x-message-ttl", "signedint", int64(3600000)}, {"x-dead", "longstr", "q"}}
	for _, r := range [][]any{{"plain", pid, nil, List{}}, {"h\u00e9", pid, List{pid, pid}, table}} {
		if err := rows.Row(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := rows.Close(); err != nil {
		t.Fatal(err)
	}
	want := `[[{name,<<"plain">>},{pid,<12571.3609.0>},{slave_pids,''},{'apply-to',[]}],
 [{name,<<104,195,169>>},
  {pid,<12571.3609.0>},
  {slave_pids,[<12571.3609.0>,<12571.3609.0>]},
  {'apply-to',[{<<"x-max-priority">>,signedint,5},
               {<<"x-message-ttl">>,signedint,3600000},
               {<<"x-dead">>,longstr,<<"q">>}]}]]
`
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}
