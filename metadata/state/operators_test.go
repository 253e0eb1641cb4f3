package state

import (
	"crypto/md5"
	"crypto/sha512"
	"reflect"
	"testing"
)

func TestVhostMetadataAndLimits(t *testing.T) {
	m := newMachine(t, "a")
	if v, _ := m.s.Vhost("/"); v.Description != "Default virtual host" {
		t.Errorf("the default vhost: %+v", v)
	}
	r := m.ok(&PutVhost{Name: "v", Description: "d", Tags: []string{"x"}, DefaultQueueType: "classic"})
	if !r.Created {
		t.Error("not created")
	}
	if _, ok := m.s.Exchange("v", "amq.topic"); !ok {
		t.Error("the vhost has no exchanges")
	}
	if r := m.ok(&PutVhost{Name: "v", Description: "e"}); r.Created {
		t.Error("created twice")
	}
	if v, _ := m.s.Vhost("v"); v.Description != "e" || v.Tags != nil || v.PolicyVersion == 0 {
		t.Errorf("%+v", v)
	}
	m.refused(&SetVhostLimits{Vhost: "none", Limits: []Limit{{LimitQueues, 1}}}, ErrNotFound)
	m.ok(&SetVhostLimits{Vhost: "/", Limits: []Limit{{LimitQueues, 1}, {LimitConnections, -1}}})
	m.declare("q1", "a")
	m.refused(&DeclareQueue{Vhost: "/", Name: "q2", Node: "a"}, ErrLimit)
	m.declare("q1", "a") // exists already
	if _, ok := m.s.VhostLimits("/").Get(LimitConnections); ok {
		t.Error("-1 is a limit")
	}
	m.ok(&SetVhostLimits{Vhost: "/"})
	m.declare("q2", "a")
	m.ok(&SetVhostLimits{Vhost: "v", Limits: []Limit{{LimitQueues, 0}}})
	m.refused(&DeclareQueue{Vhost: "v", Name: "q", Node: "a"}, ErrLimit)
	m.ok(&DeleteVhost{Name: "v"})
	if m.s.VhostLimits("v") != nil {
		t.Error("limits outlive their vhost")
	}
}

func TestUserLimits(t *testing.T) {
	m := newMachine(t)
	m.refused(&SetUserLimits{User: "x", All: true}, ErrNotFound)
	set := func(l ...Limit) { m.ok(&SetUserLimits{User: "guest", Limits: l}) }
	want := func(l ...Limit) {
		t.Helper()
		if got := m.s.UserLimits("guest"); len(l) == 0 && got != nil || len(l) > 0 && !reflect.DeepEqual(got.Limits, l) {
			t.Errorf("limits are %+v, want %v", got, l)
		}
	}
	set(Limit{LimitConnections, 2}, Limit{LimitChannels, 3})
	want(Limit{LimitChannels, 3}, Limit{LimitConnections, 2})
	set(Limit{LimitConnections, 5})
	want(Limit{LimitChannels, 3}, Limit{LimitConnections, 5})
	m.ok(&SetUserLimits{User: "guest", Clear: []string{LimitChannels, "none"}})
	want(Limit{LimitConnections, 5})
	m.ok(&SetUserLimits{User: "guest", All: true})
	want()
	set(Limit{LimitChannels, 1})
	m.ok(&DeleteUser{Name: "guest"})
	want()
}

func TestTopicPermissions(t *testing.T) {
	m := newMachine(t)
	p := TopicPermission{User: "guest", Vhost: "/", Exchange: "x", Write: "^a", Read: ".*"}
	m.refused(&SetTopicPermission{Permission: TopicPermission{User: "none", Vhost: "/"}}, ErrNotFound)
	m.refused(&SetTopicPermission{Permission: TopicPermission{User: "guest", Vhost: "none"}}, ErrNotFound)
	m.refused(&ClearTopicPermission{User: "none", Vhost: "/", All: true}, ErrNotFound)
	m.ok(&SetTopicPermission{Permission: p})
	if got, ok := m.s.TopicPermission("/", "guest", "x"); !ok || *got != p {
		t.Errorf("%+v", got)
	}
	q := p
	q.Exchange = "y"
	m.ok(&SetTopicPermission{Permission: q})
	m.ok(&ClearTopicPermission{User: "guest", Vhost: "/", Exchange: "x"})
	if all := m.s.TopicPermissions(); len(all) != 1 || *all[0] != q {
		t.Errorf("%+v", all)
	}
	m.ok(&SetTopicPermission{Permission: p})
	m.ok(&ClearTopicPermission{User: "guest", Vhost: "/", All: true})
	m.ok(&SetTopicPermission{Permission: p})
	m.ok(&DeleteUser{Name: "guest"})
	if all := m.s.TopicPermissions(); len(all) != 0 {
		t.Errorf("%+v", all)
	}
}

