//go:build soak

package integration

import (
	"testing"

	"warren/integration/cluster"
)

// B47: the mirror of TestMirrorIsSuspended, which is kept out for five seconds, is then synchronised again.
func TestSuspendedMirrorComesBack(t *testing.T) {
	suspendMirror(t, func(c *cluster.Cluster, leader int, s *stream) {
		awaitCopiesAt(t, c, leader, "orders", "the mirror is back", inSync(2))
		s.count(t, 200)
	})
}
