package raftstore

import (
	"io"
	"time"

	"github.com/hashicorp/raft"
)

// reachEvery is how often a leader tries to reach a member that does not answer.
const reachEvery = 50 * time.Millisecond

// AppendEntries implements raft.Transport. Raft itself doubles the pause after each failure, up to ten seconds: a node that was
// away for a while would be back for as long again before the leader speaks to it. So a failure is not told to Raft while this
// node leads and the member belongs to the cluster; it is tried again at a fixed pace instead. Heartbeats have a pace of their own.
func (t *transport) AppendEntries(id raft.ServerID, to raft.ServerAddress, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	try := func() error { return t.NetworkTransport.AppendEntries(id, to, args, resp) }
	if len(args.Entries) == 0 && args.PrevLogEntry == 0 && args.LeaderCommitIndex == 0 {
		return try()
	}
	return insist(try, func() bool { return t.leads(args.Term, id) })
}

// InstallSnapshot implements raft.Transport. What is read from data is gone, so it is begun only once the member answers.
func (t *transport) InstallSnapshot(id raft.ServerID, to raft.ServerAddress, args *raft.InstallSnapshotRequest, resp *raft.InstallSnapshotResponse, data io.Reader) error {
	err := insist(func() error {
		hello := raft.AppendEntriesRequest{RPCHeader: args.RPCHeader, Term: args.Term}
		return t.NetworkTransport.AppendEntries(id, to, &hello, &raft.AppendEntriesResponse{})
	}, func() bool { return t.leads(args.Term, id) })
	if err != nil {
		return err
	}
	return t.NetworkTransport.InstallSnapshot(id, to, args, resp, data)
}

// insist tries until it succeeds or nobody wants it any more, and gives the last error then.
func insist(try func() error, wanted func() bool) error {
	for {
		err := try()
		if err == nil || !wanted() {
			return err
		}
		time.Sleep(reachEvery)
		if !wanted() {
			return err
		}
	}
}

// leads tells whether this node leads that term, of a cluster that a member belongs to.
func (t *transport) leads(term uint64, id raft.ServerID) bool {
	r := t.raft.Load()
	if r == nil || r.State() != raft.Leader || r.CurrentTerm() != term {
		return false
	}
	for _, s := range r.GetConfiguration().Configuration().Servers {
		if s.ID == id {
			return true
		}
	}
	return false
}
