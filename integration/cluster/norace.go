//go:build !race

package cluster

var raceFlags []string

const cgo = "CGO_ENABLED=0"
