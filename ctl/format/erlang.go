package format

import (
	"regexp"
	"strconv"
	"strings"
)

// The form called erlang: terms as Erlang's ~p writes them, broken at 80 columns.

const erlangWidth = 80

// term is an Erlang term for layout: leaf, or a list or tuple of parts.
type term struct {
	leaf        string
	open, close string
	parts       []term
}

var plainAtom = regexp.MustCompile(`^[a-z][a-zA-Z0-9_@]*$`)

func atomTerm(name string) term {
	if !plainAtom.MatchString(name) {
		name = "'" + strings.ReplaceAll(name, "'", `\'`) + "'"
	}
	return term{leaf: name}
}

// binaryTerm is a string: as bytes if it has characters that Erlang would not print.
func binaryTerm(s string) term {
	for i := range len(s) {
		if s[i] > '~' || s[i] < ' ' && s[i] != '\t' && s[i] != '\n' && s[i] != '\r' {
			bytes := make([]string, len(s))
			for j := range len(s) {
				bytes[j] = strconv.Itoa(int(s[j]))
			}
			return term{leaf: "<<" + strings.Join(bytes, ",") + ">>"}
		}
	}
	return term{leaf: "<<" + strconv.Quote(s) + ">>"}
}

func listTerm(parts []term) term   { return term{open: "[", close: "]", parts: parts} }
func tupleTerm(parts ...term) term { return term{open: "{", close: "}", parts: parts} }

func termOf(v any) term {
	switch v := v.(type) {
	case nil:
		return term{leaf: "''"}
	case string:
		return binaryTerm(v)
	case Atom:
		return atomTerm(string(v))
	case PID:
		return term{leaf: v.short()}
	case List:
		parts := make([]term, len(v))
		for i, e := range v {
			parts[i] = termOf(e)
		}
		return listTerm(parts)
	case Tuple:
		parts := make([]term, len(v))
		for i, e := range v {
			parts[i] = termOf(e)
		}
		return tupleTerm(parts...)
	case Map:
		parts := make([]term, len(v))
		for i, p := range v {
			parts[i] = tupleTerm(atomTerm(p.Name), termOf(p.Value))
		}
		return listTerm(parts)
	case Table:
		parts := make([]term, len(v))
		for i, a := range v {
			parts[i] = tupleTerm(binaryTerm(a.Name), atomTerm(a.Kind), termOf(a.Value))
		}
		return listTerm(parts)
	}
	return term{leaf: Text(v)}
}

func (t term) flat() string {
	if t.open == "" {
		return t.leaf
	}
	parts := make([]string, len(t.parts))
	for i, p := range t.parts {
		parts[i] = p.flat()
	}
	return t.open + strings.Join(parts, ",") + t.close
}

// layout writes t from column on; after is how many characters follow it on its last line.
func (t term) layout(column, after int) string {
	flat := t.flat()
	if t.open == "" || column+len(flat)+after <= erlangWidth {
		return flat
	}
	if t.open == "{" && len(t.parts) == 2 { // {name,value}: the value stands beside its name
		head := "{" + t.parts[0].flat() + ","
		return head + t.parts[1].layout(column+len(head), after+1) + "}"
	}
	var b strings.Builder
	b.WriteString(t.open)
	for i, p := range t.parts {
		follows := 1
		if i == len(t.parts)-1 {
			follows = after + 1
		}
		if i > 0 {
			b.WriteString(",\n" + strings.Repeat(" ", column+1))
		}
		b.WriteString(p.layout(column+1, follows))
	}
	return b.String() + t.close
}
