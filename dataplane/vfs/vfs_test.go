package vfs

import (
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"testing"

	"golang.org/x/sys/unix"
)

// TestFS: both file systems do the same.
func TestFS(t *testing.T) {
	for name, c := range map[string]struct {
		fs  FS
		dir string
	}{"os": {OS{}, t.TempDir()}, "mem": {NewMem(), "tmp"}} {
		t.Run(name, func(t *testing.T) { testFS(t, c.fs, c.dir+"/a/b") })
	}
}

func testFS(t *testing.T, fsys FS, dir string) {
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(fsys.MkdirAll(dir))
	f, err := fsys.Create(dir + "/f")
	must(err)
	if _, err := fsys.Create(dir + "/f"); !errors.Is(err, fs.ErrExist) {
		t.Errorf("create twice: %v", err)
	}
	if _, err := fsys.Open(dir + "/g"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("open what is not there: %v", err)
	}
	if n, err := f.WriteAt([]byte("hello"), 3); n != 5 || err != nil {
		t.Errorf("write: %d %v", n, err)
	}
	must(f.Sync())
	b := make([]byte, 9)
	if n, err := f.ReadAt(b, 1); n != 7 || !errors.Is(err, io.EOF) || string(b[:n]) != "\x00\x00hello" {
		t.Errorf("read: %d %v %q", n, err, b[:n])
	}
	must(f.Truncate(5))
	if n, err := f.Size(); n != 5 || err != nil {
		t.Errorf("size: %d %v", n, err)
	}
	must(f.Close())
	if _, err := f.WriteAt([]byte("x"), 0); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("write after close: %v", err)
	}
	must(fsys.Rename(dir+"/f", dir+"/h"))
	must(WriteFile(fsys, dir+"/i", []byte("content")))
	must(fsys.SyncDir(dir))
	if b, err := ReadFile(fsys, dir+"/h"); err != nil || string(b) != "\x00\x00\x00he" {
		t.Errorf("read file: %q %v", b, err)
	}
	if names, err := fsys.ReadDir(dir); err != nil || len(names) != 2 || names[0] != "h" || names[1] != "i" {
		t.Errorf("names: %v %v", names, err)
	}
	if err := fsys.Remove(dir); err == nil {
		t.Error("a directory that is not empty was removed")
	}
	must(fsys.Remove(dir + "/h"))
	l, err := fsys.Lock(dir + "/lock")
	must(err)
	if _, err := fsys.Lock(dir + "/lock"); !errors.Is(err, ErrLocked) {
		t.Errorf("second lock: %v", err)
	}
	must(l.Close())
	l, err = fsys.Lock(dir + "/lock")
	must(err)
	must(l.Close())
	if s, err := fsys.Space(dir); err != nil || s.Free == 0 || s.Total < s.Free {
		t.Errorf("space: %+v %v", s, err)
	}
	must(fsys.RemoveAll(dir))
	must(fsys.RemoveAll(dir))
	if _, err := fsys.ReadDir(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("names of a removed directory: %v", err)
	}
}

// TestCrash: what was synced is there after every crash, what was not is there in every kind of part.
func TestCrash(t *testing.T) {
	seen := map[string]bool{}
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 1))
		m := NewMem()
		_ = m.MkdirAll("d")
		f, _ := m.Create("d/f")
		_, _ = f.WriteAt([]byte("synced"), 0)
		_ = f.Sync()
		_ = m.SyncDir("")
		_ = m.SyncDir("d")
		_, _ = f.WriteAt([]byte("-one"), 6)
		_, _ = f.WriteAt([]byte("-two"), 10)
		_, _ = m.Create("d/new")
		m.Crash(r)
		b, err := ReadFile(m, "d/f")
		if err != nil || len(b) < 6 || string(b[:6]) != "synced" {
			t.Fatalf("seed %d: %q %v", seed, b, err)
		}
		seen[string(b)] = true
		_, err = m.Open("d/new")
		seen["new: "+map[bool]string{true: "there", false: "gone"}[err == nil]] = true
		if _, err := f.WriteAt([]byte("x"), 0); err == nil {
			t.Fatal("a file opened before the crash can be written")
		}
	}
	for _, want := range []string{"synced", "synced-one", "synced-one-two", "synced-o", "synced-one-t", "new: there", "new: gone"} {
		if !seen[want] {
			t.Errorf("no crash left %q", want)
		}
	}
}

func TestFaults(t *testing.T) {
	m := NewMem()
	f, _ := m.Create("f")
	boom := errors.New("boom")
	m.Fault(func(op Op) error {
		if op.Kind == OpWrite && op.Path == "f" && op.Off == 0 {
			return boom
		}
		return nil
	})
	if n, err := f.WriteAt([]byte("abcd"), 0); n != 2 || !errors.Is(err, boom) {
		t.Errorf("short write: %d %v", n, err)
	}
	m.Fault(func(op Op) error {
		if op.Kind == OpSync {
			return boom
		}
		return nil
	})
	if err := f.Sync(); !errors.Is(err, boom) {
		t.Errorf("failed sync: %v", err)
	}
	m.Fault(nil)
	_ = f.Sync()
	_ = m.SyncDir("")
	m.Crash(rand.New(rand.NewPCG(1, 1)))
	if b, _ := ReadFile(m, "f"); len(b) != 0 {
		t.Errorf("a second sync made durable what the failed one lost: %q", b)
	}
	_ = m.Remove("f")
	m.Limit(10)
	f, _ = m.Create("g")
	if n, err := f.WriteAt(make([]byte, 16), 0); n != 10 || !errors.Is(err, unix.ENOSPC) {
		t.Errorf("full disk: %d %v", n, err)
	}
	if s, _ := m.Space(""); s.Free != 0 {
		t.Errorf("space of a full disk: %+v", s)
	}
	_ = f.Sync()
	if err := m.FlipBit("g", 3, 1); err != nil {
		t.Error(err)
	}
	if b, _ := ReadFile(m, "g"); b[3] != 2 {
		t.Errorf("bit not flipped: %v", b)
	}
	if m.Count(OpSync) != 3 {
		t.Errorf("%d syncs counted", m.Count(OpSync))
	}
}
