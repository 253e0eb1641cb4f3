package command

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"warren/ctl/locate"
)

// terminal runs warren itself, with an environment of its own.
func terminal(t *testing.T, environment map[string]string, server RunServer, argv ...string) result {
	t.Helper()
	var out, errOut bytes.Buffer
	env := Env{
		Stdout: &out, Stderr: &errOut,
		Getenv:   func(key string) string { return environment[key] },
		Hostname: func() (string, error) { return "box", nil },
		Dial:     func(context.Context, Target) (Client, error) { return nil, errors.New("no node") },
	}
	status := Main(t.Context(), append([]string{"warren"}, argv...), env, server)
	return result{out.String(), errOut.String(), status}
}

func TestServerSettings(t *testing.T) {
	dir := t.TempDir()
	conf := filepath.Join(dir, "rabbitmq.conf")
	if err := os.WriteFile(conf, []byte("heartbeat = 7\nlog.console.level = debug\nwarren.internode.listen = 0.0.0.0:4000\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	run := t.TempDir()
	var got ServerConfig
	var entry locate.Entry
	server := func(_ context.Context, s ServerConfig) error {
		got = s
		var err error
		entry, err = locate.NewRegistry(filepath.Join(run, "warren")).Find(s.Node)
		return err
	}
	environment := map[string]string{
		"XDG_RUNTIME_DIR": run, "RABBITMQ_NODENAME": "bunny", "RABBITMQ_MNESIA_BASE": filepath.Join(dir, "base"),
		"RABBITMQ_CONFIG_FILE": strings.TrimSuffix(conf, ".conf"),
	}
	terminal(t, environment, server, "server").want(t, exitOK, "", "")
	if got.Node != "bunny@box" || got.DataDir != filepath.Join(dir, "base", "bunny@box") || got.ConfigFile != conf || len(got.Cookie) < 32 {
		t.Errorf("from the environment: %+v", got)
	}
	if got.Config.Heartbeat.Seconds() != 7 || !got.Log.Enabled(t.Context(), slog.LevelDebug) || got.Version != Version {
		t.Errorf("from the configuration: %+v", got)
	}
	if entry.Address != "127.0.0.1:4000" || entry.CookieFile != filepath.Join(got.DataDir, locate.CookieName) {
		t.Errorf("registered: %+v", entry)
	}
	if _, err := locate.NewRegistry(filepath.Join(run, "warren")).Find("bunny@box"); !errors.Is(err, locate.ErrNotRegistered) {
		t.Errorf("after the end: %v", err)
	}
	terminal(t, environment, server, "server", "--node", "a@b", "--data", filepath.Join(dir, "d"), "--cookie-file", filepath.Join(dir, "c"),
		"--log-level", "error", "--log-format", "json").want(t, exitOK, "", "")
	if got.Node != "a@b" || got.DataDir != filepath.Join(dir, "d") || got.Log.Enabled(t.Context(), slog.LevelWarn) {
		t.Errorf("from flags: %+v", got)
	}
	if _, err := os.Stat(got.DataDir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the data directory was made for a cookie that is elsewhere: %v", err)
	}
}

// A node that its own list of peers does not have is told so when it starts, and so is who counts on advanced.config.
func TestServerIsNotListed(t *testing.T) {
	dir := t.TempDir()
	conf := filepath.Join(dir, "warren.conf")
	if err := os.WriteFile(conf, []byte("cluster_formation.classic_config.nodes.1 = a@box\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	environment := map[string]string{"XDG_RUNTIME_DIR": dir, "RABBITMQ_ADVANCED_CONFIG_FILE": "/etc/rabbitmq/advanced.config"}
	server := func(context.Context, ServerConfig) error { return nil }
	for node, warned := range map[string]bool{"a@box": false, "a@box.example": true} {
		r := terminal(t, environment, server, "server", "--data", filepath.Join(dir, "data"), "--config", conf, "--node", node)
		if got := strings.Contains(r.stderr, "not among cluster_formation.classic_config.nodes"); r.status != exitOK || got != warned {
			t.Errorf("%s: status %d, warned %v, want %v: %s", node, r.status, got, warned, r.stderr)
		}
		if !strings.Contains(r.stderr, "RABBITMQ_ADVANCED_CONFIG_FILE has no effect") {
			t.Errorf("nothing is said of advanced.config: %s", r.stderr)
		}
	}
}

func TestServerRefuses(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return file
	}
	bad := write("bad.conf", "heart = 1\nframe_max = x\n", 0o600)
	open := write("open-cookie", "12345678", 0o644)
	environment := map[string]string{"XDG_RUNTIME_DIR": dir}
	taken := locate.NewRegistry(filepath.Join(dir, "warren"))
	if _, err := taken.Register(locate.Entry{Node: "taken@box", Process: locate.Process{PID: os.Getppid()}}); err != nil {
		t.Fatal(err)
	}
	server := func(context.Context, ServerConfig) error {
		t.Error("the server was run")
		return nil
	}
	data := filepath.Join(dir, "data")
	for _, tc := range []struct {
		argv   []string
		status int
		want   string
	}{
		{[]string{"--bogus"}, exitUsage, "Error: flag provided but not defined: -bogus; see warren server --help\n"},
		{[]string{"extra"}, exitUsage, `Error: server takes no arguments, found "extra"` + "\n"},
		{[]string{"--node", "a b"}, exitUsage, `"a b" is no node name`},
		{[]string{"--config", bad}, exitConfig, "Error: " + bad + ":1: unknown key \"heart\"\nError: " + bad + ":2: frame_max: "},
		{[]string{"--config", filepath.Join(dir, "none")}, exitConfig, "no such file"},
		{[]string{"--log-level", "loud"}, exitUsage, "--log-level"},
		{[]string{"--log-format", "xml"}, exitUsage, "neither text nor json"},
		{[]string{"--cookie-file", open}, exitSoftware, "chmod 400 " + open},
		{[]string{"--node", "taken"}, exitSoftware, "node taken@box runs already: process "},
	} {
		r := terminal(t, environment, server, append([]string{"server", "--data", data}, tc.argv...)...)
		r.want(t, tc.status, "", tc.want)
	}
	failing := func(context.Context, ServerConfig) error { return errors.New("port 5672 is in use") }
	terminal(t, environment, failing, "server", "--data", data).want(t, exitSoftware, "", "Error: port 5672 is in use\n")
	terminal(t, environment, nil, "server").want(t, exitUsage, "", `unknown command "server"`)
}

func TestWarrenUsage(t *testing.T) {
	for _, tc := range []struct {
		line   string
		status int
		want   string
	}{
		{"", exitUsage, "a command is missing; there are cluster, completion, client, ctl,"},
		{"clustr", exitUsage, `unknown command "clustr"; did you mean "cluster"?`},
		{"cluster", exitUsage, "a command is missing; there are start, stop,"},
		{"cluster strat", exitUsage, `did you mean "start"?`},
		{"--bogus", exitUsage, "flag provided but not defined: -bogus"},
		{"cluster start --bogus", exitUsage, "see warren cluster start --help"},
		{"cluster start --nodes many", exitUsage, "many"},
		{"cluster start --nodes 99 --dir DIR", exitUsage, "a local cluster has 1 to 16 nodes, not 99"},
		{"cluster kill 1 --dir DIR", exitDataErr, "no cluster there"},
		{"cluster status --dir DIR", exitDataErr, "no cluster there"},
	} {
		line := strings.ReplaceAll(tc.line, "DIR", filepath.Join(t.TempDir(), "none"))
		r := terminal(t, nil, nil, strings.Fields(line)...)
		if r.status != tc.status || !strings.Contains(r.stderr, tc.want) || strings.Count(r.stderr, "\n") != 1 || r.stdout != "" {
			t.Errorf("%q: %+v", tc.line, r)
		}
	}
	dir := filepath.Join(t.TempDir(), "none")
	terminal(t, nil, nil, "cluster", "stop", "--dir", dir).want(t, exitOK, "no cluster in "+dir+"\n", "")
	terminal(t, nil, nil, "version").want(t, exitOK, Version+"\n", "")
}

// Flags may follow a node's number.
func TestFlagsFirst(t *testing.T) {
	app := newApp("warren", Env{}, nil)
	for line, want := range map[string]string{
		"warren cluster kill 2 --dir x":             "warren cluster kill --dir x -- 2",
		"warren cluster kill --dir=x 2":             "warren cluster kill --dir=x -- 2",
		"warren cluster start --detach --nodes 3":   "warren cluster start --detach --nodes 3",
		"warren cluster start --detach x --nodes 3": "warren cluster start --detach --nodes 3 -- x",
		"warren version":                            "warren version",
		"warren nosuch -x y":                        "warren nosuch -x y",
	} {
		if got := strings.Join(flagsFirst(app, strings.Fields(line)), " "); got != want {
			t.Errorf("%s\n got %s\nwant %s", line, got, want)
		}
	}
}
