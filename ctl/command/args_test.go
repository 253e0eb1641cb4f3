package command

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	flags := append(generalFlags(), flag{"priority", 0, flagInteger}, flag{"if-empty", 'e', flagBool})
	for _, tc := range []struct {
		line    string
		text    map[string]string
		set     map[string]bool
		args    string
		invalid string
	}{
		{line: "list_queues name messages", args: "list_queues name messages"},
		{line: "-n a@h list_queues -p v1", text: map[string]string{"node": "a@h", "vhost": "v1"}, args: "list_queues"},
		{line: "--vhost=v1 x --node=b", text: map[string]string{"vhost": "v1", "node": "b"}, args: "x"},
		{line: "x --node a --node b", text: map[string]string{"node": "b"}, args: "x"},
		{line: "x --priority -5", text: map[string]string{"priority": "-5"}, args: "x"},
		{line: "x -5", args: "x -5"},
		{line: "x - y", args: "x - y"},
		{line: "x -- -q --node", args: "x -q --node"},
		{line: "x -q -s", set: map[string]bool{"quiet": true, "silent": true}, args: "x"},
		{line: "x --no-table-headers", set: map[string]bool{"table-headers": false}, args: "x"},
		{line: "x --table_headers=false", set: map[string]bool{"table-headers": false}, args: "x"},
		{line: "x -e y", set: map[string]bool{"if-empty": true}, args: "x y"},
		{line: "x --priority high", args: "x", invalid: "[{--priority high}]"},
		{line: "x --priority 1.5", args: "x", invalid: "[{--priority 1.5}]"},
		{line: "x --node", args: "x", invalid: "[{--node }]"},
		{line: "x --node --quiet", set: map[string]bool{"quiet": true}, args: "x", invalid: "[{--node }]"},
		{line: "x --quiet=maybe", args: "x", invalid: "[{--quiet maybe}]"},
		{line: "x --nosuch 1", args: "x 1", invalid: "[{--nosuch }]"},
		{line: "x -z", args: "x", invalid: "[{-z }]"},
		{line: "x -qs", args: "x", invalid: "[{-qs }]"},
		{line: "x -é", args: "x", invalid: "[{-é }]"},
	} {
		p := parse(strings.Fields(tc.line), flags)
		if tc.text == nil {
			tc.text = map[string]string{}
		}
		if tc.set == nil {
			tc.set = map[string]bool{}
		}
		if tc.invalid == "" {
			tc.invalid = "[]"
		}
		if !reflect.DeepEqual(p.text, tc.text) || !reflect.DeepEqual(p.set, tc.set) || strings.Join(p.args, " ") != tc.args || fmt.Sprint(p.invalid) != tc.invalid {
			t.Errorf("%s: %+v", tc.line, p)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("-n a --vhost=x -- -q")
	f.Fuzz(func(t *testing.T, line string) {
		argv := strings.Split(line, " ")
		if p := parse(argv, generalFlags()); len(p.args) > len(argv) {
			t.Errorf("%q: %q", argv, p.args)
		}
	})
}

// Every flag means the same in every command, or a flag before the command's name could not be read.
func TestFlagsAgree(t *testing.T) {
	kinds := map[string]flagKind{}
	for _, cmd := range commands() {
		for _, f := range append(generalFlags(), cmd.flags...) {
			if k, ok := kinds[f.name]; ok && k != f.kind {
				t.Errorf("%s: --%s has two kinds", cmd.name, f.name)
			}
			kinds[f.name] = f.kind
		}
	}
}

// The help shows every command, so each must be in a group that it has.
func TestEveryCommandIsInTheHelp(t *testing.T) {
	for _, name := range allTools() {
		tool := newTool(name, name)
		help := tool.help()
		for _, cmd := range tool.commands {
			if !strings.Contains(help, "   "+cmd.name+" ") {
				t.Errorf("%s: %s is missing in the help", name, cmd.name)
			}
			if got := tool.helpFor(&cmd); !strings.Contains(got, cmd.summary+".") {
				t.Errorf("help %s: %q", cmd.name, got)
			}
		}
	}
}
