package policy

import (
	"encoding/json"
	"slices"
)

// LimitValue is one member of a limits definition.
type LimitValue struct {
	Name  string
	Value int64
}

// ParseLimits reads a JSON object of limits (max-connections, …) with whole numbers as values; known are the names that
// there are, and what is RabbitMQ's name of the whole ("limits", "user-limits"). Errors: ErrJSON, *ValidationError.
func ParseLimits(text, what string, known ...string) ([]LimitValue, error) {
	v, err := decode(text)
	if err != nil {
		return nil, ErrJSON
	}
	object, ok := v.(map[string]any)
	if !ok {
		return nil, refuse("%s should be an object, actually was %s", what, erlang(v))
	}
	var out []LimitValue
	var unknown []member
	for _, name := range sortedKeys(object) {
		if !slices.Contains(known, name) {
			unknown = append(unknown, member{name, object[name]})
			continue
		}
		n, err := whole(object[name])
		if err != nil {
			return nil, refuse("%s should be a number, actually was %s", name, erlang(object[name]))
		}
		out = append(out, LimitValue{name, n})
	}
	if len(unknown) > 0 {
		return nil, refuse("Unrecognised terms %s in %s", erlangPairs(unknown), what)
	}
	return out, nil
}

func whole(v any) (int64, error) {
	n, _ := v.(json.Number)
	return n.Int64()
}

func sortedKeys(m map[string]any) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// CompactJSON is a JSON text without spaces and with sorted keys; ErrJSON if it is none.
func CompactJSON(text string) (string, error) {
	v, err := decode(text)
	if err != nil {
		return "", ErrJSON
	}
	return compact(v), nil
}

// PatternFault is what is wrong with a pattern, in PCRE's words, and where; ok is false if nothing is.
func PatternFault(pattern string) (text string, offset int, ok bool) {
	_, err := compilePattern(pattern)
	if err == nil {
		return "", 0, false
	}
	text, offset = pcreText(pattern, err)
	return text, offset, true
}
