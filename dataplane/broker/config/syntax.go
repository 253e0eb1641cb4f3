package config

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Setting is one "key = value" of a file.
type Setting struct {
	Key   string // segments joined by '.', an escaped dot inside a segment kept as `\.`
	Value string
}

// String is the line of a file that says s, with quotes where the value needs them.
func (s Setting) String() string {
	value := s.Value
	if value == "" || strings.TrimSpace(value) != value || strings.HasPrefix(value, "'") || strings.Contains(value, "#") {
		value = "'" + value + "'"
	}
	return s.Key + " = " + value
}

// escape is the counterpart of splitKey for one segment.
func escape(segment string) string { return strings.ReplaceAll(segment, ".", `\.`) }

// parseLine reads one line of the sysctl-like format, as RabbitMQ's reader (cuttlefish) does:
//
//	key = value      # comment
//	key = 'a value with # in it'
//
// ok is false for an empty line and a comment.
func parseLine(text string) (s Setting, ok bool, err error) {
	text = strings.TrimSpace(strings.TrimSuffix(text, "\r"))
	if text == "" || text[0] == '#' {
		return s, false, nil
	}
	if !utf8.ValidString(text) {
		return s, false, fmt.Errorf("not UTF-8 text")
	}
	key, rest, found := strings.Cut(text, "=")
	if !found {
		hint := ""
		if text[0] == '[' || text[0] == '{' || text[0] == '%' {
			hint = "; Erlang's terms, as in rabbitmq.config and advanced.config, are not read"
		}
		return s, false, fmt.Errorf("expected \"key = value\", found %q%s", clip(text), hint)
	}
	key = strings.TrimSpace(key)
	if err := checkKey(key); err != nil {
		return s, false, err
	}
	value, err := parseValue(strings.TrimSpace(rest))
	if err != nil {
		return s, false, fmt.Errorf("%s: %w", key, err)
	}
	return Setting{key, value}, true, nil
}

func checkKey(key string) error {
	if key == "" {
		return fmt.Errorf("a key is missing before \"=\"")
	}
	for _, segment := range splitKey(key) {
		if segment == "" {
			return fmt.Errorf("%q is no key: a part between dots is empty", clip(key))
		}
		if strings.ContainsAny(segment, " \t'\"#") {
			return fmt.Errorf("%q is no key: letters, digits, _, - and dots only", clip(key))
		}
	}
	return nil
}

// parseValue takes a value off the rest of a line: quoted by single quotes, or up to a comment.
func parseValue(rest string) (string, error) {
	if quoted, ok := strings.CutPrefix(rest, "'"); ok {
		value, after, closed := strings.Cut(quoted, "'")
		after = strings.TrimSpace(after)
		switch {
		case !closed:
			return "", fmt.Errorf("the quote before %q is not closed", clip(quoted))
		case after != "" && after[0] != '#':
			return "", fmt.Errorf("unexpected %q after the quoted value", clip(after))
		}
		return value, nil
	}
	value, _, _ := strings.Cut(rest, "#")
	value = strings.TrimSpace(value)
	if value == "" {
		return "", fmt.Errorf("a value is missing after \"=\"")
	}
	return value, nil
}

// splitKey splits at the dots that are not escaped by a backslash, and removes the escapes.
func splitKey(key string) []string {
	var parts []string
	var b strings.Builder
	for i := 0; i < len(key); i++ {
		switch {
		case key[i] == '\\' && i+1 < len(key) && key[i+1] == '.':
			b.WriteByte('.')
			i++
		case key[i] == '.':
			parts = append(parts, b.String())
			b.Reset()
		default:
			b.WriteByte(key[i])
		}
	}
	return append(parts, b.String())
}

// clip shortens text of unknown origin for an error message.
func clip(s string) string {
	const limit = 60
	if len(s) <= limit {
		return s
	}
	cut := limit
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "…"
}
