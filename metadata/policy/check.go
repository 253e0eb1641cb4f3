package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"sort"
	"strings"
)

// ErrJSON: the definition is not JSON. Its text is RabbitMQ's.
var ErrJSON = errors.New("JSON decoding error. Reason: badarg")

// ValidationError is a refusal by the rules. Error() is RabbitMQ's whole text (recorded, 05-policies.txt); Text is the
// part after the "Validation failed" heading.
type ValidationError struct{ Text string }

// Error is what rabbitmqctl prints below "Error:".
func (e *ValidationError) Error() string { return "Validation failed\n\n" + e.Text + "\n" }

func refuse(format string, args ...any) error {
	return &ValidationError{Text: fmt.Sprintf(format, args...)}
}

// Parse reads and checks a definition given as JSON. For an operator policy only the keys that operators may set are
// known. Errors: ErrJSON, or a *ValidationError about the first fault, in RabbitMQ's order: the keys of queues and exchanges
// by name, then mirroring, then the locator, then unknown keys. Where RabbitMQ crashes (a definition that is no object, an
// ha-mode that is no string), the text is ours in its style.
func Parse(text string, operator bool) (Definition, error) {
	v, err := decode(text)
	if err != nil {
		return nil, ErrJSON
	}
	object, ok := v.(map[string]any)
	if !ok {
		return nil, refuse("definition must be a dictionary: %s", erlang(v))
	}
	if len(object) == 0 {
		return nil, refuse("no policy provided")
	}
	if dups := duplicates(text); len(dups) > 0 {
		for i, d := range dups {
			dups[i] = erlangBinary(d)
		}
		return nil, refuse("[%s] duplicate keys not allowed", strings.Join(dups, ","))
	}
	ms := make([]member, 0, len(object))
	for k, v := range object {
		ms = append(ms, member{k, v})
	}
	sort.Slice(ms, func(i, j int) bool { return ms[i].key < ms[j].key })
	if err := validate(ms, operator); err != nil {
		return nil, err
	}
	d := make(Definition, len(ms))
	for i, m := range ms {
		d[i] = Entry{Key: m.key, Value: compact(m.value)}
	}
	return d, nil
}

// Check checks everything else that set_policy takes: the pattern and what it applies to ("" is all). Parse comes first.
func Check(pattern string, applyTo ApplyTo) error {
	if _, err := NewMatcher(pattern); err != nil {
		return err
	}
	switch applyTo {
	case ApplyToAll, ApplyToQueues, ApplyToExchanges:
		return nil
	}
	return refuse("apply-to '%s' unrecognised; should be 'queues', 'exchanges' or 'all'", applyTo)
}

func validate(ms []member, operator bool) error {
	var unknown []member
	var ha []member
	locator := member{}
	for _, m := range ms {
		switch check, ok := checks[m.key]; {
		case operator && !operatorKeys[m.key]:
			unknown = append(unknown, m)
		case ok:
			if !check.valid(m.value) {
				return refuse("%s is not a valid %s", erlang(m.value), check.what)
			}
		case strings.HasPrefix(m.key, "ha-") && haKeys[m.key]:
			ha = append(ha, m)
		case m.key == "queue-master-locator":
			locator = m
		default:
			unknown = append(unknown, m)
		}
	}
	if err := validateHA(ha); err != nil {
		return err
	}
	if locator.key != "" && !oneOf("client-local", "min-masters", "random")(locator.value) {
		return refuse("%s invalid queue-master-locator value", erlang(locator.value))
	}
	if len(unknown) > 0 {
		return refuse("%s are not recognised policy settings", erlangPairs(unknown))
	}
	return nil
}

// operatorKeys are those that an operator policy may set: RabbitMQ 3.10's, and the mirroring keys that 3.11 added
// (reference M5).
var operatorKeys = map[string]bool{"expires": true, "message-ttl": true, "max-length": true, "max-length-bytes": true,
	"max-in-memory-length": true, "max-in-memory-bytes": true, "delivery-limit": true, "overflow": true,
	"ha-mode": true, "ha-params": true, "ha-sync-mode": true}

// haKeys are the mirroring keys: RabbitMQ's, and the three that are Warren's own.
var haKeys = map[string]bool{"ha-mode": true, "ha-params": true, "ha-sync-mode": true, "ha-sync-batch-size": true,
	"ha-promote-on-shutdown": true, "ha-promote-on-failure": true,
	"ha-sync-strategy": true, "ha-min-in-sync": true, "ha-mirror-timeout": true}

type check struct {
	valid func(any) bool
	what  string
}

