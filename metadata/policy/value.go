package policy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sort"
	"strings"
	"unicode/utf8"
)

// member is one key of a parsed definition with its decoded value: string, json.Number, bool, nil, []any or map[string]any.
type member struct {
	key   string
	value any
}

// decode reads exactly one JSON value.
func decode(text string) (any, error) {
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); err == nil {
		return nil, fmt.Errorf("text after the value")
	}
	return v, nil
}

// duplicates are the keys that a JSON object repeats, sorted. The text must be valid JSON.
func duplicates(text string) []string {
	dec := json.NewDecoder(strings.NewReader(text))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil
	}
	seen, dups := map[string]bool{}, []string(nil)
	for dec.More() {
		t, err := dec.Token()
		key, ok := t.(string)
		if err != nil || !ok {
			return nil
		}
		if seen[key] {
			dups = append(dups, key)
		}
		seen[key] = true
		var skip json.RawMessage
		if dec.Decode(&skip) != nil {
			return nil
		}
	}
	sort.Strings(dups)
	return dups
}

// compact is v as JSON without spaces, object keys sorted.
func compact(v any) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return "null" // values come out of decode, which always encode
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// erlang renders a JSON value as RabbitMQ's messages do (Erlang's ~p of the decoded term).
func erlang(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case string:
		return erlangBinary(v)
	case []any:
		if s, ok := printableList(v); ok {
			return s
		}
		parts := make([]string, len(v))
		for i, e := range v {
			parts[i] = erlang(e)
		}
		return "[" + strings.Join(parts, ",") + "]"
	case map[string]any:
		keys := make([]string, 0, len(v))
		for k := range v {
			keys = append(keys, k)
		}
		sort.Strings(keys)
		for i, k := range keys {
			keys[i] = erlangBinary(k) + " => " + erlang(v[k])
		}
		return "#{" + strings.Join(keys, ",") + "}"
	}
	return fmt.Sprint(v) // json.Number and bool
}

// erlangBinary is <<"text">>, or the bytes where they are not printable.
func erlangBinary(s string) string {
	printable := true
	for _, r := range s {
		if r < ' ' && !strings.ContainsRune("\n\r\t\b\f\v\x1b", r) || r >= 0x7f {
			printable = false
		}
	}
	if !printable || !utf8.ValidString(s) {
		parts := make([]string, len(s))
		for i := range len(s) {
			parts[i] = fmt.Sprint(s[i])
		}
		return "<<" + strings.Join(parts, ",") + ">>"
	}
	return "<<" + quote(s) + ">>"
}

// printableList is a list of character codes as the string that ~p takes it for.
func printableList(v []any) (string, bool) {
	var b strings.Builder
	for _, e := range v {
		n, ok := e.(json.Number)
		if !ok {
			return "", false
		}
		c, err := n.Int64()
		if err != nil || c < ' ' || c > '~' {
			return "", false
		}
		b.WriteByte(byte(c))
	}
	return quote(b.String()), len(v) > 0
}

// erlangPairs is a list of key-value pairs.
func erlangPairs(ms []member) string {
	parts := make([]string, len(ms))
	for i, m := range ms {
		parts[i] = "{" + erlangBinary(m.key) + "," + erlang(m.value) + "}"
	}
	return "[" + strings.Join(parts, ",") + "]"
}
