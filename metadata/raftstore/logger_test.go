package raftstore

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// While a peer is away the log has one line a minute of that, not three a second; another peer and other lines are not held back.
func TestComplaintsAreNotRepeated(t *testing.T) {
	var out bytes.Buffer
	now := time.Unix(0, 0)
	s := &sink{
		log: slog.New(slog.NewTextHandler(&out, nil)), over: &atomic.Bool{}, now: func() time.Time { return now },
		told: make(map[string]time.Time),
	}
	for range 3 * 350 { // three minutes and a half
		s.Accept("", hclog.Error, "failed to heartbeat to", "peer", raft.ServerAddress("a:1"), "error", "refused")
		s.Accept("", hclog.Warn, "Election timeout reached, restarting election")
		now = now.Add(200 * time.Millisecond)
	}
	s.Accept("", hclog.Error, "failed to heartbeat to", "peer", raft.ServerAddress("b:1"), "error", "refused")
	for range 2 {
		s.Accept("", hclog.Warn, "something else", "peer", "a:1")
	}
	for line, want := range map[string]int{"peer=a:1 error": 4, "peer=b:1 error": 1, "restarting election": 4, "something else": 2} {
		if got := strings.Count(out.String(), line); got != want {
			t.Errorf("%d lines with %q, want %d:\n%s", got, line, want, out.String())
		}
	}
	for i := range 10 * maxComplaints {
		s.Accept("", hclog.Error, "failed to heartbeat to", "peer", fmt.Sprint(i))
	}
	if len(s.told) > maxComplaints {
		t.Errorf("%d complaints are remembered", len(s.told))
	}
}
