package state

import (
	"bytes"
	"fmt"

	"github.com/vmihailenco/msgpack/v5"
)

// A snapshot is one version byte and a msgpack map of sorted lists: the same state gives the same bytes on every node.
// Unknown fields are skipped, so that an older version reads what a newer one wrote as long as no feature flag that changes the
// format is enabled (upgrades.md). testdata/v1 holds files that every later version must read.
const snapshotFormat = 1

type snapshot struct {
	Index       uint64        `msgpack:"i"`
	ClusterID   string        `msgpack:"id"`
	ClusterName string        `msgpack:"n"`
	Nodes       []*Node       `msgpack:"nodes"`
	Vhosts      []*Vhost      `msgpack:"vhosts"`
	Users       []*User       `msgpack:"users"`
	Permissions []*Permission `msgpack:"permissions"`
	Exchanges   []*Exchange   `msgpack:"exchanges"`
	Bindings    []*Binding    `msgpack:"bindings"`
	Policies    []*Policy     `msgpack:"policies"`
	Operators   []*Policy     `msgpack:"operators"`
	Queues      []*Queue      `msgpack:"queues"`
	Sessions    []session     `msgpack:"sessions"`
	// Absent where there are none, as an older version wrote it.
	Topics      []*TopicPermission `msgpack:"topics,omitempty"`
	VhostLimits []*Limits          `msgpack:"vhost_limits,omitempty"`
	UserLimits  []*Limits          `msgpack:"user_limits,omitempty"`
	Globals     []*Global          `msgpack:"globals,omitempty"`
	Features    []string           `msgpack:"features,omitempty"`
}

// Image is the content of a state at one index. Taking it is cheap (the records are shared), and it may be encoded while
// Apply goes on.
type Image struct{ snap snapshot }

// Image takes an image of the state.
func (s *State) Image() *Image {
	im := &Image{snapshot{Index: s.index, ClusterID: s.clusterID, ClusterName: s.clusterName,
		Nodes: s.nodes.all(), Vhosts: s.vhosts.all(), Users: s.users.all(), Permissions: s.permissions.all(),
		Exchanges: s.exchanges.all(), Bindings: s.bindings.all(), Policies: s.policies.all(), Operators: s.operators.all(),
		Queues: s.queues.all(), Topics: s.topics.all(), VhostLimits: s.vhostLimits.all(), UserLimits: s.userLimits.all(),
		Globals: s.globals.all(), Features: s.Features()}}
	for _, se := range s.sessions.vals {
		c := *se
		c.Done = append([]answer(nil), se.Done...)
		im.snap.Sessions = append(im.snap.Sessions, c)
	}
	return im
}

// WithClusterID gives the image another cluster ID (raftstore.Recover).
func (im *Image) WithClusterID(id string) *Image {
	im.snap.ClusterID = id
	return im
}

// Encode is the snapshot's bytes.
func (im *Image) Encode() ([]byte, error) {
	b := bytes.NewBuffer([]byte{snapshotFormat})
	if err := newEncoder(b).Encode(&im.snap); err != nil {
		return nil, fmt.Errorf("encode snapshot at %d: %w", im.snap.Index, err)
	}
	return b.Bytes(), nil
}

// Load builds the state from a snapshot's bytes.
func Load(data []byte) (*State, error) {
	if len(data) == 0 || data[0] != snapshotFormat {
		return nil, fmt.Errorf("load snapshot: not format %d (%d bytes)", snapshotFormat, len(data))
	}
	var snap snapshot
	if err := msgpack.NewDecoder(bytes.NewReader(data[1:])).Decode(&snap); err != nil {
		return nil, fmt.Errorf("load snapshot: %w", err)
	}
	s := New()
	s.index, s.clusterID, s.clusterName = snap.Index, snap.ClusterID, snap.ClusterName
	for _, n := range snap.Nodes {
		s.nodes.put(n.Name, n)
	}
	for _, v := range snap.Vhosts {
		s.vhosts.put(v.Name, v)
	}
	for _, u := range snap.Users {
		s.users.put(u.Name, u)
	}
	for _, p := range snap.Permissions {
		s.permissions.put(key(p.Vhost, p.User), p)
	}
	for _, x := range snap.Exchanges {
		s.exchanges.put(key(x.Vhost, x.Name), x)
	}
	for _, b := range snap.Bindings {
		s.bindings.put(bindingKey(b), b)
		s.bindingsTo.put(bindingToKey(b), b)
	}
	for _, p := range snap.Policies {
		s.policies.put(key(p.Vhost, p.Name), p)
	}
	for _, p := range snap.Operators {
		s.operators.put(key(p.Vhost, p.Name), p)
	}
	for _, q := range snap.Queues {
		s.queues.put(q.ID, q)
		s.queueNames.put(key(q.Vhost, q.Name), q.ID)
		s.count(q, +1)
	}
	for _, se := range snap.Sessions {
		s.sessions.put(se.ID, &se)
	}
	s.loadOperators(&snap)
	return s, nil
}

func (s *State) loadOperators(snap *snapshot) {
	s.features = snap.Features
	for _, p := range snap.Topics {
		s.topics.put(key(p.Vhost, p.User, p.Exchange), p)
	}
	for _, l := range snap.VhostLimits {
		s.vhostLimits.put(l.Owner, l)
	}
	for _, l := range snap.UserLimits {
		s.userLimits.put(l.Owner, l)
	}
	for _, g := range snap.Globals {
		s.globals.put(g.Name, g)
	}
}
