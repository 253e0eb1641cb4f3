package raftstore

import (
	"context"
	"io"
	"log/slog"

	"github.com/hashicorp/go-hclog"
)

// sink hands hashicorp's log lines to slog. Its chatter about every vote and pipeline goes to debug.
type sink struct{ log *slog.Logger }

// Accept implements hclog.SinkAdapter.
func (s sink) Accept(_ string, level hclog.Level, msg string, args ...any) {
	to := slog.LevelDebug
	switch level {
	case hclog.Warn:
		to = slog.LevelInfo
	case hclog.Error:
		to = slog.LevelWarn
	}
	s.log.Log(context.Background(), to, "raft: "+msg, args...)
}

func newLogger(log *slog.Logger) hclog.Logger {
	l := hclog.NewInterceptLogger(&hclog.LoggerOptions{Name: "raft", Level: hclog.Info, Output: io.Discard})
	l.RegisterSink(sink{log})
	return l
}
