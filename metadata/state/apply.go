package state

import (
	"fmt"
	"slices"
)

// Limits of the table of applied requests. A proposer keeps fewer than maxRemembered proposals in flight, so that the
// results it may still ask for are never pushed out.
const (
	maxSessions   = 64
	maxRemembered = 1024
)

// session are the results of one proposing process that it may still ask for.
type session struct {
	ID    uint64   `msgpack:"i"`
	Used  uint64   `msgpack:"u"` // index of its newest command
	Floor uint64   `msgpack:"f"` // results up to here are forgotten
	Done  []answer `msgpack:"d"` // ascending Seq
}

type answer struct {
	Seq    uint64 `msgpack:"q"`
	Result Result `msgpack:"r"`
}

// Apply executes the command that Raft committed at index. The result and the changes are the same on every node. A refusal
// (Result.Err) is a normal result and changes nothing. It panics on a command that this version cannot read, because going on
// would make replicas differ; one that carries the skip bit is passed over.
func (s *State) Apply(index uint64, data []byte) (Result, []Change) {
	cmd, req, skip, err := Decode(data)
	if err != nil {
		panic(fmt.Sprintf("metadata entry %d: %v; this node is too old for the cluster, or its log is damaged", index, err))
	}
	s.index = index
	s.changes, s.touched = nil, nil
	if skip {
		return Result{Index: index}, nil
	}
	if r, ok := s.repeated(req); ok {
		return r, nil
	}
	r := s.execute(index, cmd)
	r.Index = index
	s.remember(req, r)
	changes := s.changes
	s.changes, s.touched = nil, nil
	return r, changes
}

func (s *State) execute(index uint64, cmd Command) Result {
	switch c := cmd.(type) {
	case *InitCluster:
		return s.initCluster(index, c)
	case *NodeUp:
		return s.nodeUp(index, c)
	case *NodesDown:
		return s.nodesDown(index, c)
	case *MirrorReady:
		return s.mirrorReady(index, c)
	case *MirrorSynchronised:
		return s.mirrorSynchronised(index, c)
	case *MirrorUnsynchronised:
		return s.mirrorUnsynchronised(index, c)
	case *RecoverQueue:
		return s.recoverQueue(index, c)
	case *MasterActing:
		return s.masterActing(c)
	case *TransferMaster:
		return s.transferMaster(index, c)
	case *KeepMaster:
		return s.keepMaster(c)
	case *DropMirror:
		return s.dropMirror(index, c)
	case *ReplaceMirror:
		return s.replaceMirror(index, c)
	case *PromoteMirror:
		return s.promoteMirror(index, c)
	case *DeclareQueue:
		return s.declareQueue(index, c)
	case *DeleteQueue:
		return s.deleteQueue(c)
	case *SetHadConsumers:
		return s.setHadConsumers(c)
	case *SetPolicy:
		return s.setPolicy(index, c)
	case *ClearPolicy:
		return s.clearPolicy(index, c)
	case *SetDraining:
		return s.setDraining(index, c)
	case *ForgetNode:
		return s.forgetNode(index, c)
	case *EnableFeature:
		return s.enableFeature(c)
	}
	return s.executeTopology(index, cmd)
}

func (s *State) executeTopology(index uint64, cmd Command) Result {
	switch c := cmd.(type) {
	case *DeclareExchange:
		return s.declareExchange(index, c)
	case *DeleteExchange:
		return s.deleteExchange(c)
	case *Bind:
		return s.bind(c)
	case *Unbind:
		return s.unbind(c)
	case *AddVhost:
		return s.addVhost(index, c)
	case *DeleteVhost:
		return s.deleteVhost(c)
	case *PutUser:
		return s.putUser(c)
	case *DeleteUser:
		return s.deleteUser(c)
	case *SetPermission:
		return s.setPermission(c)
	case *ClearPermission:
		return s.clearPermission(c)
	}
	if r, ok := s.executeOperator(index, cmd); ok {
		return r
	}
	panic(fmt.Sprintf("metadata entry %d: no case for %T", index, cmd))
}

// repeated is the result of a request that was applied before. ok is false for a new one.
func (s *State) repeated(req Request) (r Result, ok bool) {
	se, ok := s.sessions.get(req.Session)
	if !ok || req.Session == 0 {
		return Result{}, false
	}
	for _, a := range se.Done {
		if a.Seq == req.Seq {
			return a.Result, true
		}
	}
	if req.Seq <= se.Floor {
		return Result{Index: s.index, Err: &Error{Code: CodeForgotten, Kind: "proposal", Name: fmt.Sprint(req.Seq),
			Detail: "its outcome is no longer known"}}, true
	}
	return Result{}, false
}

// remember keeps the result of a command that changed something; one that was refused may as well be tried again.
func (s *State) remember(req Request, r Result) {
	if req.Session == 0 || r.Err != nil {
		return
	}
	se, ok := s.sessions.get(req.Session)
	if !ok {
		se = &session{ID: req.Session, Used: s.index}
		s.sessions.put(req.Session, se)
		s.evictSession()
	}
	se.Used = s.index
	i, _ := slices.BinarySearchFunc(se.Done, req.Seq, func(a answer, q uint64) int {
		switch {
		case a.Seq < q:
			return -1
		case a.Seq > q:
			return 1
		}
		return 0
	})
	se.Done = slices.Insert(se.Done, i, answer{req.Seq, r})
	if req.Lowest > 0 {
		se.Floor = max(se.Floor, req.Lowest-1)
	}
	if n := len(se.Done); n > maxRemembered {
		se.Floor = max(se.Floor, se.Done[n-maxRemembered-1].Seq)
	}
	cut := 0
	for cut < len(se.Done) && se.Done[cut].Seq <= se.Floor {
		cut++
	}
	se.Done = slices.Delete(se.Done, 0, cut)
}

// evictSession forgets the process that has proposed nothing for the longest time.
func (s *State) evictSession() {
	if len(s.sessions.keys) <= maxSessions {
		return
	}
	oldest := s.sessions.vals[0]
	for _, se := range s.sessions.vals {
		if se.Used < oldest.Used {
			oldest = se
		}
	}
	s.sessions.del(oldest.ID)
}

func stale(kind Kind, vhost, name, format string, args ...any) Result {
	return Result{Err: &Error{Code: CodeStale, Kind: kind, Vhost: vhost, Name: name, Detail: fmt.Sprintf(format, args...)}}
}

func refused(code Code, kind Kind, vhost, name string) Result {
	return Result{Err: &Error{Code: code, Kind: kind, Vhost: vhost, Name: name}}
}
