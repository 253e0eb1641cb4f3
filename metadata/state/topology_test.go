package state

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"warren/metadata/policy"
)

func TestInitCluster(t *testing.T) {
	m := newMachine(t)
	m.refused(&InitCluster{ID: "other"}, ErrExists)
	var names []string
	for _, x := range m.s.Exchanges("/") {
		names = append(names, x.Name+":"+x.Type)
	}
	if got := strings.Join(names, " "); got != ":direct amq.direct:direct amq.fanout:fanout amq.headers:headers amq.match:headers amq.topic:topic" {
		t.Errorf("exchanges %s", got)
	}
	u, _ := m.s.User("guest")
	if (&User{PasswordHash: HashPassword([4]byte{1}, "")}).CheckPassword("") {
		t.Error("an empty password logs in (add_user NAME '' is for users of certificates)")
	}
	if !u.CheckPassword("guest") || u.CheckPassword("Guest") || (&User{}).CheckPassword("") {
		t.Error("password check")
	}
	if p, ok := m.s.Permission("guest", "/"); !ok || p.Configure != ".*" {
		t.Errorf("permission %+v", p)
	}
}

// RabbitMQ's texts for a declaration that differs.
func TestInequivalent(t *testing.T) {
	m := newMachine(t, "a")
	ttl := func(typ, v string) []Argument { return []Argument{{"x-message-ttl", typ, v}} }
	d := DeclareQueue{Vhost: "/", Name: "q", Durable: true, Node: "a", Compared: ttl("signedint", "1000")}
	first := m.ok(&d)
	if !first.Created {
		t.Error("not created")
	}
	if again := m.ok(&d); again.Created || again.Queue != first.Queue {
		t.Errorf("declared again: %+v", again)
	}
	wide := d
	wide.Compared = ttl("long", "1000")
	m.ok(&wide)
	for _, c := range []struct {
		change func(*DeclareQueue)
		want   string
	}{
		{func(d *DeclareQueue) { d.Durable = false }, "inequivalent arg 'durable' for queue 'q' in vhost '/': received 'false' but current is 'true'"},
		{func(d *DeclareQueue) { d.AutoDelete = true }, "inequivalent arg 'auto_delete' for queue 'q' in vhost '/': received 'true' but current is 'false'"},
		{func(d *DeclareQueue) { d.Compared = ttl("signedint", "5") }, "inequivalent arg 'x-message-ttl' for queue 'q' in vhost '/': received '5' but current is '1000'"},
		{func(d *DeclareQueue) { d.Compared = nil }, "inequivalent arg 'x-message-ttl' for queue 'q' in vhost '/': received none but current is the value '1000' of type 'signedint'"},
		{func(d *DeclareQueue) { d.Compared = append([]Argument{{"x-expires", "signedint", "9"}}, d.Compared...) },
			"inequivalent arg 'x-expires' for queue 'q' in vhost '/': received the value '9' of type 'signedint' but current is none"},
		{func(d *DeclareQueue) { d.Compared = []Argument{{"x-max-length", "byte", "9"}} },
			"inequivalent arg 'x-message-ttl' for queue 'q' in vhost '/': received none but current is the value '1000' of type 'signedint'"},
		{func(d *DeclareQueue) { d.Compared = append([]Argument{{"x-max-length", "byte", "9"}}, d.Compared...) },
			"inequivalent arg 'x-max-length' for queue 'q' in vhost '/': received the value '9' of type 'byte' but current is none"},
	} {
		other := d
		c.change(&other)
		r, _ := m.apply(&other)
		if !errors.Is(r.Refusal(), ErrInequivalent) || r.Err.Error() != c.want {
			t.Errorf("got %v\nwant %s", r.Err, c.want)
		}
	}
	exclusive := d
	exclusive.Exclusive, exclusive.Owner = true, Owner{Node: "a", Connection: 1}
	m.refused(&exclusive, ErrLocked)
	r, _ := m.apply(&DeclareExchange{Vhost: "/", Name: "amq.direct", Type: "fanout", Durable: true})
	if want := "inequivalent arg 'type' for exchange 'amq.direct' in vhost '/': received 'fanout' but current is 'direct'"; r.Err.Error() != want {
		t.Errorf("got %v", r.Err)
	}
	m.refused(&DeclareQueue{Vhost: "no", Name: "q", Node: "a"}, ErrNotFound)
}

