package exchange

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

func sortedKeys(m map[string]any) []string { return slices.Sorted(maps.Keys(m)) }

// equal compares two field values: integers of any width by value, as RabbitMQ does, everything else by type and value.
func equal(a, b any) bool {
	an, aSigned, aInt := integer(a)
	bn, bSigned, bInt := integer(b)
	if aInt && bInt {
		return an == bn && (aSigned == bSigned || int64(an) >= 0)
	}
	switch a := a.(type) {
	case string:
		b, ok := b.(string)
		return ok && a == b
	case bool:
		b, ok := b.(bool)
		return ok && a == b
	}
	return reflect.DeepEqual(a, b)
}

// integer gives an integer's bits, and whether they are those of a negative number.
func integer(v any) (bits uint64, negative, ok bool) {
	switch v := v.(type) {
	case int:
		return uint64(v), v < 0, true
	case int8:
		return uint64(v), v < 0, true
	case int16:
		return uint64(v), v < 0, true
	case int32:
		return uint64(v), v < 0, true
	case int64:
		return uint64(v), v < 0, true
	case uint8:
		return uint64(v), false, true
	case uint16:
		return uint64(v), false, true
	case uint32:
		return uint64(v), false, true
	case uint64:
		return v, false, true
	}
	return 0, false, false
}

// identity is a binding's arguments in a canonical form: equal for equal arguments only.
func identity(args map[string]any) string {
	if len(args) == 0 {
		return ""
	}
	var b strings.Builder
	for _, name := range sortedKeys(args) {
		v := args[name]
		if bits, negative, ok := integer(v); ok {
			fmt.Fprintf(&b, "%q:int:%t:%d;", name, negative, bits)
			continue
		}
		fmt.Fprintf(&b, "%q:%T:%#v;", name, v, v) // Go prints maps in the order of their keys
	}
	return b.String()
}
