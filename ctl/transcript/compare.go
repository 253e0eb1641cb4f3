package transcript

import (
	"regexp"
	"slices"
	"strings"
)

// rule replaces what may differ between RabbitMQ and Warren.
type rule struct {
	pattern     *regexp.Regexp
	replacement string
}

// rules are all differences that are not looked at, and why.
func rules() []rule {
	var all []rule
	for _, r := range []struct{ pattern, replacement string }{
		// Names of processes: the numbers are each run's own. RabbitMQ's json has a number in the node's place.
		{`<([\w-]+@[\w.-]+)\.\d+\.\d+\.\d+>`, "<$1.PID>"},
		{`#PID<\d+\.\d+\.\d+>`, "#PID<N>"},
		{`<\d+\.\d+\.\d+>`, "<PID>"},
		// Node names: the clusters are called differently.
		{`rmq(\d)@localhost`, "rabbit$1@localhost"},
		// The product and its version.
		{`(RabbitMQ|Warren) [\w.+-]+( on Erlang [\d.]+)?`, "BROKER"},
		{`\{"erlang_version":"[\d.]+","rabbitmq_name":"\w+",`, `{"rabbitmq_name":"X",`},
		{`"(rabbitmq|warren)-cluster-id-[\w-]+`, `"CLUSTER-ID`},
		{`\\"(rabbitmq|warren)-cluster-id-[\w-]+`, `\"CLUSTER-ID`},
		// RabbitMQ's tool logs to standard error what it then reports.
		{`(?m)^\n?\d\d:\d\d:\d\d\.\d+ \[\w+\].*\n`, ""},
		// Tracing (the firehose) and its exchange are not there in Warren.
		{`(?m)^,?.*amq\.rabbitmq\.trace.*\n`, ""},
		// The order of the nodes in one value is that of their answers.
		{`\[(\{[\w-]+@[\w.-]+, running\}(, )?)+\]`, "[ALL RUNNING]"},
		{`\{("[\w-]+@[\w.-]+":"running",?)+\}`, `{"ALL":"running"}`},
		// Ports and addresses of the clusters; salted hashes.
		{`\b127\.0\.0\.1(:|\t)\d+`, "127.0.0.1${1}PORT"},
		{`"password_hash":"[^"]*"`, `"password_hash":"HASH"`},
	} {
		all = append(all, rule{regexp.MustCompile(r.pattern), r.replacement})
	}
	return all
}

// Normal is an output without what may differ. The rows of lists are sorted: RabbitMQ's order is that of hash tables, and of
// the nodes' answers.
func Normal(command, text string) string {
	for _, r := range rules() {
		text = r.pattern.ReplaceAllString(text, r.replacement)
	}
	if !strings.Contains(command, "list_") {
		return text
	}
	lines := strings.SplitAfter(text, "\n")
	front := 0
	for front < len(lines) && (strings.HasPrefix(lines[front], "Timeout:") || strings.HasPrefix(lines[front], "Listing ")) {
		front++
	}
	for i, line := range lines {
		lines[i] = strings.TrimPrefix(line, ",")
	}
	slices.Sort(lines[front:])
	return strings.Join(lines, "")
}
