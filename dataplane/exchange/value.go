package exchange

import (
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
)

func sortedKeys(m map[string]any) []string { return slices.Sorted(maps.Keys(m)) }

// equal compares two field values as RabbitMQ does: numbers by value, whatever their types, and texts and octets alike; what is
// within lists and tables, and everything else, by type and value.
func equal(a, b any) bool {
	an, aSigned, aInt := integer(a)
	bn, bSigned, bInt := integer(b)
	if aInt && bInt {
		return an == bn && (aSigned == bSigned || int64(an) >= 0)
	}
	if f, ok := float(a); ok {
		g, isFloat := float(b)
		return isFloat && f == g || bInt && isInteger(f, bn, bSigned)
	}
	if f, ok := float(b); ok {
		return aInt && isInteger(f, an, aSigned)
	}
	switch a := a.(type) {
	case string:
		return sameText(a, b)
	case []byte:
		return sameText(string(a), b)
	case bool:
		b, ok := b.(bool)
		return ok && a == b
	}
	return reflect.DeepEqual(a, b)
}

func sameText(a string, b any) bool {
	switch b := b.(type) {
	case string:
		return a == b
	case []byte:
		return a == string(b)
	}
	return false
}

func float(v any) (float64, bool) {
	switch v := v.(type) {
	case float32:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}

// isInteger tells whether f is exactly the integer with these bits.
func isInteger(f float64, bits uint64, negative bool) bool {
	if negative {
		return f < 0 && f >= -1<<63 && f == math.Trunc(f) && int64(f) == int64(bits)
	}
	return f >= 0 && f < 1<<64 && f == math.Trunc(f) && uint64(f) == bits
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
	if r := reflect.ValueOf(v); r.Kind() == reflect.Uint64 { // a time is an integer too
		return r.Uint(), false, true
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
		if bits, negative, ok := integer(v); ok && reflect.TypeOf(v).PkgPath() == "" {
			fmt.Fprintf(&b, "%q:int:%t:%d;", name, negative, bits)
			continue
		}
		fmt.Fprintf(&b, "%q:%T:%#v;", name, v, v) // Go prints maps in the order of their keys
	}
	return b.String()
}
