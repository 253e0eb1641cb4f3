package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"warren/ctl/locate"
	"warren/ctl/logtail"
	"warren/dataplane/broker/config"
)

// ServerConfig is what a node is started with. All fields are set.
type ServerConfig struct {
	Node       string // full name
	DataDir    string // absolute; it exists if the cookie is in it, and is not locked yet
	ConfigFile string // absolute, or empty: none was given
	Config     *config.Config
	Cookie     []byte
	Log        *slog.Logger
	LogLevel   *slog.LevelVar // of Log
	LogTail    *logtail.Tail  // the end of Log
	Version    string
	// Recover: recover the node instead of running it; nil: run it.
	Recover *Recovery
}

// RunServer runs a node until ctx ends, then stops it in good order and returns; nil if it did. It is given to Main by
// package main, which knows the broker.
type RunServer func(ctx context.Context, cfg ServerConfig) error

// serverCommand is "warren server".
func serverCommand(env Env, run RunServer) *cli.Command {
	return &cli.Command{
		Name:  "server",
		Usage: "run a node in the foreground",
		Flags: nodeFlags(),
		Action: func(cc *cli.Context) error {
			if cc.Args().Present() {
				return &exitError{exitUsage, fmt.Sprintf("Error: server takes no arguments, found %q", cc.Args().First())}
			}
			return runServer(cc, env, run)
		},
	}
}

// nodeFlags say which node, where and how.
func nodeFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "node", Usage: "the node's `NAME`, name@host (or RABBITMQ_NODENAME; default rabbit@<this host>)"},
		&cli.StringFlag{Name: "data", Usage: "data `DIR`ectory (or the node's below RABBITMQ_MNESIA_BASE; default /var/lib/warren/NAME, for users but root ~/.local/share/warren/NAME)"},
		&cli.StringFlag{Name: "config", Usage: "configuration `FILE`, rabbitmq.conf syntax (or RABBITMQ_CONFIG_FILE)"},
		&cli.StringFlag{Name: "cookie-file", Usage: "`FILE` with the cluster's cookie (default .cookie in the data directory)"},
		&cli.StringFlag{Name: "log-format", Value: "text", Usage: "`FORMAT`: text or json"},
		&cli.StringFlag{Name: "log-level", Usage: "`LEVEL`: debug, info, warning, error or none (default from the configuration)"},
	}
}

func runServer(cc *cli.Context, env Env, run RunServer) error {
	s, err := serverSettings(cc, env)
	if err != nil {
		return err
	}
	cookieFile := cc.String("cookie-file")
	if cookieFile == "" {
		cookieFile = filepath.Join(s.DataDir, locate.CookieName)
	}
	if cookieFile, err = filepath.Abs(cookieFile); err != nil {
		return fmt.Errorf("cookie file: %w", err)
	}
	if s.Cookie, err = locate.EnsureCookie(cookieFile); err != nil {
		return err
	}
	unregister, err := register(s, cookieFile, env)
	if err != nil {
		return err
	}
	err = run(cc.Context, s)
	return errors.Join(err, unregister())
}

// register lets tools find the node. A node that cannot be found by name is still a node: that is only logged, but a second
// node of the same name is refused.
func register(s ServerConfig, cookieFile string, env Env) (unregister func() error, err error) {
	listen := s.Config.Internode.Listen
	if ip := net.ParseIP(listen.Host); listen.Host == "" || ip != nil && ip.IsUnspecified() {
		listen.Host = "127.0.0.1"
	}
	entry := locate.Entry{Node: s.Node, Address: listen.Address(), DataDir: s.DataDir, CookieFile: cookieFile, Process: locate.Self()}
	if t := s.Config.Internode.TLS; t.On() {
		entry.TLS = &locate.TLS{}
		for _, f := range []struct {
			to   *string
			path string
		}{{&entry.TLS.CACertFile, t.CACertFile}, {&entry.TLS.CertFile, t.CertFile}, {&entry.TLS.KeyFile, t.KeyFile}} {
			if *f.to, err = filepath.Abs(f.path); err != nil {
				return nil, fmt.Errorf("inter-node TLS file %s: %w", f.path, err)
			}
		}
	}
	unregister, err = locate.UserRegistry(env.Getenv).Register(entry)
	var taken *locate.TakenError
	switch {
	case errors.As(err, &taken):
		return nil, err
	case err != nil:
		s.Log.Warn("tools will not find this node by its name", "node", s.Node, "error", err)
		return func() error { return nil }, nil
	}
	return unregister, nil
}

