package exchange

import "strings"

// headersRule is a binding of a headers exchange: x-match all (default), any, all-with-x, any-with-x. Arguments that begin
// with "x-" count only in the -with-x forms.
type headersRule struct {
	any    bool
	fields []field
	to     target
	id     string
}

type field struct {
	name  string
	value any
}

func newHeadersRule(b Binding, id string) headersRule {
	r := headersRule{to: b.target(), id: id}
	match, _ := b.Args["x-match"].(string)
	r.any = strings.HasPrefix(match, "any")
	withX := strings.HasSuffix(match, "-with-x")
	for _, name := range sortedKeys(b.Args) {
		if name == "x-match" || strings.HasPrefix(name, "x-") && !withX {
			continue
		}
		r.fields = append(r.fields, field{name, b.Args[name]})
	}
	return r
}

// matches: a field without a value (nil) only asks that the header is there.
func (r *headersRule) matches(headers map[string]any) bool {
	for _, f := range r.fields {
		v, there := headers[f.name]
		ok := there && (f.value == nil || equal(f.value, v))
		if ok && r.any {
			return true
		}
		if !ok && !r.any {
			return false
		}
	}
	return !r.any
}
