package proc

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// ticksPerSecond is USER_HZ, which Linux fixes at 100 for /proc.
const ticksPerSecond = 100

// CPU is the CPU time, user and system, that a process has used, in steps of 10 ms. Error: the process is gone.
func CPU(pid int) (time.Duration, error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, fmt.Errorf("read the CPU time of process %d: %w", pid, err)
	}
	end := bytes.LastIndexByte(b, ')') // the name before it may hold anything
	fields := bytes.Fields(b[end+1:])
	if end < 0 || len(fields) < 13 {
		return 0, fmt.Errorf("read the CPU time of process %d: %q", pid, b)
	}
	var ticks uint64
	for _, f := range fields[11:13] {
		n, err := strconv.ParseUint(string(f), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read the CPU time of process %d: %w", pid, err)
		}
		ticks += n
	}
	return time.Duration(ticks) * time.Second / ticksPerSecond, nil
}

// RSS is a process' resident memory in bytes. Error: the process is gone.
func RSS(pid int) (uint64, error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/statm")
	if err != nil {
		return 0, fmt.Errorf("read the memory of process %d: %w", pid, err)
	}
	fields := bytes.Fields(b)
	if len(fields) < 2 {
		return 0, fmt.Errorf("read the memory of process %d: %q", pid, b)
	}
	pages, err := strconv.ParseUint(string(fields[1]), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read the memory of process %d: %w", pid, err)
	}
	return pages * uint64(os.Getpagesize()), nil
}

// Self is the CPU time of this process, exactly.
func Self() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0 // getrusage of oneself has no way to fail
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// Usage is what processes used while they were watched.
type Usage struct {
	CPU     []time.Duration // of each process, in the order of Watch
	PeakRSS []uint64        // bytes, each process' own peak among the samples
	SumPeak uint64          // bytes, the peak of all of them together
}

// Total is the CPU time of all.
func (u Usage) Total() time.Duration {
	var sum time.Duration
	for _, c := range u.CPU {
		sum += c
	}
	return sum
}

// Watcher samples processes until Stop.
type Watcher struct {
	pids   []int
	before []time.Duration
	stop   chan struct{}
	done   sync.WaitGroup
	usage  Usage
}

// sampleEvery is how often memory is looked at.
const sampleEvery = 200 * time.Millisecond

// Watch begins to watch. Error: a process is gone.
func Watch(pids []int) (*Watcher, error) {
	w := &Watcher{pids: pids, stop: make(chan struct{}), usage: Usage{PeakRSS: make([]uint64, len(pids))}}
	for _, pid := range pids {
		c, err := CPU(pid)
		if err != nil {
			return nil, err
		}
		w.before = append(w.before, c)
	}
	w.sample()
	w.done.Go(func() {
		tick := time.NewTicker(sampleEvery)
		defer tick.Stop()
		for {
			select {
			case <-w.stop:
				return
			case <-tick.C:
				w.sample()
			}
		}
	})
	return w, nil
}

func (w *Watcher) sample() {
	var sum uint64
	for i, pid := range w.pids {
		if m, err := RSS(pid); err == nil { // one that has just died shows at Stop
			w.usage.PeakRSS[i] = max(w.usage.PeakRSS[i], m)
			sum += m
		}
	}
	w.usage.SumPeak = max(w.usage.SumPeak, sum)
}

// Stop ends the watch and gives what was used in between. Error: a process is gone, so that its CPU time is not known.
func (w *Watcher) Stop() (Usage, error) {
	close(w.stop)
	w.done.Wait()
	w.sample()
	for i, pid := range w.pids {
		c, err := CPU(pid)
		if err != nil {
			return w.usage, err
		}
		w.usage.CPU = append(w.usage.CPU, c-w.before[i])
	}
	return w.usage, nil
}