// serverSettings reads flags, environment and configuration.
func serverSettings(cc *cli.Context, env Env) (ServerConfig, error) {
	s := ServerConfig{Version: Version}
	first := func(flag, variable string) string {
		if v := cc.String(flag); v != "" {
			return v
		}
		return env.Getenv(variable)
	}
	typed := first("node", "RABBITMQ_NODENAME")
	if typed == "" {
		typed = locate.DefaultName
	}
	var err error
	if s.Node, err = locate.NodeName(typed, env.Hostname); err != nil {
		return s, &exitError{exitUsage, "Error: " + err.Error()}
	}
	if s.DataDir, err = dataDir(cc.String("data"), s.Node, env); err != nil {
		return s, err
	}
	var warnings []config.Warning
	s.Config = config.Default()
	if file := first("config", "RABBITMQ_CONFIG_FILE"); file != "" {
		if s.ConfigFile, err = filepath.Abs(findConfig(file)); err != nil {
			return s, fmt.Errorf("configuration: %w", err)
		}
		if s.Config, warnings, err = config.Load(s.ConfigFile); err != nil {
			return s, configError(err)
		}
	}
	level := s.Config.LogLevel
	if text := cc.String("log-level"); text != "" {
		if level, err = config.ParseLogLevel(text); err != nil {
			return s, &exitError{exitUsage, "Error: --log-level: " + err.Error()}
		}
	}
	s.LogLevel, s.LogTail = &slog.LevelVar{}, logtail.New(env.Stderr)
	s.LogLevel.Set(level)
	if s.Log, err = newLog(s.LogTail, cc.String("log-format"), s.LogLevel); err != nil {
		return s, err
	}
	for _, w := range warnings {
		s.Log.Warn(w.Text, "file", w.File, "line", w.Line)
	}
	if env.Getenv("RABBITMQ_ADVANCED_CONFIG_FILE") != "" {
		s.Log.Warn("RABBITMQ_ADVANCED_CONFIG_FILE has no effect: advanced.config is not read")
	}
	warnUnlisted(s)
	return s, nil
}

// warnUnlisted tells of a list of peers that does not have the node itself, which most often is a name with another host.
func warnUnlisted(s ServerConfig) {
	var listed []string
	for _, p := range s.Config.Peers {
		listed = append(listed, p.Node)
	}
	if len(listed) > 0 && !slices.Contains(listed, s.Node) {
		s.Log.Warn("this node is not among cluster_formation.classic_config.nodes; if one of them is meant, --node has to name it so",
			"node", s.Node, "listed", listed)
	}
}

// findConfig adds .conf where RABBITMQ_CONFIG_FILE leaves it out, as RabbitMQ allows.
func findConfig(file string) string {
	if _, err := os.Stat(file); errors.Is(err, os.ErrNotExist) && filepath.Ext(file) == "" {
		if _, err := os.Stat(file + ".conf"); err == nil {
			return file + ".conf"
		}
	}
	return file
}

// configError is one line for each fault.
func configError(err error) *exitError {
	lines := strings.Split(err.Error(), "\n")
	for i := range lines {
		lines[i] = "Error: " + lines[i]
	}
	return &exitError{exitConfig, strings.Join(lines, "\n")}
}

// dataDir is the directory named by the flag, or the node's own below RABBITMQ_MNESIA_BASE, as in RabbitMQ, or the node's
// own below the system's or the user's place for data.
func dataDir(flag, node string, env Env) (string, error) {
	dir := flag
	if base := env.Getenv("RABBITMQ_MNESIA_BASE"); dir == "" && base != "" {
		dir = filepath.Join(base, node)
	}
	if home := env.Getenv("HOME"); dir == "" && os.Getuid() != 0 && home != "" {
		dir = filepath.Join(home, ".local", "share", "warren", node)
	}
	if dir == "" {
		dir = filepath.Join("/var/lib/warren", node)
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("data directory: %w", err)
	}
	return abs, nil
}

func newLog(w io.Writer, form string, level slog.Leveler) (*slog.Logger, error) {
	options := &slog.HandlerOptions{Level: level}
	switch form {
	case "text":
		return slog.New(slog.NewTextHandler(w, options)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, options)), nil
	}
	return nil, &exitError{exitUsage, fmt.Sprintf("Error: --log-format: %q is neither text nor json", form)}
}
