package raftstore

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A member that comes back after a long time is reached within reachEvery, not after a pause as long as it was away; and what
// waits for it ends when this node does not lead any more.
func TestInsist(t *testing.T) {
	away := errors.New("away")
	synctest.Test(t, func(t *testing.T) {
		for _, gone := range []time.Duration{0, time.Second, 10 * time.Minute} {
			began := time.Now()
			err := insist(func() error {
				if time.Since(began) < gone {
					return away
				}
				return nil
			}, func() bool { return true })
			if late := time.Since(began) - gone; err != nil || late > reachEvery {
				t.Errorf("away for %v: reached %v later, %v", gone, late, err)
			}
		}
		began := time.Now()
		err := insist(func() error { return away }, func() bool { return time.Since(began) < time.Second })
		if !errors.Is(err, away) || time.Since(began) > time.Second+reachEvery {
			t.Errorf("a leader that is none any more gives up after %v: %v", time.Since(began), err)
		}
	})
}
