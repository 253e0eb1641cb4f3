package format

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// Atom is a symbolic name: written like a string, but never quoted in text.
type Atom string

// List is a list of values: [a, b] in a table, an array in json.
type List []any

// Tuple is a few values that belong together: {a, b} in a table, an array in json.
type Tuple []any

// Version is a protocol's version: {0,9,1} in a table, the same text in json.
type Version []int

func (v Version) text() string {
	parts := make([]string, len(v))
	for i, n := range v {
		parts[i] = strconv.Itoa(n)
	}
	return "{" + strings.Join(parts, ",") + "}"
}

// Map is a list of named values in a fixed order: [{name, value}, …] in a table, an object in json.
type Map []Pair

// Pair is one entry of a Map.
type Pair struct {
	Name  string
	Value any
}

// Table is an AMQP table: [{"x-max-priority",5}] in a table, [["x-max-priority","signedint",5]] in json.
type Table []Argument

// Argument is one entry of a Table; Kind is the name of its AMQP type.
type Argument struct {
	Name  string
	Kind  string
	Value any
}

// PID is the name of a process: <node.creation.id.serial>. In json and pretty_table RabbitMQ puts a number in the node's
// place; ours is the creation.
type PID struct {
	Node                 string
	Creation, ID, Serial uint64
}

func (p PID) text() string {
	return fmt.Sprintf("<%s.%d.%d.%d>", p.Node, p.Creation, p.ID, p.Serial)
}

func (p PID) short() string { return fmt.Sprintf("<%d.%d.%d>", p.Creation, p.ID, p.Serial) }

// Text is the form of a value in a table and in csv.
func Text(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	case Atom:
		return string(v)
	case bool:
		return strconv.FormatBool(v)
	case float64:
		return floatText(v)
	case PID:
		return v.text()
	case Version:
		return v.text()
	case List:
		return "[" + joined(v, ", ") + "]"
	case Tuple:
		return "{" + joined(v, ", ") + "}"
	case Map:
		parts := make([]string, len(v))
		for i, p := range v {
			parts[i] = "{" + p.Name + ", " + Text(p.Value) + "}"
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case Table:
		return tableText(v)
	}
	return fmt.Sprint(v)
}

func joined(values []any, separator string) string {
	parts := make([]string, len(values))
	for i, v := range values {
		parts[i] = Text(v)
	}
	return strings.Join(parts, separator)
}

// floatText always shows a point, as Erlang does.
func floatText(f float64) string {
	s := strconv.FormatFloat(f, 'g', -1, 64)
	if !strings.ContainsAny(s, ".eN") {
		s += ".0"
	}
	return s
}

func tableText(t Table) string {
	parts := make([]string, len(t))
	for i, a := range t {
		parts[i] = "{" + strconv.Quote(a.Name) + "," + argumentText(a.Value) + "}"
	}
	return "[" + strings.Join(parts, ",") + "]"
}

func argumentText(v any) string {
	switch v := v.(type) {
	case string:
		return `"` + strings.ReplaceAll(strings.ReplaceAll(v, `\`, `\\`), `"`, `\"`) + `"`
	case List:
		parts := make([]string, len(v))
		for i, e := range v {
			parts[i] = argumentText(e)
		}
		return "[" + strings.Join(parts, ",") + "]"
	case nil:
		return "undefined"
	}
	return Text(v)
}

// prettyText is the form of a value in a pretty_table: lists run together.
func prettyText(v any) string {
	switch v := v.(type) {
	case PID:
		return v.short()
	case List:
		var b strings.Builder
		for _, e := range v {
			b.WriteString(prettyText(e))
		}
		return b.String()
	}
	return Text(v)
}

// JSON writes v as one line of JSON without a newline. Besides the values of this package it takes what encoding/json takes;
// the keys of a Go map are sorted.
func JSON(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(plain(v)); err != nil {
		return nil, fmt.Errorf("format as json: %w", err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// plain turns the values of this package into those that encoding/json knows.
func plain(v any) any {
	switch v := v.(type) {
	case nil:
		return ""
	case Atom:
		return string(v)
	case PID:
		return "#PID" + v.short()
	case Version:
		return v.text()
	case List:
		return plainList(v)
	case Tuple:
		return plainList(v)
	case Map:
		return orderedObject(v)
	case Table:
		list := make([]any, len(v))
		for i, a := range v {
			list[i] = []any{a.Name, a.Kind, plain(a.Value)}
		}
		return list
	case map[string]any:
		object := make(map[string]any, len(v))
		for key, e := range v {
			object[key] = plain(e)
		}
		return object
	}
	return v
}

func plainList(values []any) []any {
	list := make([]any, len(values))
	for i, v := range values {
		list[i] = plain(v)
	}
	return list
}

// orderedObject is a JSON object that keeps the order of its entries.
type orderedObject []Pair

// MarshalJSON implements json.Marshaler.
func (o orderedObject) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, p := range o {
		if i > 0 {
			b.WriteByte(',')
		}
		for j, v := range []any{p.Name, p.Value} {
			if j > 0 {
				b.WriteByte(':')
			}
			text, err := JSON(v)
			if err != nil {
				return nil, err
			}
			b.Write(text)
		}
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}
