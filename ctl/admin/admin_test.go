package admin

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vmihailenco/msgpack/v5"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeNode answers from its fields; a method that a test does not expect panics by the nil Node.
type fakeNode struct {
	Node
	policies []PolicyInfo
	queues   int
	listed   func(ctx context.Context, i int) error // called before row i
	deleted  QueueDeletion
	err      error
}

func (f *fakeNode) SetPolicy(_ context.Context, p PolicyInfo) error {
	f.policies = append(f.policies, p)
	return f.err
}

func (f *fakeNode) ListPolicies(_ context.Context, vhost string) ([]PolicyInfo, error) {
	if vhost != "/" {
		return nil, Errorf(CodeNoSuchVHost, "%s", vhost)
	}
	return f.policies, f.err
}

func (f *fakeNode) DeleteQueue(_ context.Context, d QueueDeletion) (uint64, error) {
	f.deleted = d
	return 7, f.err
}

func (f *fakeNode) ListQueues(ctx context.Context, q QueueQuery, row func(QueueInfo) error) error {
	for i := range f.queues {
		if f.listed != nil {
			if err := f.listed(ctx, i); err != nil {
				return err
			}
		}
		if err := row(queue(i, q.VHost)); err != nil {
			return err
		}
	}
	return f.err
}

func (f *fakeNode) Status(ctx context.Context) (NodeStatus, error) {
	<-ctx.Done()
	return NodeStatus{}, ctx.Err()
}

func queue(i int, vhost string) QueueInfo {
	return QueueInfo{
		Name: "q" + strconv.Itoa(i), VHost: vhost, Durable: true, Mirrored: true, State: "running", Known: true,
		Messages: uint64(i), PID: PID{"rabbit@a", 5, uint64(i), 0}, Slaves: []PID{{"rabbit@b", 6, 1, 0}},
		Arguments: []Argument{{"x-list", Value{Kind: KindArray, List: []Value{{Kind: KindLong, Int: -3}}}}},
	}
}

// connect serves node on one end of a pipe.
func connect(t *testing.T, node Node) (*Client, net.Conn, <-chan error) {
	t.Helper()
	near, far := net.Pipe()
	served, done := make(chan error, 1), make(chan struct{})
	ctx := context.WithoutCancel(t.Context()) // the client's Close ends it
	go func() {
		defer close(done)
		served <- Serve(ctx, far, node)
	}()
	c := NewClient(near)
	t.Cleanup(func() { _ = c.Close(); <-done })
	return c, near, served
}

func TestRequests(t *testing.T) {
	node := &fakeNode{}
	c, _, _ := connect(t, node)
	ctx := t.Context()
	p := PolicyInfo{VHost: "/", Name: "ha", Pattern: "^", ApplyTo: "all", Definition: `{"ha-mode":"all"}`, Priority: -3}
	if err := c.SetPolicy(ctx, p); err != nil {
		t.Fatal(err)
	}
	got, err := c.ListPolicies(ctx, "/")
	if err != nil || !reflect.DeepEqual(got, []PolicyInfo{p}) {
		t.Errorf("%v, %v", got, err)
	}
	d := QueueDeletion{VHost: "/", Name: "q", IfEmpty: true}
	if n, err := c.DeleteQueue(ctx, d); n != 7 || err != nil || node.deleted != d {
		t.Errorf("%v, %v, %+v", n, err, node.deleted)
	}
}

func TestRefusalKeepsCodeAndConnection(t *testing.T) {
	node := &fakeNode{err: Errorf(CodeValidation, "two\nlines")}
	c, _, _ := connect(t, node)
	err := c.SetPolicy(t.Context(), PolicyInfo{})
	var e *Error
	if !errors.As(err, &e) || *e != (Error{CodeValidation, "two\nlines"}) {
		t.Fatalf("got %v", err)
	}
	if _, err := c.ListPolicies(t.Context(), "nosuch"); CodeOf(err) != CodeNoSuchVHost {
		t.Errorf("the connection did not go on: %v", err)
	}
	node.err = errors.New("boom")
	if err := c.SetPolicy(t.Context(), PolicyInfo{}); CodeOf(err) != CodeInternal || !strings.Contains(err.Error(), "boom") {
		t.Errorf("got %v", err)
	}
}

func TestListQueuesStreams(t *testing.T) {
	const queues = 3000
	c, _, _ := connect(t, &fakeNode{queues: queues})
	i := 0
	err := c.ListQueues(t.Context(), QueueQuery{VHost: "v"}, func(q QueueInfo) error {
		if want := queue(i, "v"); !reflect.DeepEqual(q, want) {
			t.Fatalf("row %d: %+v, want %+v", i, q, want)
		}
		i++
		return nil
	})
	if err != nil || i != queues {
		t.Errorf("%d rows, %v", i, err)
	}
}

