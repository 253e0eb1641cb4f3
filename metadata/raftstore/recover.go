package raftstore

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"
)

// stored is the group as it lies on the disk of a node that does not run.
type stored struct {
	bolt  *raftboltdb.BoltStore
	snaps raft.SnapshotStore
	conf  *raft.Config
	trans raft.Transport
}

func openStored(dir, self, addr string) (*stored, error) {
	path := filepath.Join(dir, "raft.db")
	bolt, err := raftboltdb.New(raftboltdb.Options{Path: path, BoltOptions: &bbolt.Options{Timeout: time.Second,
		NoFreelistSync: true, FreelistType: bbolt.FreelistMapType}})
	if err != nil {
		return nil, fmt.Errorf("open metadata log %s (does the node run?): %w", path, err)
	}
	snaps, err := raft.NewFileSnapshotStoreWithLogger(dir, 2, hclog.NewNullLogger())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open metadata snapshots in %s: %w", dir, err), bolt.Close())
	}
	conf := raft.DefaultConfig()
	conf.LocalID, conf.Logger = raft.ServerID(self), hclog.NewNullLogger()
	_, trans := raft.NewInmemTransport(raft.ServerAddress(addr))
	return &stored{bolt, snaps, conf, trans}, nil
}

// StoredMembers are the members of the group as they lie on the disk of a node that does not run, from Config.Dir, Self and
// Addr.
func StoredMembers(dir, self, addr string) ([]Member, error) {
	s, err := openStored(dir, self, addr)
	if err != nil {
		return nil, err
	}
	c, err := raft.GetConfiguration(s.conf, newFSM(), s.bolt, s.bolt, s.snaps, s.trans)
	if err = errors.Join(err, s.bolt.Close()); err != nil {
		return nil, fmt.Errorf("read the members of the metadata group in %s: %w", dir, err)
	}
	var out []Member
	for _, srv := range c.Servers {
		out = append(out, Member{Peer{string(srv.ID), string(srv.Address)}, srv.Suffrage == raft.Voter})
	}
	return out, nil
}

// Recover makes a node that does not run the only member of its group, under a new cluster ID, with all that its log holds,
// committed or not. What the others decided without it is lost: only for when they never come back.
func Recover(dir, self, addr, clusterID string) error {
	s, err := openStored(dir, self, addr)
	if err != nil {
		return err
	}
	f := &recoveringFSM{fsm: newFSM(), clusterID: clusterID}
	err = raft.RecoverCluster(s.conf, f, s.bolt, s.bolt, s.snaps, s.trans, raft.Configuration{
		Servers: []raft.Server{{ID: raft.ServerID(self), Address: raft.ServerAddress(addr)}},
	})
	if err = errors.Join(err, s.bolt.Close()); err != nil {
		return fmt.Errorf("recover the metadata in %s: %w", dir, err)
	}
	return nil
}

// recoveringFSM gives the snapshot that the recovery ends with another cluster ID, so that the old cluster, should it come back,
// is not taken for this one.
type recoveringFSM struct {
	*fsm
	clusterID string
}

// Snapshot implements raft.FSM.
func (f *recoveringFSM) Snapshot() (raft.FSMSnapshot, error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return &fsmSnapshot{f.st.Image().WithClusterID(f.clusterID)}, nil
}
