package node

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"warren/ctl/admin"
	"warren/dataplane/amqp"
	"warren/metadata/state"
)

// The objects of a definitions file, as RabbitMQ writes them (the management plugin's format). Field order is that of the keys'
// names, which is how RabbitMQ's tool sorts them.

type userJSON struct {
	Algorithm string           `json:"hashing_algorithm,omitempty"`
	Limits    map[string]int64 `json:"limits"`
	Name      string           `json:"name"`
	Hash      string           `json:"password_hash"`
	Password  *string          `json:"password,omitempty"` // in files that were written by hand
	Tags      tagList          `json:"tags"`
}

type vhostJSON struct {
	Limits   []any        `json:"limits"` // pairs; read from the parameters, where they are too
	Metadata metadataJSON `json:"metadata"`
	Name     string       `json:"name"`
}

type metadataJSON struct {
	DefaultQueueType string  `json:"default_queue_type,omitempty"`
	Description      string  `json:"description"`
	Tags             tagList `json:"tags"`
}

// tagList is a list of strings, or one string in which commas separate them.
type tagList []string

// MarshalJSON implements json.Marshaler: [], never null.
func (t tagList) MarshalJSON() ([]byte, error) { return json.Marshal(append([]string{}, t...)) }

// UnmarshalJSON implements json.Unmarshaler.
func (t *tagList) UnmarshalJSON(b []byte) error {
	var text string
	if json.Unmarshal(b, &text) != nil {
		return json.Unmarshal(b, (*[]string)(t))
	}
	*t = nil
	for tag := range strings.SplitSeq(text, ",") {
		if tag = strings.TrimSpace(tag); tag != "" {
			*t = append(*t, tag)
		}
	}
	return nil
}

type permissionJSON struct {
	Configure string `json:"configure"`
	Read      string `json:"read"`
	User      string `json:"user"`
	Vhost     string `json:"vhost"`
	Write     string `json:"write"`
}

type topicPermissionJSON struct {
	Exchange string `json:"exchange"`
	Read     string `json:"read"`
	User     string `json:"user"`
	Vhost    string `json:"vhost"`
	Write    string `json:"write"`
}

type parameterJSON struct {
	Component string          `json:"component,omitempty"`
	Name      string          `json:"name"`
	Value     json.RawMessage `json:"value"`
	Vhost     string          `json:"vhost,omitempty"`
}

type policyJSON struct {
	ApplyTo    string          `json:"apply-to"`
	Definition json.RawMessage `json:"definition"`
	Name       string          `json:"name,omitempty"`
	Pattern    string          `json:"pattern"`
	Priority   int64           `json:"priority"`
	Vhost      string          `json:"vhost,omitempty"`
}

type queueJSON struct {
	Arguments  json.RawMessage `json:"arguments"`
	AutoDelete bool            `json:"auto_delete"`
	Durable    bool            `json:"durable"`
	Name       string          `json:"name"`
	Type       string          `json:"type"`
	Vhost      string          `json:"vhost"`
}

type exchangeJSON struct {
	Arguments  json.RawMessage `json:"arguments"`
	AutoDelete bool            `json:"auto_delete"`
	Durable    bool            `json:"durable"`
	Internal   bool            `json:"internal,omitempty"`
	Name       string          `json:"name"`
	Type       string          `json:"type"`
	Vhost      string          `json:"vhost"`
}

type bindingJSON struct {
	Arguments       json.RawMessage `json:"arguments"`
	Destination     string          `json:"destination"`
	DestinationType string          `json:"destination_type"`
	RoutingKey      string          `json:"routing_key"`
	Source          string          `json:"source"`
	Vhost           string          `json:"vhost"`
}

// componentLimits and componentOperator are runtime parameters in a file.
const (
	componentLimits   = "vhost-limits"
	componentOperator = "operator_policy"
)

// exporter gives rows until one fails.
type exporter struct {
	row func(admin.Definition) error
	err error
}

func (e *exporter) add(section string, v any) {
	if e.err != nil {
		return
	}
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if e.err = enc.Encode(v); e.err == nil {
		e.err = e.row(admin.Definition{Section: section, JSON: strings.TrimSuffix(b.String(), "\n")})
	}
}

// ExportDefinitions implements admin.Node.
func (a *adapter) ExportDefinitions(_ context.Context, row func(admin.Definition) error) error {
	e := &exporter{row: row}
	var shots []func()
	a.n.View(func(s *state.State) { // the records are immutable: what is slow happens outside of the lock
		for _, v := range s.Vhosts() {
			policies, operators := s.Policies(v.Name, false), s.Policies(v.Name, true)
			queues, exchanges, bindings := s.VhostQueues(v.Name), s.Exchanges(v.Name), s.Bindings(v.Name)
			limits := s.VhostLimits(v.Name)
			shots = append(shots, func() {
				e.vhost(v, limits)
				e.policies(policies, operators)
				e.topology(queues, exchanges, bindings)
			})
		}
		users, permissions, topics, globals := s.Users(), s.AllPermissions(), s.TopicPermissions(), s.Globals()
		limits := map[string]*state.Limits{}
		for _, l := range s.AllUserLimits() {
			limits[l.Owner] = l
		}
		shots = append(shots, func() { e.users(users, limits, permissions, topics, globals) })
	})
	for _, shot := range shots {
		shot()
	}
	return e.err
}

