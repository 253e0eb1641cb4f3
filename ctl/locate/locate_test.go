package locate

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func TestNodeName(t *testing.T) {
	host := func() (string, error) { return "box", nil }
	for typed, want := range map[string]string{
		"rabbit": "rabbit@box", "rabbit@": "rabbit@box", "a@b": "a@b", "a-1_x@h.example.com": "a-1_x@h.example.com", "a@127.0.0.1": "a@127.0.0.1",
		"": "", "@h": "", "a b@h": "", "a/b": "", "a@h@i": "", "../x@h": "", "a@h/../x": "",
	} {
		got, err := NodeName(typed, host)
		if got != want {
			t.Errorf("NodeName(%q) = %q, %v; want %q", typed, got, err, want)
		}
		var bad *NodeNameError
		if want == "" && !errors.As(err, &bad) {
			t.Errorf("NodeName(%q): error %v", typed, err)
		}
	}
}

func TestProcess(t *testing.T) {
	self := Self()
	if !self.Alive() {
		t.Error("this process is not alive")
	}
	later := Process{PID: self.PID, Start: self.Start + 1}
	if later.Alive() {
		t.Error("a process of another start time is alive")
	}
	if err := later.Signal(syscall.SIGKILL); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("signal: %v", err)
	}
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p, err := ProcessOf(cmd.Process.Pid)
	if err != nil || !p.Alive() {
		t.Fatalf("%v, %v", p, err)
	}
	if err := p.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if p.Alive() {
		t.Error("a killed process is alive")
	}
	if _, err := ProcessOf(p.PID); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("ProcessOf: %v", err)
	}
}

// A process that ended but was not waited for has ended.
func TestZombieIsNotAlive(t *testing.T) {
	cmd := exec.Command("true")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p, err := ProcessOf(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Waitid(unix.P_PID, p.PID, nil, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
		t.Fatal(err)
	}
	if p.Alive() {
		t.Error("still alive")
	}
	_ = cmd.Wait()
}

func TestRegistry(t *testing.T) {
	r := NewRegistry(filepath.Join(t.TempDir(), "warren"))
	if _, err := r.Find("a@h"); !errors.Is(err, ErrNotRegistered) {
		t.Fatalf("empty: %v", err)
	}
	e := Entry{Node: "a@h", Address: "127.0.0.1:25673", DataDir: "/data", CookieFile: "/data/.cookie", Process: Self()}
	unregister, err := r.Register(e)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := r.Find("a@h"); err != nil || got != e {
		t.Errorf("%+v, %v", got, err)
	}
	if all := r.List(); len(all) != 1 || all[0] != e {
		t.Errorf("list: %+v", all)
	}
	info, err := os.Stat(r.file("a@h"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("file: %v, %v", info.Mode(), err)
	}
	if err := unregister(); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Find("a@h"); !errors.Is(err, ErrNotRegistered) {
		t.Errorf("after unregister: %v", err)
	}
}

func TestRegistryStaleAndTaken(t *testing.T) {
	r := NewRegistry(filepath.Join(t.TempDir(), "warren"))
	dead := Entry{Node: "a@h", Process: Process{PID: os.Getpid(), Start: 1}}
	unregisterDead, err := r.Register(dead)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Find("a@h"); !errors.Is(err, ErrNotRegistered) {
		t.Errorf("stale: %v", err)
	}
	if _, err := os.Stat(r.file("a@h")); err != nil {
		t.Errorf("who looks removed an entry, which might have been a new one by then: %v", err)
	}
	if _, err := r.Register(Entry{Node: "a@h", Process: Self()}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Register(Entry{Node: "a@h", Process: Process{PID: 1}}); err == nil {
		t.Error("a running node's name was taken")
	}
	if err := unregisterDead(); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Find("a@h"); err != nil {
		t.Errorf("another process's entry was removed: %v", err)
	}
}

func TestRegistryOfOthersIsRefused(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "warren")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	r := NewRegistry(dir)
	if _, err := r.Find("a@h"); err == nil || errors.Is(err, ErrNotRegistered) {
		t.Errorf("find: %v", err)
	}
	if _, err := r.Register(Entry{Node: "a@h", Process: Self()}); err == nil || !strings.Contains(err.Error(), "0700") {
		t.Errorf("register: %v", err)
	}
}

func TestUserRegistry(t *testing.T) {
	dir := t.TempDir()
	runtime := func(value string) Registry {
		return UserRegistry(func(key string) string { return map[string]string{"XDG_RUNTIME_DIR": value}[key] })
	}
	if r := runtime(dir); r.Dir() != filepath.Join(dir, "warren") {
		t.Error(r.Dir())
	}
	gone := filepath.Join(dir, "gone")
	if r := runtime(gone); strings.HasPrefix(r.Dir(), gone) {
		t.Error(r.Dir())
	}
}

func TestEnsureCookie(t *testing.T) {
	file := filepath.Join(t.TempDir(), "data", CookieName)
	if _, err := ReadCookie(file); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("none yet: %v", err)
	}
	const starters = 8
	cookies := make([]string, starters)
	var wg sync.WaitGroup
	for i := range starters {
		wg.Go(func() {
			cookie, err := EnsureCookie(file)
			if err != nil {
				t.Error(err)
			}
			cookies[i] = string(cookie)
		})
	}
	wg.Wait()
	for _, c := range cookies {
		if c != cookies[0] || len(c) != 64 {
			t.Errorf("cookies %q", cookies)
		}
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o400 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if files, _ := os.ReadDir(filepath.Dir(file)); len(files) != 1 {
		t.Errorf("left behind: %v", files)
	}
}

func TestCookieRefused(t *testing.T) {
	dir := t.TempDir()
	for name, tc := range map[string]struct {
		content string
		mode    os.FileMode
		want    string
	}{
		"open":  {"secret", 0o644, "chmod 400"},
		"empty": {" \n", 0o400, "is empty"},
		"short": {"1234567\n", 0o400, "at least 8"},
		"large": {strings.Repeat("x", maxCookie+1), 0o400, "the limit is"},
	} {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(tc.content), tc.mode); err != nil {
			t.Fatal(err)
		}
		for _, read := range []func(string) ([]byte, error){ReadCookie, EnsureCookie} {
			var e *CookieError
			if _, err := read(file); !errors.As(err, &e) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}
