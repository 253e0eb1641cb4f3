// Package gm is the pure core of the guaranteed multicast on a ring (design/gm.md): agreement, sender order, causal order
// and stability for the members of one mirrored queue, in views that the metadata Raft group decides.
package gm
