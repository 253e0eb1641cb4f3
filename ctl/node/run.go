package node

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/pprof"
	"time"

	"warren/ctl/admin"
	"warren/ctl/command"
	"warren/dataplane/broker"
)

// Run runs a node until ctx ends and stops it in good order. It is the command.RunServer of the binary.
func Run(ctx context.Context, cfg command.ServerConfig) error {
	if cfg.Recover != nil {
		gone, err := broker.Recover(ctx, broker.Config{Config: cfg.Config, Node: cfg.Node, DataDir: cfg.DataDir, Log: cfg.Log}, cfg.Recover.Lost)
		cfg.Recover.Gone = gone
		return err
	}
	definitions, err := readDefinitions(cfg.Config.Definitions)
	if err != nil {
		return err
	}
	stopDebug, err := serveDebug(cfg)
	if err != nil {
		return err
	}
	defer stopDebug()
	serve := func(conn net.Conn, node admin.Node) {
		if err := admin.Serve(ctx, conn, node); err != nil && ctx.Err() == nil {
			cfg.Log.Debug("an operator's connection ended", "error", err)
		}
	}
	settings := broker.Config{
		Config: cfg.Config, Node: cfg.Node, DataDir: cfg.DataDir, Cookie: cfg.Cookie, Version: cfg.Version, Log: cfg.Log,
		Admin: func(n *broker.Node, conn net.Conn) { serve(conn, &adapter{process{cfg}, n}) },
	}
	for next := broker.NextNode; ; {
		switch next {
		case broker.NextNode:
			next, err = runNode(ctx, settings, func(n *broker.Node) *adapter { return &adapter{process{cfg}, n} }, definitions)
		case broker.NextStopped:
			next, err = runStopped(ctx, settings, func(s *broker.Stopped, conn net.Conn) { serve(conn, &stopped{process: process{cfg}, s: s}) })
		default:
			return nil
		}
		if err != nil || ctx.Err() != nil {
			return err
		}
	}
}

func runNode(ctx context.Context, settings broker.Config, adapt func(*broker.Node) *adapter, definitions []admin.Definition) (broker.Next, error) {
	n, err := broker.Start(settings)
	if err != nil {
		return broker.NextNothing, err
	}
	loading, cancel := context.WithCancel(ctx)
	defer cancel()
	loaded := make(chan error, 1)
	go func() {
		err := adapt(n).loadDefinitions(loading, definitions)
		if err != nil {
			n.Stop() // as RabbitMQ does not start then
		}
		loaded <- err
	}()
	err = n.Run(ctx)
	cancel()
	if err = errors.Join(<-loaded, err); err != nil {
		return broker.NextNothing, err
	}
	return n.Next(), nil
}

func runStopped(ctx context.Context, settings broker.Config, serve func(*broker.Stopped, net.Conn)) (broker.Next, error) {
	s, err := broker.StartStopped(settings, serve)
	if err != nil {
		return broker.NextNothing, err
	}
	return s.Run(ctx)
}

// serveDebug serves profiles on the loopback address that the configuration names, if any.
func serveDebug(cfg command.ServerConfig) (stop func(), err error) {
	if cfg.Config.DebugListen == "" {
		return func() {}, nil
	}
	ln, err := net.Listen("tcp", cfg.Config.DebugListen)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := server.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			cfg.Log.Error("the debug listener ended", "error", err)
		}
	}()
	return func() { _ = server.Close(); <-done }, nil
}