// Rows that a fast node sent must not wait in the buffer for a slow one.
func TestRowsAreNotHeldBack(t *testing.T) {
	firstSeen := make(chan struct{})
	node := &fakeNode{queues: 2, listed: func(ctx context.Context, i int) error {
		if i == 1 {
			select {
			case <-firstSeen:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	}}
	c, _, _ := connect(t, node)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	rows := 0
	err := c.ListQueues(ctx, QueueQuery{}, func(QueueInfo) error {
		if rows++; rows == 1 {
			close(firstSeen)
		}
		return nil
	})
	if err != nil || rows != 2 {
		t.Errorf("%d rows, %v", rows, err)
	}
}

func TestNodeKeepsTheTimeLimit(t *testing.T) {
	c, _, _ := connect(t, &fakeNode{})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := c.Status(ctx)
	if CodeOf(err) != CodeTimeout && !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

// A client that goes away cancels what it asked for.
func TestClosingCancels(t *testing.T) {
	running, cancelled := make(chan struct{}), make(chan struct{})
	node := &fakeNode{queues: 1, listed: func(ctx context.Context, _ int) error {
		close(running)
		<-ctx.Done()
		close(cancelled)
		return ctx.Err()
	}}
	c, _, _ := connect(t, node)
	done := make(chan error, 1)
	go func() { done <- c.ListQueues(t.Context(), QueueQuery{}, func(QueueInfo) error { return nil }) }()
	<-running
	_ = c.Close()
	<-cancelled
	if err := <-done; err == nil {
		t.Error("the call succeeded")
	}
}

func TestPanicIsAnswered(t *testing.T) {
	c, _, _ := connect(t, &fakeNode{})
	_, err := c.ListUsers(t.Context()) // nil Node inside
	if CodeOf(err) != CodeInternal || !strings.Contains(err.Error(), "panic") {
		t.Errorf("got %v", err)
	}
}

// exchange sends raw bytes and reads one frame.
func exchange(t *testing.T, conn net.Conn, raw []byte) answer {
	t.Helper()
	go func() { _, _ = conn.Write(raw) }()
	var a answer
	if err := readFrame(bufio.NewReader(conn), &a, MaxAnswer); err != nil {
		t.Fatal(err)
	}
	return a
}

func frame(t *testing.T, v any) []byte {
	t.Helper()
	body, err := msgpack.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
}

func TestProtocolFaults(t *testing.T) {
	for _, tc := range []struct {
		name string
		raw  []byte
		want Code
	}{
		{"version", frame(t, map[string]any{"v": 99, "cmd": "list_users"}), CodeBadRequest},
		{"unknown command", frame(t, map[string]any{"v": 1, "cmd": "dance", "args": map[string]any{}}), CodeUnsupported},
		{"arguments", frame(t, map[string]any{"v": 1, "cmd": "set_policy", "args": 5}), CodeBadRequest},
		{"oversize", binary.BigEndian.AppendUint32(nil, MaxRequest+1), CodeBadRequest},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, conn, _ := connect(t, &fakeNode{})
			if a := exchange(t, conn, tc.raw); a.Kind != kindError || a.Code != tc.want {
				t.Errorf("got %+v", a)
			}
		})
	}
}

// Fields that this version does not know are skipped, so that a newer tool can talk to an older node.
func TestUnknownFieldsAreSkipped(t *testing.T) {
	node := &fakeNode{}
	_, conn, _ := connect(t, node)
	args := map[string]any{"name": "n", "vhost": "/", "colour": []int{1, 2}}
	a := exchange(t, conn, frame(t, map[string]any{"v": 1, "cmd": "set_policy", "args": args, "trace": "x"}))
	if a.Kind != kindEnd || len(node.policies) != 1 || node.policies[0].Name != "n" {
		t.Errorf("%+v, %+v", a, node.policies)
	}
}

func TestGarbageEndsTheConnection(t *testing.T) {
	_, conn, served := connect(t, &fakeNode{})
	if _, err := conn.Write([]byte{0, 0, 0, 2, 0xc1, 0xc1}); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("read: %v", err)
	}
	if err := <-served; err == nil {
		t.Error("Serve returned nil")
	}
}

func TestIdleConnectionIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		served := make(chan error, 1)
		start := time.Now()
		go func() { served <- Serve(t.Context(), far, &fakeNode{}) }()
		if err := <-served; err == nil {
			t.Error("Serve returned nil")
		}
		if d := time.Since(start); d != idleTimeout {
			t.Errorf("closed after %v", d)
		}
		near.Close()
	})
}

// A request that runs longer than the idle limit is not idle.
func TestLongRequestIsNotIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		served := make(chan error, 1)
		node := &fakeNode{queues: 1, listed: func(context.Context, int) error {
			<-time.After(3 * idleTimeout)
			return nil
		}}
		go func() { served <- Serve(t.Context(), far, node) }()
		c := NewClient(near)
		rows := 0
		err := c.ListQueues(t.Context(), QueueQuery{}, func(QueueInfo) error { rows++; return nil })
		if err != nil || rows != 1 {
			t.Errorf("%d rows, %v", rows, err)
		}
		_ = c.Close()
		<-served
	})
}