func TestUsersAndGlobals(t *testing.T) {
	m := newMachine(t)
	m.refused(&SetUserTags{Name: "x"}, ErrNotFound)
	m.ok(&SetUserTags{Name: "guest", Tags: []string{"a", "b"}})
	u, _ := m.s.User("guest")
	if len(u.Tags) != 2 || !u.CheckPassword("guest") {
		t.Errorf("%+v", u)
	}
	m.ok(&SetUserPassword{Name: "guest"})
	if u, _ := m.s.User("guest"); u.CheckPassword("guest") || u.CheckPassword("") || len(u.Tags) != 2 {
		t.Error("a user without a password logs in, or lost its tags")
	}
	m.refused(&ClearGlobalParameter{Name: "g"}, ErrNotFound)
	m.ok(&SetGlobalParameter{Name: "g", Value: `{"a":1}`})
	m.ok(&SetGlobalParameter{Name: ClusterNameParameter, Value: `"prod"`, Text: "prod"})
	if m.s.ClusterName() != "prod" || len(m.s.Globals()) != 2 {
		t.Errorf("%q, %v", m.s.ClusterName(), m.s.Globals())
	}
	loaded, err := Load(m.snapshot())
	if err != nil || loaded.ClusterName() != "prod" || len(loaded.Globals()) != 2 {
		t.Errorf("from the snapshot: %v", err)
	}
	m.ok(&ClearGlobalParameter{Name: "g"})
}

// A snapshot holds what operators set.
func TestSnapshotOfOperatorsSettings(t *testing.T) {
	m := newMachine(t, "a")
	m.ok(&PutVhost{Name: "v", Description: "d", Tags: []string{"x"}})
	m.ok(&SetVhostLimits{Vhost: "v", Limits: []Limit{{LimitQueues, 3}}})
	m.ok(&SetUserLimits{User: "guest", Limits: []Limit{{LimitChannels, 3}}})
	m.ok(&SetTopicPermission{Permission: TopicPermission{User: "guest", Vhost: "v", Exchange: "x"}})
	s, err := Load(m.snapshot())
	if err != nil {
		t.Fatal(err)
	}
	v, _ := s.Vhost("v")
	_, topic := s.TopicPermission("v", "guest", "x")
	if v.Description != "d" || len(s.AllVhostLimits()) != 1 || len(s.AllUserLimits()) != 1 || !topic {
		t.Error("settings are missing in the snapshot")
	}
}

func TestPasswordHashes(t *testing.T) {
	salted := []byte{1, 2, 3, 4, 'p', 'w'}
	long, short := sha512.Sum512(salted), md5.Sum(salted)
	for name, hash := range map[string][]byte{
		HashSHA256: HashPassword([4]byte{1, 2, 3, 4}, "pw"),
		HashSHA512: append([]byte{1, 2, 3, 4}, long[:]...),
		HashMD5:    append([]byte{1, 2, 3, 4}, short[:]...),
	} {
		u := User{PasswordHash: hash}
		if u.HashingAlgorithm() != name || !u.CheckPassword("pw") || u.CheckPassword("pW") {
			t.Errorf("%s is taken for %q, or does not tell passwords apart", name, u.HashingAlgorithm())
		}
	}
	u := User{PasswordHash: []byte{1, 2, 3, 4}}
	if u.CheckPassword("") {
		t.Error("a hash of no length fits")
	}
}

// What Successor foretells is what NodesDown decides.
func TestSuccessor(t *testing.T) {
	for _, reason := range []Reason{ReasonFailure, ReasonShutdown} {
		for _, synchronised := range []bool{true, false} {
			m := newMachine(t, "a", "b")
			m.policy("ha", "^q", `{"ha-mode":"all"}`)
			q := m.declare("q", "a")
			if !synchronised {
				m.down(ReasonFailure, "b")
				m.up("b", 2)
				m.ready(q.ID, "b")
			}
			node, loss, ok := m.queue(q.ID).Successor(reason)
			m.down(reason, "a")
			now := m.queue(q.ID)
			if ok != (now.Status == QueueRunning) || ok && (node != now.Master || loss != (now.LastLossEpoch == now.Epoch)) {
				t.Errorf("%s, synchronised %t: foretold %q, loss %t, ok %t; it is %s", reason, synchronised, node, loss, ok, show(now))
			}
		}
	}
}
