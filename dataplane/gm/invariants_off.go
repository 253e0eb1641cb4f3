//go:build !warren_invariants && !race

package gm

func (g *Group) check() {}
