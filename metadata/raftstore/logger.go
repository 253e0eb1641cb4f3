package raftstore

import (
	"context"
	"io"
	"log/slog"
	"sync/atomic"

	"github.com/hashicorp/go-hclog"
)

// sink hands hashicorp's log lines to slog. Its chatter about every vote and pipeline goes to debug, snapshots do not.
type sink struct {
	log *slog.Logger
	// over: the Store is closed. Connections of a transport that is closed complain for a moment; nobody shall take that for the reason
	// why the node ended.
	over *atomic.Bool
}

// Accept implements hclog.SinkAdapter.
func (s sink) Accept(_ string, level hclog.Level, msg string, args ...any) {
	if s.over.Load() {
		return
	}
	to := slog.LevelDebug
	switch {
	case level == hclog.Error:
		to = slog.LevelWarn
	case level == hclog.Warn, msg == "snapshot complete up to", msg == "Installed remote snapshot":
		to = slog.LevelInfo
	}
	s.log.Log(context.Background(), to, "raft: "+msg, args...)
}

func newLogger(log *slog.Logger, over *atomic.Bool) hclog.Logger {
	l := hclog.NewInterceptLogger(&hclog.LoggerOptions{Name: "raft", Level: hclog.Info, Output: io.Discard})
	l.RegisterSink(sink{log, over})
	return l
}
