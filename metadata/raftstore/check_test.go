package raftstore

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// writtenLog is a log file that a node left behind, with many entries.
func writtenLog(t *testing.T) []byte {
	t.Helper()
	c := newCluster(t, "a").start("a")
	for i := range 300 {
		c.propose("a", vhost(i))
	}
	c.kill("a")
	b, err := os.ReadFile(filepath.Join(c.nodes["a"].dir, "raft.db"))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestDamagedLog damages the log at many places: the file is refused with one error, or still says what it said; nothing panics.
func TestDamagedLog(t *testing.T) {
	whole := writtenLog(t)
	path := filepath.Join(t.TempDir(), "raft.db")
	check := func(b []byte) error {
		t.Helper()
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		return checkFile(path)
	}
	if err := check(whole); err != nil {
		t.Fatalf("an undamaged file: %v", err)
	}
	damaged := 0
	for at := 0; at < len(whole); at += 512 {
		b := append([]byte(nil), whole...)
		for i := range 32 {
			b[at+i] ^= 0xa5
		}
		if check(b) != nil {
			damaged++
		}
	}
	if damaged < 3 {
		t.Errorf("of %d damaged files %d were refused", len(whole)/512, damaged)
	}
	for size := 16384 + 4096; size < len(whole)/2; size += 16384 {
		if err := check(whole[:size]); !errors.Is(err, errDamaged) {
			t.Errorf("cut to %d of %d bytes: %v", size, len(whole), err)
		}
	}
	if err := check([]byte("no database")); err == nil {
		t.Error("a short text was taken for a log")
	}
}