func TestBindings(t *testing.T) {
	m := newMachine(t, "a")
	m.declare("q", "a")
	m.ok(&DeclareExchange{Vhost: "/", Name: "x", Type: "topic", AutoDelete: true})
	b := Binding{Vhost: "/", Source: "x", Kind: KindQueue, Destination: "q", RoutingKey: "a.#"}
	if r := m.ok(&Bind{Binding: b}); !r.Created {
		t.Error("not created")
	}
	if r := m.ok(&Bind{Binding: b}); r.Created {
		t.Error("created twice")
	}
	toX := Binding{Vhost: "/", Source: "amq.topic", Kind: KindExchange, Destination: "x"}
	m.ok(&Bind{Binding: toX})
	m.refused(&Bind{Binding: Binding{Vhost: "/", Source: "no", Kind: KindQueue, Destination: "q"}}, ErrNotFound)
	r, _ := m.apply(&Bind{Binding: Binding{Vhost: "/", Source: "x", Kind: KindQueue, Destination: "no"}})
	if r.Err.Error() != "no queue 'no' in vhost '/'" {
		t.Errorf("got %v", r.Err)
	}
	m.refused(&DeleteExchange{Vhost: "/", Name: "x", IfUnused: true}, ErrInUse)
	_, changes := m.apply(&DeleteQueue{Vhost: "/", Name: "q"})
	var kinds []ChangeKind
	for _, c := range changes {
		kinds = append(kinds, c.Kind)
	}
	// the queue's last binding goes, its auto-delete source with it, and the binding to that
	if fmt.Sprint(kinds) != fmt.Sprint([]ChangeKind{QueueDeleted, BindingRemoved, ExchangeDeleted, BindingRemoved}) {
		t.Errorf("changes %v", kinds)
	}
	if _, ok := m.s.Exchange("/", "x"); ok || len(m.s.Bindings("/")) != 0 {
		t.Error("something is left")
	}
	m.ok(&Unbind{Binding: Binding{Vhost: "/", Source: "amq.topic", Kind: KindExchange, Destination: "amq.fanout"}})
}

func TestVhostsAndUsers(t *testing.T) {
	m := newMachine(t, "a")
	m.ok(&AddVhost{Name: "v"})
	m.refused(&AddVhost{Name: "v"}, ErrExists)
	m.ok(&PutUser{User: User{Name: "u"}, Create: true})
	m.refused(&PutUser{User: User{Name: "u"}, Create: true}, ErrExists)
	m.ok(&SetPermission{Permission: Permission{User: "u", Vhost: "v", Configure: "^x"}})
	m.refused(&SetPermission{Permission: Permission{User: "no", Vhost: "v"}}, ErrNotFound)
	m.ok(&DeclareQueue{Vhost: "v", Name: "q", Durable: true, Node: "a"})
	m.ok(&DeclareExchange{Vhost: "v", Name: "x", Type: "fanout", AutoDelete: true})
	m.ok(&Bind{Binding: Binding{Vhost: "v", Source: "x", Kind: KindQueue, Destination: "q"}})
	m.ok(&DeleteVhost{Name: "v"})
	m.refused(&DeleteVhost{Name: "v"}, ErrNotFound)
	if len(m.s.Queues())+len(m.s.Exchanges("v"))+len(m.s.Bindings("v"))+len(m.s.Permissions("v")) != 0 {
		t.Error("something of the vhost is left")
	}
	m.ok(&DeleteUser{Name: "u"})
	m.refused(&ClearPermission{User: "u", Vhost: "/"}, ErrNotFound)
}

// A declaration or a policy that was computed from older sets is refused.
func TestStaleMatches(t *testing.T) {
	m := newMachine(t, "a", "b")
	d, err := policy.Parse(haAll, false)
	if err != nil {
		t.Fatal(err)
	}
	declare, err := Gather(&DeclareQueue{Vhost: "/", Name: "q", Durable: true, Node: "a"}, m.s).Complete(never)
	if err != nil {
		t.Fatal(err)
	}
	set, err := Gather(&SetPolicy{Policy: Policy{Vhost: "/", Name: "p", Pattern: "^", ApplyTo: policy.ApplyToAll, Definition: d}}, m.s).Complete(never)
	if err != nil {
		t.Fatal(err)
	}
	m.declare("other", "a")
	if r := applyRaw(m, set); !errors.Is(r.Refusal(), ErrStale) {
		t.Errorf("a policy planned before a queue was declared: %v", r.Err)
	}
	m.policy("p", "^", haAll)
	if r := applyRaw(m, declare); !errors.Is(r.Refusal(), ErrStale) {
		t.Errorf("a declaration matched before a policy was set: %v", r.Err)
	}
}

func applyRaw(m *machine, cmd Command) Result {
	m.t.Helper()
	data, err := Encode(cmd, Request{})
	if err != nil {
		m.t.Fatal(err)
	}
	m.index++
	r, _ := m.s.Apply(m.index, data)
	return r
}

