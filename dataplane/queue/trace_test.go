package queue_test

import (
	"fmt"
	"os"
	"strconv"
	"testing"
)

func TestTrace(t *testing.T) {
	seed, err := strconv.Atoi(os.Getenv("SIMSEED"))
	if err != nil {
		t.Skip()
	}
	s := newSim(t, uint64(seed))
	s.trace = func(f string, a ...any) { fmt.Printf(f+"\n", a...) }
	for range 100 + s.r.IntN(500) {
		s.step()
	}
	s.rest()
}
