// Package journal measures github.com/hashicorp/raft-wal against Warren's own journal; 0001-journal.md has the figures and
// what was decided. It is a module of its own, so that Warren does not depend on raft-wal.
//
//	go test -run '^$' -bench . -benchtime 1s -count 6
package journal
