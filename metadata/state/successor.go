package state

import (
	"slices"

	"warren/metadata/placement"
)

// Successor is who would be named master of the queue if its master's node went down now, for that reason: what NodesDown
// would decide. loss: not synchronised, so messages would be lost. ok is false if nobody would be, and the queue would be down.
func (q *Queue) Successor(reason Reason) (node string, loss, ok bool) {
	up := slices.DeleteFunc(slices.Clone(q.byAge(MemberUp)), func(m Member) bool { return m.Node == q.Master })
	return placement.Promote(candidates(up), q.always(reason))
}
