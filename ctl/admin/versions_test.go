package admin

import (
	"encoding/binary"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/vmihailenco/msgpack/v5"
)

// answers plays a node of another version: whatever it is asked, it writes these frames.
func answers(t *testing.T, frames ...[]byte) *Client {
	t.Helper()
	near, far := net.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		if _, err := far.Read(make([]byte, 4096)); err != nil {
			return
		}
		for _, f := range frames {
			if _, err := far.Write(f); err != nil {
				return
			}
		}
	}()
	c := NewClient(near)
	t.Cleanup(func() { _ = c.Close(); _ = far.Close(); <-done })
	return c
}

// A newer node's rows have fields that this tool does not know, an older one's lack some.
func TestRowsOfOtherVersions(t *testing.T) {
	for name, row := range map[string]map[string]any{
		"newer": {"name": "q", "messages": 3, "known": true, "shade": map[string]any{"deep": []any{1, "x", nil}}, "pid": map[string]any{"node": "n@h", "core": 4}},
		"older": {"name": "q", "messages": 3, "known": true, "pid": map[string]any{"node": "n@h"}},
	} {
		c := answers(t, frame(t, map[string]any{"k": "row", "row": row, "hint": "x"}), frame(t, map[string]any{"k": "end", "took": 5}))
		var got []QueueInfo
		err := c.ListQueues(t.Context(), QueueQuery{}, func(q QueueInfo) error {
			got = append(got, q)
			return nil
		})
		if err != nil || len(got) != 1 || got[0].Name != "q" || got[0].Messages != 3 || got[0].PID.Node != "n@h" {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// A code of a newer node that this tool does not know reaches the operator with its text; a kind of frame that it does not know
// is no answer.
func TestAnswersOfNewerVersions(t *testing.T) {
	c := answers(t, frame(t, map[string]any{"k": "error", "code": "too_purple", "text": "the queue is too purple"}))
	if _, err := c.PurgeQueue(t.Context(), "/", "q"); CodeOf(err) != "too_purple" || err.Error() != "too_purple: the queue is too purple" {
		t.Errorf("%v", err)
	}
	c = answers(t, frame(t, map[string]any{"k": "picture"}))
	if _, err := c.PurgeQueue(t.Context(), "/", "q"); err == nil {
		t.Error("an unknown frame was taken for an answer")
	}
}

// An older tool's request lacks fields of the arguments; one without arguments and time limit is answered too.
func TestRequestOfAnOlderTool(t *testing.T) {
	_, conn, _ := connect(t, &fakeNode{queues: 1})
	a := exchange(t, conn, frame(t, map[string]any{"v": 1, "cmd": "list_queues", "args": map[string]any{"vhost": "v"}}))
	var q QueueInfo
	if err := msgpack.Unmarshal(a.Row, &q); a.Kind != kindRow || err != nil || q.VHost != "v" {
		t.Errorf("%+v, %v", a, err)
	}
}

// Lengths that a request claims, within the limit of its size, are not believed.
func TestClaimsOfARequest(t *testing.T) {
	_, conn, served := connect(t, &fakeNode{})
	body := append([]byte{0x82, 0xa1, 'v', 1, 0xa4}, "args"...)
	body = append(body, 0xdd, 0xff, 0xff, 0xff, 0xff)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-served:
		if err == nil {
			t.Error("Serve returned nil")
		}
	case <-time.After(30 * time.Second):
		t.Fatal("the connection goes on")
	}
	runtime.ReadMemStats(&after)
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 8<<20 {
		t.Errorf("%d bytes were allocated", grown)
	}
}
