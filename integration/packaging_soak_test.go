//go:build soak

package integration

import (
	"bytes"
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"warren/integration/cluster"
)

// copyOfSources copies the sources into a new directory.
func copyOfSources(t *testing.T) string {
	t.Helper()
	to := t.TempDir()
	for _, name := range sources(t) {
		content, err := os.ReadFile(filepath.Join("..", name))
		if err == nil {
			err = os.MkdirAll(filepath.Join(to, filepath.Dir(name)), 0o755)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(to, name), content, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return to
}

// containerBuild is what the container file runs to build, with other places for its source and its output.
func containerBuild(t *testing.T, src, out string) string {
	t.Helper()
	file, err := os.ReadFile(filepath.Join("..", "packaging", "Containerfile"))
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^RUN ((?:.*\\\n)*.*)$`).FindSubmatch(file)
	if m == nil {
		t.Fatal("the container file runs nothing")
	}
	return fmt.Sprintf("cd %s && ", src) + strings.ReplaceAll(string(m[1]), "/out", out)
}

// TestContainerBuild does what the container file does, in two places: the binaries are the same byte by byte, static, know their
// version, and the tools' links are there.
func TestContainerBuild(t *testing.T) {
	var first []byte
	for range 2 {
		out := filepath.Join(t.TempDir(), "out")
		if err := os.Mkdir(out, 0o755); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("sh", "-c", containerBuild(t, copyOfSources(t), out))
		cmd.Env = append(os.Environ(), "VERSION=9.8.7-test", "GOFLAGS=")
		if text, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		binary := filepath.Join(out, "warren")
		content, err := os.ReadFile(binary)
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = content
		} else if !bytes.Equal(first, content) {
			t.Error("two builds in two directories differ")
		}
		static(t, binary)
		if text, err := exec.Command(filepath.Join(out, "rabbitmqctl"), "version").CombinedOutput(); err != nil || !strings.Contains(string(text), "9.8.7-test") {
			t.Errorf("version: %v\n%s", err, text)
		}
	}
}

// static checks that a binary needs no other file: neither an interpreter nor a library.
func static(t *testing.T, binary string) {
	t.Helper()
	f, err := elf.Open(binary)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
			t.Errorf("%s has a segment %v", binary, p.Type)
		}
	}
}

// TestUnit starts what the unit starts, as it stands but for the places, and ends it as systemd does. Where systemd is there, it is
// asked whether the unit is right.
func TestUnit(t *testing.T) {
	c := cluster.Prepare(t, 1)
	unit, err := os.ReadFile(filepath.Join("..", "packaging", "warren.service"))
	if err != nil {
		t.Fatal(err)
	}
	conf := filepath.Join(c.Dir, "warren.conf")
	internode := freeAddress(t)
	text := fmt.Sprintf("listeners.tcp.1 = %s\nwarren.internode.listen = %s\nwarren.internode.address = %s\n", freeAddress(t), internode, internode)
	for file, content := range map[string]string{conf: text, c.CookieFile(): "the cookie of this test"} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	here := strings.NewReplacer("/usr/local/bin/warren", cluster.Binary(t), "/var/lib/warren/data", filepath.Join(c.Dir, "data"),
		"/etc/warren/warren.conf", conf, "/etc/warren/cookie", c.CookieFile()).Replace(string(unit))
	start := regexp.MustCompile(`(?m)^ExecStart=(.*)$`).FindStringSubmatch(here)
	if start == nil {
		t.Fatal("the unit starts nothing")
	}
	cmd := c.Shell("exec " + start[1] + " --node rabbit@unit.example")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer endProcess(t, cmd) // exit status 0, or Restart=on-failure would start it again
	cluster.Eventually(t, hang, "the unit's node is up", func() bool {
		return c.Shell("bin/rabbitmqctl -n rabbit@unit.example await_startup -t 5").Run() == nil
	})
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Log("systemd-analyze is not there; the unit is not verified")
		return
	}
	file := filepath.Join(t.TempDir(), "warren.service")
	if err := os.WriteFile(file, []byte(here), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(analyze, "verify", file).CombinedOutput(); err != nil || len(bytes.TrimSpace(out)) > 0 {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}
