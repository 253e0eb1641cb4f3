package proc

import (
	"os"
	"testing"
	"time"
)

func TestWatchSeesWorkAndMemory(t *testing.T) {
	w, err := Watch([]int{os.Getpid()})
	if err != nil {
		t.Fatal(err)
	}
	before := Self()
	for x := 1; Self()-before < 60*time.Millisecond; x++ {
		_ = x * x
	}
	u, err := w.Stop()
	if err != nil {
		t.Fatal(err)
	}
	if u.Total() < 40*time.Millisecond || u.Total() > 5*time.Second {
		t.Errorf("CPU %v for 60 ms of work", u.Total())
	}
	if u.SumPeak < 1<<20 || u.SumPeak != u.PeakRSS[0] {
		t.Errorf("memory %d, %v", u.SumPeak, u.PeakRSS)
	}
}

func TestGoneProcessIsAnError(t *testing.T) {
	if _, err := Watch([]int{1 << 22}); err == nil {
		t.Error("a process that does not exist can be watched")
	}
}
