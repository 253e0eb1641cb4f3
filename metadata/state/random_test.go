package state

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"warren/metadata/policy"
)

// history makes a random but plausible log of n commands, checking the invariants after each.
func history(t *testing.T, seed uint64, n int) (log [][]byte, m *machine) {
	m = newMachine(t)
	m.s, m.index = New(), 0
	r := rand.New(rand.NewPCG(seed, 1))
	g := &generator{r: r, m: m, incarnation: map[string]uint64{}}
	for range n {
		cmd := g.next()
		if p := Gather(cmd, m.s); p != nil {
			var err error
			if cmd, err = p.Complete(never); err != nil {
				t.Fatal(err)
			}
		}
		g.seq++
		data, err := Encode(cmd, Request{Session: 1 + g.seq%3, Seq: g.seq, Lowest: max(g.seq, 20) - 19})
		if err != nil {
			t.Fatal(err)
		}
		for range 1 + r.IntN(20)/19 { // now and then a repeat
			log = append(log, data)
			m.index++
			m.s.Apply(m.index, data)
		}
		m.check()
	}
	return log, m
}

type generator struct {
	r           *rand.Rand
	m           *machine
	seq         uint64
	incarnation map[string]uint64
}

func (g *generator) node() string { return string(rune('a' + g.r.IntN(5))) }

func (g *generator) next() Command {
	if g.m.index == 0 {
		return &InitCluster{ID: "id", Name: "n", User: "guest", PasswordHash: HashPassword([4]byte{1}, "guest")}
	}
	switch k := g.r.IntN(100); {
	case k < 10:
		n := g.node()
		g.incarnation[n]++
		return &NodeUp{Node: n, Incarnation: g.incarnation[n]}
	case k < 18:
		return g.nodesDown()
	case k < 30:
		name := fmt.Sprintf("q%d", g.r.IntN(12))
		return &DeclareQueue{Vhost: "/", Name: name, Durable: g.r.IntN(3) > 0, Exclusive: g.r.IntN(6) == 0, Node: g.node(),
			Locator: []string{"", "min-masters", "random"}[g.r.IntN(3)], Seed: g.r.Uint64(), Owner: Owner{Node: g.node(), Incarnation: 1}}
	case k < 34:
		return &DeleteQueue{Vhost: "/", Name: fmt.Sprintf("q%d", g.r.IntN(12))}
	case k < 40:
		return &Bind{Binding: Binding{Vhost: "/", Source: "amq.topic", Kind: KindQueue, Destination: fmt.Sprintf("q%d", g.r.IntN(12)), RoutingKey: "k"}}
	case k < 47:
		return g.policy()
	}
	switch g.r.IntN(20) {
	case 0:
		return &SetDraining{Node: g.node(), On: g.r.IntN(2) == 0}
	case 1:
		return &ForgetNode{Node: g.node()}
	}
	return g.mirror()
}

func (g *generator) nodesDown() Command {
	c := &NodesDown{}
	for range 1 + g.r.IntN(3) {
		n := g.node()
		c.Nodes = append(c.Nodes, DownNode{Node: n, Incarnation: g.incarnation[n], Reason: Reason(1 + g.r.IntN(2)), Fenced: g.r.IntN(2) == 0})
	}
	return c
}

func (g *generator) policy() Command {
	name := fmt.Sprintf("p%d", g.r.IntN(4))
	if g.r.IntN(3) == 0 {
		return &ClearPolicy{Vhost: "/", Name: name}
	}
	d, err := policy.Parse([]string{`{"ha-mode":"all"}`, `{"ha-mode":"exactly","ha-params":2}`, `{"ha-mode":"exactly","ha-params":3,"ha-promote-on-failure":"when-synced"}`,
		`{"ha-mode":"nodes","ha-params":["b","d"]}`, `{"message-ttl":100}`, `{"ha-mode":"all","ha-promote-on-shutdown":"always"}`}[g.r.IntN(6)], false)
	if err != nil {
		panic(err)
	}
	return &SetPolicy{Policy: Policy{Vhost: "/", Name: name, Pattern: []string{"", "^q1", "[0-4]$", "^amq"}[g.r.IntN(4)],
		ApplyTo: policy.ApplyToAll, Priority: int64(g.r.IntN(3)), Definition: d}}
}

