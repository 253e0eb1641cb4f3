package broker

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"warren/dataplane/link"
	"warren/metadata/raftstore"
)

// RecoveryRefusedError: a majority may still exist, or the operator did not name all that are lost. Nothing was changed.
type RecoveryRefusedError struct{ Text string }

// Error implements error.
func (e *RecoveryRefusedError) Error() string { return e.Text }

// Recover makes a node that does not run a cluster of its own, after the nodes named lost have gone for good with their disks
// (upgrades.md, metadata.md: when one of two crashes). The queues that waited for them are decided as by ForgetNode when the
// node starts. It is refused, with a *RecoveryRefusedError, while another member answers, and unless those that are named leave
// no majority: then starting the others is the way. It returns the members that were given up.
func Recover(ctx context.Context, cfg Config, lost []string) (gone []string, err error) {
	data, err := openDataDir(cfg.DataDir, cfg.Node)
	if err != nil {
		return nil, err
	}
	defer data.close()
	dir, addr := filepath.Join(cfg.DataDir, "raft"), internodeAddress(cfg)
	members, err := raftstore.StoredMembers(dir, cfg.Node, addr)
	if err != nil {
		return nil, err
	}
	voters, left := 0, 0
	for _, m := range members {
		named := slices.Contains(lost, m.Name)
		if m.Voter {
			voters++
			if !named {
				left++
			}
		}
		if m.Name == cfg.Node {
			continue
		}
		gone = append(gone, m.Name)
		if r, _ := link.Probe(ctx, m.Addr); r == link.Alive {
			return nil, &RecoveryRefusedError{fmt.Sprintf("%s answers at %s: start this node, and the cluster decides by its majority", m.Name, m.Addr)}
		}
		if !named {
			return nil, &RecoveryRefusedError{fmt.Sprintf("%s is a member, too. If it still has its disk, start it and this node; "+
				"if it is lost for good, name it with --lost", m.Name)}
		}
	}
	if len(gone) == 0 || left > voters/2 {
		return nil, &RecoveryRefusedError{fmt.Sprintf("%d of %d votes are not lost: start those nodes instead", left, voters)}
	}
	var id [16]byte
	if _, err := rand.Read(id[:]); err != nil {
		return nil, fmt.Errorf("draw a cluster id: %w", err)
	}
	next := data.id
	next.Shunned = gone
	err = errors.Join(data.store(next), raftstore.Recover(dir, cfg.Node, addr, hex.EncodeToString(id[:])))
	if err == nil {
		err = data.setMembers(nil)
	}
	if err != nil {
		return nil, fmt.Errorf("recover without %s: %w", strings.Join(gone, ", "), err)
	}
	return gone, nil
}

// shuns says whether this node's cluster was recovered without another node, which has not been let in anew since. If that node
// came back on its old disk, with the others that were given up it might make a majority of the cluster that was.
func (n *Node) shuns(name string) bool {
	if !slices.Contains(n.shunned, name) {
		return false
	}
	members, err := n.Members()
	return err == nil && !slices.ContainsFunc(members, func(m Member) bool { return m.Name == name })
}

// shunnedBy ends a node that was given up.
func (n *Node) shunnedBy(other string) error {
	return &UnwelcomeError{fmt.Sprintf("the cluster of %s was recovered without %s (warren recover), which was taken to be lost: what it "+
		"has is not heard any more. Move its data directory %s away and start it empty to let it join", other, n.cfg.Node, n.cfg.DataDir)}
}
