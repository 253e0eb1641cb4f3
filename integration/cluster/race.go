//go:build race

package cluster

// raceFlags build the nodes with the race detector too when the tests are built with it.
var raceFlags = []string{"-race"}

const cgo = "CGO_ENABLED=1"
