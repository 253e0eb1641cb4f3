package raftstore

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
)

// repeatAfter is when a complaint that goes on is logged again above debug, maxComplaints how many are remembered.
const (
	repeatAfter   = time.Minute
	maxComplaints = 256
)

// complaints are the lines that raft repeats several times a second for as long as a peer is away, each with the key of what names
// the peer ("": there is none).
var complaints = map[string]string{
	"failed to heartbeat to":                                   "peer",
	"failed to appendEntries to":                               "peer",
	"failed to contact":                                        "server-id",
	"failed to make requestVote RPC":                           "target",
	"unable to get address for server, using fallback address": "id",
	"Election timeout reached, restarting election":            "",
}

// sink hands hashicorp's log lines to slog. Its chatter about every vote and pipeline goes to debug, snapshots do not; a complaint
// that is repeated goes there, too, but for one a minute and peer.
type sink struct {
	log *slog.Logger
	// over: the Store is closed. Connections of a transport that is closed complain for a moment; nobody shall take that for the reason
	// why the node ended.
	over *atomic.Bool
	now  func() time.Time

	mu   sync.Mutex
	told map[string]time.Time // when a complaint was logged last
}

// Accept implements hclog.SinkAdapter.
func (s *sink) Accept(_ string, level hclog.Level, msg string, args ...any) {
	if s.over.Load() {
		return
	}
	to := slog.LevelDebug
	switch {
	case s.repeated(msg, args):
	case level == hclog.Error:
		to = slog.LevelWarn
	case level == hclog.Warn, msg == "snapshot complete up to", msg == "Installed remote snapshot":
		to = slog.LevelInfo
	}
	s.log.Log(context.Background(), to, "raft: "+msg, args...)
}

// repeated says whether a line is a complaint that was logged less than repeatAfter ago; if not, it is taken to be logged now.
func (s *sink) repeated(msg string, args []any) bool {
	key, ok := complaints[msg]
	if !ok {
		return false
	}
	what := msg
	for i := 0; i+1 < len(args); i += 2 {
		if key != "" && args[i] == key {
			what += fmt.Sprint(" ", args[i+1])
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	if last, ok := s.told[what]; ok && now.Sub(last) < repeatAfter {
		return true
	}
	if len(s.told) >= maxComplaints {
		clear(s.told)
	}
	s.told[what] = now
	return false
}

func newLogger(log *slog.Logger, over *atomic.Bool) hclog.Logger {
	l := hclog.NewInterceptLogger(&hclog.LoggerOptions{Name: "raft", Level: hclog.Info, Output: io.Discard})
	l.RegisterSink(&sink{log: log, over: over, now: time.Now, told: make(map[string]time.Time)})
	return l
}
