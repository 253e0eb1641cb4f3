package policy

import (
	"encoding/json"
	"sort"
	"strings"
)

// ApplyTo says which objects a policy matches.
type ApplyTo string

const (
	ApplyToAll       ApplyTo = "all"
	ApplyToQueues    ApplyTo = "queues"
	ApplyToExchanges ApplyTo = "exchanges"
)

// Entry is one key of a definition. Value is compact JSON.
type Entry struct {
	Key   string `msgpack:"k"`
	Value string `msgpack:"v"`
}

// Definition is a policy's definition, or the merged one of a queue: entries in ascending order of their keys.
// Treat it as immutable.
type Definition []Entry

// Raw is the value of a key as compact JSON; ok is false if the key is not there.
func (d Definition) Raw(key string) (value string, ok bool) {
	i := sort.Search(len(d), func(i int) bool { return d[i].Key >= key })
	if i < len(d) && d[i].Key == key {
		return d[i].Value, true
	}
	return "", false
}

// String is the value of a key that is a JSON string; ok is false otherwise.
func (d Definition) String(key string) (value string, ok bool) {
	raw, ok := d.Raw(key)
	if !ok || !strings.HasPrefix(raw, `"`) {
		return "", false
	}
	if !strings.Contains(raw, `\`) {
		return raw[1 : len(raw)-1], true
	}
	return value, json.Unmarshal([]byte(raw), &value) == nil
}

// Int is the value of a key that is a JSON integer; ok is false otherwise.
func (d Definition) Int(key string) (value int64, ok bool) {
	raw, ok := d.Raw(key)
	if !ok || raw == "null" || json.Unmarshal([]byte(raw), &value) != nil {
		return 0, false
	}
	return value, true
}

// Strings is the value of a key that is a JSON list of strings; ok is false otherwise.
func (d Definition) Strings(key string) (value []string, ok bool) {
	raw, ok := d.Raw(key)
	if !ok || raw == "null" || json.Unmarshal([]byte(raw), &value) != nil {
		return nil, false
	}
	return value, true
}

// JSON is the definition as list_policies shows it: keys sorted, no spaces.
func (d Definition) JSON() string {
	var b strings.Builder
	b.WriteByte('{')
	for i, e := range d {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(quote(e.Key))
		b.WriteByte(':')
		b.WriteString(e.Value)
	}
	b.WriteByte('}')
	return b.String()
}

// HA is the mirroring part of a definition with the defaults filled in.
type HA struct {
	Mode              string // all, exactly, nodes; "": not mirrored
	Count             int    // exactly
	Nodes             []string
	SyncMode          string // manual, automatic
	SyncBatchSize     int    // messages; 0: the node's default
	PromoteOnShutdown string // when-synced, always
	PromoteOnFailure  string // always, when-synced
	SyncStrategy      string // online, blocking
	MinInSync         int    // at least 1
	MirrorTimeout     int64  // milliseconds
	Locator           string // client-local, min-masters, random; "": not said
}

// HA reads the mirroring keys. Values that do not fit (a stray ha-params after a merge, reference M6) are ignored.
func (d Definition) HA() HA {
	h := HA{SyncMode: "manual", PromoteOnShutdown: "when-synced", PromoteOnFailure: "always", SyncStrategy: "online",
		MinInSync: 1, MirrorTimeout: DefaultMirrorTimeout}
	h.Mode, h.Count, h.Nodes = d.Placement()
	for _, word := range []struct {
		key string
		dst *string
	}{{"ha-sync-mode", &h.SyncMode}, {"ha-promote-on-shutdown", &h.PromoteOnShutdown},
		{"ha-promote-on-failure", &h.PromoteOnFailure}, {"ha-sync-strategy", &h.SyncStrategy}} {
		if v, ok := d.String(word.key); ok {
			*word.dst = v
		}
	}
	if n, ok := d.Int("ha-sync-batch-size"); ok && n > 1 {
		h.SyncBatchSize = int(n) // 1 means "the default" (reference P6)
	}
	if n, ok := d.Int("ha-min-in-sync"); ok && n > 1 {
		h.MinInSync = int(n)
	}
	if n, ok := d.Int("ha-mirror-timeout"); ok && n > 0 {
		h.MirrorTimeout = n
	}
	h.Locator = d.locator()
	return h
}

// Placement are ha-mode and what belongs to it of ha-params: the count (exactly) or the nodes (nodes).
func (d Definition) Placement() (mode string, count int, nodes []string) {
	mode, _ = d.String("ha-mode")
	switch mode {
	case "exactly":
		n, _ := d.Int("ha-params")
		count = int(max(n, 1))
	case "nodes":
		nodes, _ = d.Strings("ha-params")
	}
	return mode, count, nodes
}

// DefaultMirrorTimeout is ha-mirror-timeout's default in milliseconds (metadata.md, Promotion).
const DefaultMirrorTimeout = 5000

func (d Definition) locator() string {
	if v, ok := d.String("queue-master-locator"); ok {
		return v
	}
	if v, ok := d.String("queue-leader-locator"); ok {
		if v == "balanced" {
			return "min-masters" // the newer spelling (reference P10)
		}
		return v
	}
	return ""
}

// quote is s as a JSON string without HTML escapes.
func quote(s string) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		return `""` // a string always encodes
	}
	return strings.TrimSuffix(b.String(), "\n")
}