func (e *exporter) users(users []*state.User, limits map[string]*state.Limits, permissions []*state.Permission,
	topics []*state.TopicPermission, globals []*state.Global,
) {
	for _, u := range users {
		out := userJSON{
			Algorithm: u.HashingAlgorithm(), Limits: map[string]int64{}, Name: u.Name,
			Hash: base64.StdEncoding.EncodeToString(u.PasswordHash), Tags: u.Tags,
		}
		if out.Algorithm == "" {
			out.Algorithm = state.HashSHA256
		}
		if l := limits[u.Name]; l != nil {
			for _, one := range l.Limits {
				out.Limits[one.Name] = one.Value
			}
		}
		e.add(admin.SectionUsers, out)
	}
	for _, p := range permissions {
		e.add(admin.SectionPermissions, permissionJSON{p.Configure, p.Read, p.User, p.Vhost, p.Write})
	}
	for _, p := range topics {
		e.add(admin.SectionTopicPermissions, topicPermissionJSON{p.Exchange, p.Read, p.User, p.Vhost, p.Write})
	}
	for _, g := range globals {
		e.add(admin.SectionGlobals, parameterJSON{Name: g.Name, Value: json.RawMessage(g.Value)})
	}
}

func (e *exporter) vhost(v *state.Vhost, limits *state.Limits) {
	pairs := []any{}
	if limits != nil {
		for _, l := range limits.Limits {
			pairs = append(pairs, []any{l.Name, l.Value})
		}
	}
	e.add(admin.SectionVHosts, vhostJSON{
		Limits: pairs, Name: v.Name,
		Metadata: metadataJSON{DefaultQueueType: v.DefaultQueueType, Description: v.Description, Tags: v.Tags},
	})
	if limits != nil {
		e.add(admin.SectionParameters, parameterJSON{
			Component: componentLimits, Name: "limits", Vhost: v.Name, Value: json.RawMessage(limitsJSON(limits)),
		})
	}
}

func (e *exporter) policies(policies, operators []*state.Policy) {
	for _, p := range policies {
		e.add(admin.SectionPolicies, policyJSON{
			ApplyTo: string(p.ApplyTo), Definition: json.RawMessage(p.Definition.JSON()), Name: p.Name, Pattern: p.Pattern,
			Priority: p.Priority, Vhost: p.Vhost,
		})
	}
	for _, p := range operators {
		value, err := json.Marshal(policyJSON{
			ApplyTo: string(p.ApplyTo), Definition: json.RawMessage(p.Definition.JSON()), Pattern: p.Pattern, Priority: p.Priority,
		})
		if err != nil {
			e.err = err
			return
		}
		e.add(admin.SectionParameters, parameterJSON{Component: componentOperator, Name: p.Name, Vhost: p.Vhost, Value: value})
	}
}

// topology leaves out exclusive queues, predeclared exchanges and bindings of the default exchange. RabbitMQ leaves out
// internal exchanges too, and so loses them.
func (e *exporter) topology(queues []*state.Queue, exchanges []*state.Exchange, bindings []*state.Binding) {
	for _, q := range queues {
		if !q.Exclusive {
			e.add(admin.SectionQueues, queueJSON{jsonTable(q.Arguments), q.AutoDelete, q.Durable, q.Name, "classic", q.Vhost})
		}
	}
	for _, x := range exchanges {
		if x.Name != "" && !strings.HasPrefix(x.Name, "amq.") {
			e.add(admin.SectionExchanges, exchangeJSON{jsonTable(x.Arguments), x.AutoDelete, x.Durable, x.Internal, x.Name, x.Type, x.Vhost})
		}
	}
	for _, b := range bindings {
		e.add(admin.SectionBindings, bindingJSON{jsonTable(b.Arguments), b.Destination, string(b.Kind), b.RoutingKey, b.Source, b.Vhost})
	}
}

// jsonTable is a table of arguments as JSON; types that JSON has not are lost, as they are in RabbitMQ's files.
func jsonTable(b []byte) json.RawMessage {
	t, err := amqp.DecodeTable(b)
	if len(b) == 0 || err != nil {
		return json.RawMessage("{}")
	}
	text, err := json.Marshal(jsonValue(t))
	if err != nil {
		return json.RawMessage("{}")
	}
	return text
}

func jsonValue(v any) any {
	switch v := v.(type) {
	case amqp.Table:
		out := make(map[string]any, len(v))
		for k, e := range v {
			out[k] = jsonValue(e)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = jsonValue(e)
		}
		return out
	case []byte:
		return string(v)
	case amqp.Timestamp:
		return int64(v)
	case nil, bool, string, int8, uint8, int16, uint16, int32, uint32, int64, uint64, float32, float64:
		return v
	}
	return fmt.Sprint(v)
}

// tableOf reads arguments from JSON: whole numbers become longs, others doubles.
func tableOf(text json.RawMessage) (amqp.Table, error) {
	if len(text) == 0 || string(text) == "null" || string(text) == "[]" {
		return nil, nil
	}
	dec := json.NewDecoder(strings.NewReader(string(text)))
	dec.UseNumber()
	var m map[string]any
	if err := dec.Decode(&m); err != nil {
		return nil, fmt.Errorf("arguments %s: %w", text, err)
	}
	return fieldValue(m).(amqp.Table), nil
}

func fieldValue(v any) any {
	switch v := v.(type) {
	case map[string]any:
		t := make(amqp.Table, len(v))
		for k, e := range v {
			t[k] = fieldValue(e)
		}
		return t
	case []any:
		list := make([]any, len(v))
		for i, e := range v {
			list[i] = fieldValue(e)
		}
		return list
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		f, _ := v.Float64()
		return f
	}
	return v
}