// mirror is a command about a member of some queue, mostly one that fits.
func (g *generator) mirror() Command {
	qs := g.m.s.Queues()
	if len(qs) == 0 {
		return &SetHadConsumers{Queue: 1}
	}
	q := qs[g.r.IntN(len(qs))]
	mem := q.Members[g.r.IntN(len(q.Members))]
	switch k := g.r.IntN(21); {
	case k < 6:
		return &MirrorReady{Queue: q.ID, Node: mem.Node, Incarnation: mem.Incarnation}
	case k < 11:
		return &MirrorSynchronised{Queue: q.ID, Node: mem.Node, Incarnation: mem.Incarnation, JoinIndex: mem.JoinIndex, View: q.ViewVersion}
	case k < 12:
		return &MirrorUnsynchronised{Queue: q.ID, Node: mem.Node, Incarnation: mem.Incarnation, JoinIndex: mem.JoinIndex}
	case k < 14:
		return &RecoverQueue{Queue: q.ID, Epoch: q.Epoch, Node: mem.Node, Incarnation: mem.Incarnation}
	case k < 15:
		return &MasterActing{Queue: q.ID, Epoch: q.Epoch, Node: mem.Node, Incarnation: mem.Incarnation}
	case k < 16:
		return &TransferMaster{Queue: q.ID, Epoch: q.Epoch, To: mem.Node}
	case k < 17:
		return &KeepMaster{Queue: q.ID, Epoch: q.Epoch + 1, Node: mem.Node}
	case k < 18:
		return &DropMirror{Queue: q.ID, Node: mem.Node, JoinIndex: mem.JoinIndex, View: q.ViewVersion}
	case k < 19:
		return &ReplaceMirror{Queue: q.ID, Node: mem.Node}
	case k < 20:
		return &PromoteMirror{Queue: q.ID, Epoch: q.Epoch, Node: mem.Node, Incarnation: mem.Incarnation}
	}
	return &SetHadConsumers{Queue: q.ID}
}

func TestRandomHistories(t *testing.T) {
	for seed := range uint64(25) {
		log, m := history(t, seed, 300)
		// Replaying from a snapshot in the middle gives the same state.
		half := len(log) / 2
		s := New()
		for i, data := range log {
			if i == half {
				data, err := s.Image().Encode()
				if err != nil {
					t.Fatal(err)
				}
				if s, err = Load(data); err != nil {
					t.Fatal(err)
				}
			}
			s.Apply(uint64(i+1), data)
		}
		got, err := s.Image().Encode()
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != string(m.snapshot()) {
			t.Fatalf("seed %d: the state from a snapshot differs", seed)
		}
	}
}

const childLog = "WARREN_STATE_TEST_LOG"

// Two processes that apply the same log have the same snapshot, byte for byte. (With a map walked into the snapshot, or a promotion
// taken from one, this fails: try ranging over a map in Image.)
func TestTwoProcessesAgree(t *testing.T) {
	if path := os.Getenv(childLog); path != "" {
		applyFile(t, path)
		return
	}
	var file []byte
	for seed := range uint64(5) {
		log, _ := history(t, 1000+seed, 300)
		if seed == 0 {
			file = nil
		}
		for _, data := range log {
			file = append(binary.BigEndian.AppendUint32(file, uint32(len(data))), data...)
		}
		path := filepath.Join(t.TempDir(), "log")
		if err := os.WriteFile(path, file, 0o600); err != nil {
			t.Fatal(err)
		}
		file = nil
		var snaps [2]string
		for i := range snaps {
			out := fmt.Sprintf("%s.%d", path, i)
			cmd := exec.Command(os.Args[0], "-test.run=^TestTwoProcessesAgree$")
			cmd.Env = append(os.Environ(), childLog+"="+path, childLog+"_OUT="+out)
			if msg, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("child: %v\n%s", err, msg)
			}
			data, err := os.ReadFile(out)
			if err != nil {
				t.Fatal(err)
			}
			snaps[i] = string(data)
		}
		if snaps[0] != snaps[1] || len(snaps[0]) < 1000 {
			t.Fatalf("seed %d: snapshots differ (%d and %d bytes)", seed, len(snaps[0]), len(snaps[1]))
		}
	}
}

func applyFile(t *testing.T, path string) {
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	s := New()
	for i := uint64(1); len(file) > 0; i++ {
		n := binary.BigEndian.Uint32(file)
		s.Apply(i, file[4:4+n])
		file = file[4+n:]
	}
	data, err := s.Image().Encode()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(os.Getenv(childLog+"_OUT"), data, 0o600); err != nil {
		t.Fatal(err)
	}
}