// checks are the keys of classic queues and exchanges that are no mirroring keys, and those of other queue types that
// RabbitMQ takes in any policy.
var checks = map[string]check{
	"alternate-exchange":            {isString, "alternate exchange name"},
	"dead-letter-exchange":          {isString, "dead letter exchange name"},
	"dead-letter-routing-key":       {isString, "dead letter routing key"},
	"dead-letter-strategy":          {oneOf("at-most-once", "at-least-once"), "dead letter strategy"},
	"message-ttl":                   {atLeast(0), "message TTL"},
	"expires":                       {atLeast(1), "queue expiry"},
	"max-length":                    {atLeast(0), "maximum length"},
	"max-length-bytes":              {atLeast(0), "maximum length in bytes"},
	"max-in-memory-length":          {atLeast(0), "maximum memory in messages"},
	"max-in-memory-bytes":           {atLeast(0), "maximum memory in bytes"},
	"overflow":                      {oneOf("drop-head", "reject-publish", "reject-publish-dlx"), "overflow value"},
	"delivery-limit":                {atLeast(0), "delivery limit"},
	"queue-mode":                    {oneOf("default", "lazy"), "queue-mode value"},
	"queue-version":                 {func(v any) bool { n, ok := integer(v); return ok && (n == 1 || n == 2) }, "queue-version value"},
	"queue-leader-locator":          {oneOf("client-local", "balanced", "random", "least-leaders"), "queue leader locator value"},
	"initial-cluster-size":          {atLeast(0), "cluster size"},
	"max-age":                       {isMaxAge, "max age"},
	"stream-max-segment-size-bytes": {atLeast(0), "segment size"},
}

func validateHA(ms []member) error {
	if len(ms) == 0 {
		return nil
	}
	get := func(key string) (any, bool) {
		for _, m := range ms {
			if m.key == key {
				return m.value, true
			}
		}
		return nil, false
	}
	mode, ok := get("ha-mode")
	if !ok {
		return refuse("ha-mode must be specified to specify ha-params, ha-sync-mode or ha-promote-on-shutdown")
	}
	params, given := get("ha-params")
	if err := validateMode(mode, params, given); err != nil {
		return err
	}
	for _, c := range haChecks {
		if v, ok := get(c.key); ok && !c.valid(v) {
			return refuse(c.format, c.key, erlang(v))
		}
	}
	return nil
}

const (
	numberFormat = "%s takes an integer greater than 0, %s given"
)

// haChecks stand in the order in which RabbitMQ looks at the keys; Warren's own come last.
var haChecks = []struct {
	key    string
	valid  func(any) bool
	format string
}{
	{"ha-sync-mode", oneOf("manual", "automatic"), `%s must be "manual" or "automatic", got %s`},
	{"ha-sync-batch-size", atLeast(1), numberFormat},
	{"ha-promote-on-shutdown", oneOf("always", "when-synced"), `%s must be "always" or "when-synced", got %s`},
	{"ha-promote-on-failure", oneOf("always", "when-synced"), `%s must be "always" or "when-synced", got %s`},
	{"ha-sync-strategy", oneOf("online", "blocking"), `%s must be "online" or "blocking", got %s`},
	{"ha-min-in-sync", atLeast(1), numberFormat},
	{"ha-mirror-timeout", atLeast(1), numberFormat},
}

func validateMode(mode, params any, given bool) error {
	shown := "none"
	if given {
		shown = erlang(params)
	}
	switch mode {
	case "all":
		if given {
			return refuse(`ha-mode="all" does not take parameters`)
		}
	case "exactly":
		if n, ok := integer(params); !ok || n < 1 {
			return refuse(`ha-mode="exactly" takes an integer, %s given`, shown)
		}
	case "nodes":
		list, ok := params.([]any)
		if !ok {
			return refuse(`ha-mode="nodes" takes a list, %s given`, shown)
		}
		if len(list) == 0 {
			return refuse(`ha-mode="nodes" list must be non-empty`)
		}
		var bad []any
		for _, e := range list {
			if !isString(e) {
				bad = append(bad, e)
			}
		}
		if len(bad) > 0 {
			return refuse(`ha-mode="nodes" takes a list of strings, %s was not a string`, erlang(bad))
		}
	default:
		return refuse("%s is not a valid ha-mode value", erlang(mode))
	}
	return nil
}

func isString(v any) bool { _, ok := v.(string); return ok }

func integer(v any) (int64, bool) {
	n, ok := v.(json.Number)
	if !ok {
		return 0, false
	}
	i, err := n.Int64()
	return i, err == nil
}

func atLeast(low int64) func(any) bool {
	return func(v any) bool { n, ok := integer(v); return ok && n >= low }
}

func oneOf(words ...string) func(any) bool {
	return func(v any) bool {
		for _, w := range words {
			if v == w {
				return true
			}
		}
		return false
	}
}

var maxAge = regexp.MustCompile(`^[0-9]+[YMDhms]$`)

func isMaxAge(v any) bool { s, ok := v.(string); return ok && maxAge.MatchString(s) }
