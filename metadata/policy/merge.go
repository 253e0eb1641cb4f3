package policy

import (
	"sort"
	"strings"
)

func sortRules(rules []Rule) {
	sort.Slice(rules, func(i, j int) bool {
		if rules[i].Priority != rules[j].Priority {
			return rules[i].Priority > rules[j].Priority
		}
		return rules[i].Name < rules[j].Name
	})
}

// Merge is a policy's definition with an operator policy's laid over it, key by key as RabbitMQ does it (reference M6): of
// limits the smaller; of ha-mode the one that mirrors most; of ha-params the larger integer, the integer before the list,
// the longer list; of all else the operator's.
func Merge(user, operator Definition) Definition {
	if len(operator) == 0 {
		return user
	}
	out := make(Definition, 0, len(user)+len(operator))
	for _, e := range user {
		if o, ok := operator.Raw(e.Key); ok {
			e.Value = mergeValue(e.Key, user, operator, e.Value, o)
		}
		out = append(out, e)
	}
	for _, e := range operator {
		if _, ok := user.Raw(e.Key); !ok {
			out = append(out, e)
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Key < out[j].Key })
	return out
}

func mergeValue(key string, user, operator Definition, u, o string) string {
	switch key {
	case "message-ttl", "expires", "max-length", "max-length-bytes", "max-in-memory-length", "max-in-memory-bytes", "delivery-limit":
		un, _ := user.Int(key)
		on, _ := operator.Int(key)
		if un < on {
			return u
		}
	case "ha-mode":
		rank := func(v string) int { return strings.Index(`"nodes" "exactly" "all"`, v) }
		if rank(u) > rank(o) {
			return u
		}
	case "ha-params":
		un, uInt := user.Int(key)
		on, oInt := operator.Int(key)
		ul, _ := user.Strings(key)
		ol, _ := operator.Strings(key)
		switch {
		case uInt && oInt && un > on, uInt && !oInt, !uInt && !oInt && len(ul) > len(ol):
			return u
		}
	}
	return o
}