func TestPatternThatExplodes(t *testing.T) {
	m := newMachine(t, "a")
	m.policy("p", "^(a+)+$", `{"message-ttl":1}`)
	p := Gather(&DeclareQueue{Vhost: "/", Name: strings.Repeat("a", 40) + "!", Node: "a"}, m.s)
	if _, err := p.Complete(never); !errors.Is(err, ErrPattern) {
		t.Errorf("got %v", err)
	}
}

// A repeated proposal is executed once, and gets the first result.
func TestRepeatedRequest(t *testing.T) {
	m := newMachine(t, "a")
	apply := func(cmd Command, req Request) Result {
		if p := Gather(cmd, m.s); p != nil {
			var err error
			if cmd, err = p.Complete(never); err != nil {
				t.Fatal(err)
			}
		}
		data, err := Encode(cmd, req)
		if err != nil {
			t.Fatal(err)
		}
		m.index++
		r, _ := m.s.Apply(m.index, data)
		return r
	}
	declare := &DeclareQueue{Vhost: "/", Name: "q", Durable: true, Node: "a"}
	first := apply(declare, Request{Session: 9, Seq: 1, Lowest: 1})
	apply(&DeleteQueue{Vhost: "/", Name: "q"}, Request{Session: 9, Seq: 2, Lowest: 1})
	if again := apply(declare, Request{Session: 9, Seq: 1, Lowest: 1}); again != first || !again.Created {
		t.Errorf("repeat: %+v, first %+v", again, first)
	}
	if _, ok := m.s.Queue("/", "q"); ok {
		t.Error("a repeat was executed again")
	}
	apply(declare, Request{Session: 9, Seq: 3, Lowest: 3})
	if r := apply(declare, Request{Session: 9, Seq: 1, Lowest: 1}); !errors.Is(r.Refusal(), ErrForgotten) {
		t.Errorf("a forgotten one: %+v", r)
	}
	for seq := uint64(4); seq < 3000; seq++ {
		apply(&SetHadConsumers{Queue: m.index}, Request{Session: 9, Seq: seq, Lowest: 3})
	}
	for id := uint64(100); id < 300; id++ {
		apply(&AddVhost{Name: fmt.Sprint(id)}, Request{Session: id, Seq: 1, Lowest: 1})
	}
	total := 0
	for _, se := range m.s.sessions.vals {
		total += len(se.Done)
		if len(se.Done) > maxRemembered {
			t.Errorf("session %d remembers %d", se.ID, len(se.Done))
		}
	}
	if len(m.s.sessions.vals) != maxSessions {
		t.Errorf("%d sessions", len(m.s.sessions.vals))
	}
}

func TestUnknownCommand(t *testing.T) {
	m := newMachine(t)
	if r, changes := m.s.Apply(m.index+1, []byte{commandFormat, 0xff, 0xff, 0x80}); r.Err != nil || changes != nil {
		t.Errorf("skip bit: %+v", r)
	}
	for _, data := range [][]byte{{commandFormat, 0x7f, 0xff, 0x80, 0x80}, {9, 0, 1}, nil, {commandFormat, 0, 1, 0xc1}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%x did not stop the node", data)
				}
			}()
			m.s.Apply(m.index+1, data)
		}()
	}
}

func TestKeysAreUnambiguous(t *testing.T) {
	if key("a\x00", "b") == key("a", "\x00b") || key("a") > key("a", "b") || key("a\x00") < key("a") || key("a", "z") > key("a\x00", "a") {
		t.Error("keys collide or do not sort as their parts")
	}
}

func TestInitClusterWithOtherData(t *testing.T) {
	m := &machine{t: t, s: New()}
	m.ok(&InitCluster{ID: "id", User: "ops", Default: &InitialData{
		Vhost: "/prod", Tags: []string{"monitoring"}, Permission: Permission{Configure: "a", Write: "b", Read: "c"},
	}})
	u, ok := m.s.User("ops")
	if !ok || !slices.Equal(u.Tags, []string{"monitoring"}) {
		t.Errorf("user: %+v", u)
	}
	if p, _ := m.s.Permission("ops", "/prod"); p == nil || *p != (Permission{User: "ops", Vhost: "/prod", Configure: "a", Write: "b", Read: "c"}) {
		t.Errorf("permission: %+v", p)
	}
	if _, ok := m.s.Vhost("/"); ok {
		t.Error("vhost / is there too")
	}
	m = &machine{t: t, s: New()}
	m.ok(&InitCluster{ID: "id", User: "guest", Default: &InitialData{None: true}})
	if _, ok := m.s.User("guest"); ok || len(m.s.Vhosts()) != 0 || m.s.ClusterID() != "id" {
		t.Errorf("user %v, vhosts %v", ok, m.s.Vhosts())
	}
}
