package gmtest

import (
	"bytes"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestSimulation plays SEEDS random histories (default 2500), or the one named by SEED. A failing seed prints its trace, which
// SEED=n repeats.
func TestSimulation(t *testing.T) {
	if s := os.Getenv("SEED"); s != "" {
		seed, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		explain(t, seed)
		return
	}
	seeds := uint64(2500)
	if s := os.Getenv("SEEDS"); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		seeds = n
	} else if testing.Short() {
		seeds = 300
	}
	var mu sync.Mutex
	var next, steps, messages atomic.Uint64
	var total Coverage
	var wg sync.WaitGroup
	begin := time.Now()
	for range runtime.GOMAXPROCS(0) {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for seed := next.Add(1); seed <= seeds && !t.Failed(); seed = next.Add(1) {
				res, err := Run(seed, Options{})
				steps.Add(uint64(res.Steps))
				messages.Add(uint64(res.Messages))
				mu.Lock()
				total.Add(res.Covered)
				if err != nil && !t.Failed() {
					t.Errorf("seed %d: %v", seed, err)
					explain(t, seed)
				}
				mu.Unlock()
			}
		}()
	}
	wg.Wait()
	t.Logf("%d seeds, %d steps, %d messages, %v\n%+v", seeds, steps.Load(), messages.Load(), time.Since(begin).Round(time.Millisecond), total)
	if seeds >= 2000 && !t.Failed() {
		total.Overflow = 1 // TestNarrowAside is about that
		for i, n := range total.fields() {
			if *n == 0 {
				t.Errorf("situation %d never came up: %+v", i, total)
			}
		}
	}
}

// explain replays a seed and prints the end of its trace.
func explain(t *testing.T, seed uint64) {
	var b bytes.Buffer
	_, err := Run(seed, Options{Trace: &b})
	lines := bytes.Split(bytes.TrimSpace(b.Bytes()), []byte("\n"))
	if cut := len(lines) - 400; cut > 0 && os.Getenv("FULL") == "" {
		lines = lines[cut:]
	}
	t.Logf("SEED=%d: %v\n%s", seed, err, bytes.Join(lines, []byte("\n")))
	if err != nil {
		t.Fail()
	}
}

// TestNarrowAside: members that cannot keep the frames of views to come give the link up (R5), and still everything comes to
// rest with nothing lost.
func TestNarrowAside(t *testing.T) {
	var total Coverage
	for seed := uint64(1); seed <= 300; seed++ {
		res, err := Run(seed, Options{KeepAside: 500})
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		total.Add(res.Covered)
	}
	if total.Overflow == 0 {
		t.Errorf("no link was given up: %+v", total)
	}
	t.Logf("%d links given up", total.Overflow)
}
