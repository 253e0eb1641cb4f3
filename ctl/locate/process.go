package locate

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// Process names one process: numbers are used again, the pair with the start time is not. Start is in clock ticks since the
// machine's boot, 0 where the system does not tell it; then only the number counts.
type Process struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start,omitempty"`
}

// Self is the process that asks.
func Self() Process {
	pid := os.Getpid()
	start, _, _ := stat(pid)
	return Process{PID: pid, Start: start}
}

// ProcessOf names the process that has the number now. Error: there is none.
func ProcessOf(pid int) (Process, error) {
	start, _, err := stat(pid)
	if err != nil && !exists(pid) {
		return Process{}, fmt.Errorf("process %d: %w", pid, os.ErrProcessDone)
	}
	return Process{PID: pid, Start: start}, nil
}

// Alive says whether the process runs (stopped counts as running; one that ended and is not yet waited for does not).
func (p Process) Alive() bool {
	if p.PID <= 0 || !exists(p.PID) {
		return false
	}
	start, state, err := stat(p.PID)
	if err != nil { // no /proc: the number is all there is
		return !errors.Is(err, os.ErrNotExist) || !hasProc()
	}
	ended := state == 'X' || state == 'Z' && threads(p.PID) <= 1
	return !ended && (p.Start == 0 || p.Start == start)
}

// threads counts a process's threads. While a killed process still has others than its first, which is a zombie by then, its
// files are open and its ports taken.
func threads(pid int) int {
	tasks, err := os.ReadDir("/proc/" + strconv.Itoa(pid) + "/task")
	if err != nil {
		return 0
	}
	return len(tasks)
}

// Signal sends a signal to this process, and never to a later one with the same number. Error: os.ErrProcessDone.
func (p Process) Signal(sig syscall.Signal) error {
	if !p.Alive() {
		return fmt.Errorf("signal process %d: %w", p.PID, os.ErrProcessDone)
	}
	if err := syscall.Kill(p.PID, sig); err != nil {
		if errors.Is(err, syscall.ESRCH) {
			err = os.ErrProcessDone
		}
		return fmt.Errorf("signal process %d: %w", p.PID, err)
	}
	return nil
}

func exists(pid int) bool {
	err := syscall.Kill(pid, 0)
	return err == nil || errors.Is(err, syscall.EPERM)
}

func hasProc() bool {
	_, err := os.Stat("/proc/self/stat")
	return err == nil
}

// stat reads a process's start time and state (proc(5), fields 22 and 3).
func stat(pid int) (start uint64, state byte, err error) {
	content, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, 0, err
	}
	end := bytes.LastIndexByte(content, ')') // the command's name may hold spaces and brackets
	fields := strings.Fields(string(content[end+1:]))
	const stateField, startField = 0, 19
	if end < 0 || len(fields) <= startField {
		return 0, 0, fmt.Errorf("process %d: /proc has an unknown form", pid)
	}
	start, err = strconv.ParseUint(fields[startField], 10, 64)
	if err != nil {
		return 0, 0, fmt.Errorf("process %d: start time: %w", pid, err)
	}
	return start, fields[stateField][0], nil
}
