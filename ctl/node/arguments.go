package node

import (
	"fmt"
	"maps"
	"slices"

	"warren/ctl/admin"
	"warren/dataplane/amqp"
)

// arguments are a declaration's arguments as the metadata keep them, by name.
func arguments(b []byte) []admin.Argument {
	if len(b) == 0 {
		return nil
	}
	t, err := amqp.DecodeTable(b)
	if err != nil {
		return []admin.Argument{{Name: "unreadable", Value: admin.Value{Kind: admin.KindLongStr, Text: err.Error()}}}
	}
	return table(t)
}

func table(t amqp.Table) []admin.Argument {
	var out []admin.Argument
	for _, name := range slices.Sorted(maps.Keys(t)) {
		out = append(out, admin.Argument{Name: name, Value: value(t[name])})
	}
	return out
}

func value(v any) admin.Value {
	switch v := v.(type) {
	case nil:
		return admin.Value{Kind: admin.KindVoid}
	case string:
		return admin.Value{Kind: admin.KindLongStr, Text: v}
	case []byte:
		return admin.Value{Kind: admin.KindBinary, Text: string(v)}
	case bool:
		return admin.Value{Kind: admin.KindBool, Bool: v}
	case int8:
		return admin.Value{Kind: admin.KindByte, Int: int64(v)}
	case uint8:
		return admin.Value{Kind: admin.KindByte, Int: int64(v)}
	case int16:
		return admin.Value{Kind: admin.KindShort, Int: int64(v)}
	case uint16:
		return admin.Value{Kind: admin.KindShort, Int: int64(v)}
	case int32:
		return admin.Value{Kind: admin.KindSignedInt, Int: int64(v)}
	case uint32:
		return admin.Value{Kind: admin.KindSignedInt, Int: int64(v)}
	case int64:
		return admin.Value{Kind: admin.KindLong, Int: v}
	case uint64:
		return admin.Value{Kind: admin.KindLong, Int: int64(v)}
	case amqp.Timestamp:
		return admin.Value{Kind: admin.KindTimestamp, Int: int64(v)}
	case float32:
		return admin.Value{Kind: admin.KindFloat, Float: float64(v)}
	case float64:
		return admin.Value{Kind: admin.KindDouble, Float: v}
	case amqp.Table:
		return admin.Value{Kind: admin.KindTable, Table: table(v)}
	case []any:
		list := admin.Value{Kind: admin.KindArray}
		for _, e := range v {
			list.List = append(list.List, value(e))
		}
		return list
	}
	return admin.Value{Kind: admin.KindLongStr, Text: fmt.Sprint(v)}
}
