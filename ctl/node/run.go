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
	stopDebug, err := serveDebug(cfg)
	if err != nil {
		return err
	}
	defer stopDebug()
	n, err := broker.Start(broker.Config{
		Config: cfg.Config, Node: cfg.Node, DataDir: cfg.DataDir, Cookie: cfg.Cookie, Version: cfg.Version, Log: cfg.Log,
		Admin: func(n *broker.Node, conn net.Conn) {
			if err := admin.Serve(ctx, conn, &adapter{n, cfg}); err != nil && ctx.Err() == nil {
				cfg.Log.Debug("an operator's connection ended", "error", err)
			}
		},
	})
	if err != nil {
		return err
	}
	return n.Run(ctx)
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
