package amqp

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	rabbit "github.com/rabbitmq/amqp091-go"

	"warren/dataplane/message"
)

// pipe starts a connection over net.Pipe and does the handshake, for tests in a bubble of time.
func pipe(t *testing.T, b *fakeBroker, cfg Config, tune connectionTuneOk) (*Server, *rawClient) {
	t.Helper()
	cfg.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	s := NewServer(cfg, b)
	client, server := net.Pipe()
	s.start(server)
	r := &rawClient{t: t, nc: client, fr: frameReader{br: bufio.NewReader(client), max: 1 << 20}}
	r.begin(tune, Table{"connection.blocked": true})
	t.Cleanup(func() {
		_ = client.Close()
		if err := s.Shutdown(context.Background(), "over"); err != nil {
			t.Error(err)
		}
	})
	return s, r
}

func TestHeartbeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFakeBroker()
		_, r := pipe(t, b, Config{}, connectionTuneOk{ChannelMax: 1, FrameMax: 4096, Heartbeat: 10})
		start := time.Now()
		for i := range 5 { // sent while nothing else is, and received: the connection stays
			f, err := r.fr.next()
			if err != nil || f.typ != frameHeartbeat {
				t.Fatalf("heartbeat %d: %+v, %v", i, f, err)
			}
			if _, err := r.fr.payload(f); err != nil {
				t.Fatal(err)
			}
			r.write([]byte(heartbeatPayload))
		}
		if since := time.Since(start); since < 25*time.Second || since > 50*time.Second {
			t.Errorf("five heartbeats of 10 s took %s", since)
		}
		start = time.Now()
		if n, err := io.Copy(io.Discard, r.fr.br); err != nil || n == 0 {
			t.Errorf("until the end: %d octets, %v", n, err)
		}
		if since := time.Since(start); since < 15*time.Second || since > 21*time.Second {
			t.Errorf("a silent client was dropped after %s, want two intervals", since)
		}
		synctest.Wait()
		if b.sessions != 0 {
			t.Error("the session was not closed")
		}
	})
}

func TestNoHeartbeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, r := pipe(t, newFakeBroker(), Config{}, connectionTuneOk{ChannelMax: 1, FrameMax: 4096})
		if err := r.nc.SetReadDeadline(time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		var timeout net.Error
		if f, err := r.fr.next(); !errors.As(err, &timeout) || !timeout.Timeout() {
			t.Errorf("heartbeat 0: %+v, %v", f, err)
		}
	})
}

func TestSilentHandshakeEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewServer(Config{Logger: slog.New(slog.NewTextHandler(io.Discard, nil))}, newFakeBroker())
		client, server := net.Pipe()
		s.start(server)
		start := time.Now()
		if b, err := io.ReadAll(client); len(b) > 0 || err != nil || time.Since(start) != 10*time.Second {
			t.Errorf("% x, %v after %s", b, err, time.Since(start))
		}
		if err := s.Shutdown(context.Background(), ""); err != nil {
			t.Error(err)
		}
	})
}

func TestShutdownForcesConnections(t *testing.T) {
	s, addr := serve(t, newFakeBroker(), Config{CloseTimeout: 200 * time.Millisecond})
	c := dial(t, addr)
	open(t, c)
	closed := c.NotifyClose(make(chan *rabbit.Error, 1))
	mute := rawDial(t, addr) // does not answer connection.close
	mute.begin(usualTune, nil)
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	if err := s.Shutdown(ctx, "broker forced connection closure with reason 'shutdown'"); err != nil {
		t.Error(err)
	}
	wantClosed(t, "shutdown", closed, 320, "CONNECTION_FORCED - broker forced connection closure with reason 'shutdown'")
	if m := expect[*connectionClose](mute); m.ReplyCode != 320 {
		t.Errorf("%+v", m)
	}
	if _, err := net.Dial("tcp", addr); err == nil {
		t.Error("still accepts")
	}
}

func TestCloseOneConnection(t *testing.T) {
	s, addr := serve(t, newFakeBroker(), Config{})
	a, b := dial(t, addr), dial(t, addr)
	closed := a.NotifyClose(make(chan *rabbit.Error, 1))
	infos := s.Connections()
	for deadline := time.Now().Add(limit); len(infos) < 2 && time.Now().Before(deadline); infos = s.Connections() {
		runtime.Gosched() // a client may have open-ok a moment before its connection counts as open
	}
	if len(infos) != 2 || infos[0].User.Name != "guest" || infos[0].VHost != "/" {
		t.Fatalf("connections: %+v", infos)
	}
	var id uint64
	for _, i := range infos {
		if i.Remote.String() == a.LocalAddr().String() {
			id = i.ID
		}
	}
	if !s.CloseConnection(id, "because") || s.CloseConnection(id+100, "") {
		t.Error("CloseConnection told the wrong thing")
	}
	wantClosed(t, "closed", closed, 320, "CONNECTION_FORCED - because")
	open(t, b)
}

// TestSlowReaderHoldsUpNobody: a consumer that does not read its socket gets no more than its window, and others on the
// same queue go on.
func TestSlowReaderHoldsUpNobody(t *testing.T) {
	b := newFakeBroker()
	_, addr := serve(t, b, Config{WindowMessages: 10, WindowBytes: 1 << 20})
	slow := rawDial(t, addr)
	if err := slow.nc.(*net.TCPConn).SetReadBuffer(4096); err != nil {
		t.Fatal(err)
	}
	slow.begin(usualTune, nil)
	slow.openChannel(1)
	c := dial(t, addr)
	ch := open(t, c)
	declare(t, ch, "q")
	slow.send(1, &basicConsume{Queue: "q", NoAck: true})
	expect[*basicConsumeOk](slow)
	const n, size = 400, 100_000
	ds := must(ch.Consume("q", "", true, false, false, false, nil))(t)
	got := make(chan int)
	go func() {
		i := 0
		for range ds {
			i++
			got <- i
		}
		close(got)
	}()
	body := make([]byte, size)
	go func() {
		for range n {
			if err := ch.PublishWithContext(context.Background(), "", "q", false, false, rabbit.Publishing{Body: body}); err != nil {
				return // the test has ended
			}
		}
	}()
	for last := 0; last < n/2; {
		last = next(t, "delivery to the quick consumer", got)
	}
	var most int64
	b.count(func() int {
		for _, c := range b.queues["q"].consumers {
			most = max(most, c.bytes)
		}
		return 0
	})
	if most > 1<<20+size {
		t.Errorf("%d octets under way to the slow consumer", most)
	}
	go func() {
		for range got {
		}
	}()
	_ = slow.nc.Close()
	_ = c.Close()
}

func TestBackendGateHoldsTheClientBack(t *testing.T) {
	b := newFakeBroker()
	b.gate = make(chan struct{})
	_, addr := serve(t, b, Config{})
	r := rawDial(t, addr)
	r.begin(usualTune, nil)
	r.openChannel(1)
	r.openChannel(2)
	one := appendHeaderFrame(appendMethodFrame(nil, 1, &basicPublish{}), 1, 0, nil)
	r.write(one)
	eventually(t, "one publish", func() bool { return b.count(func() int { return b.published }) == 1 })
	// The other channel still answers: the inbox of the held one takes some more before the reader stops.
	r.write(one)
	r.send(2, &queueDeclare{Queue: "q"})
	expect[*queueDeclareOk](r)
	for range 2 * maxInbox {
		r.write(one)
	}
	r.send(2, &queueDeclare{Queue: "q"})
	if err := r.nc.SetReadDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if f, err := r.fr.next(); err == nil {
		t.Errorf("the connection is still read: %+v", f)
	}
	if n := b.count(func() int { return b.published }); n != 1 {
		t.Errorf("%d publishes passed the gate", n)
	}
	if err := r.nc.SetReadDeadline(time.Now().Add(limit)); err != nil {
		t.Fatal(err)
	}
	close(b.gate)
	expect[*queueDeclareOk](r)
	eventually(t, "all publishes", func() bool { return b.count(func() int { return b.published }) == 2+2*maxInbox })
}

func TestMaxUnconfirmed(t *testing.T) {
	b := newFakeBroker()
	b.holdConfirms = true
	_, addr := serve(t, b, Config{MaxUnconfirmed: 10})
	ch := open(t, dial(t, addr))
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	confirms := ch.NotifyPublish(make(chan rabbit.Confirmation, 100))
	for range 30 {
		publish(t, ch, "", "q", rabbit.Publishing{})
	}
	held := func() int { return b.count(func() int { return len(b.held) }) }
	eventually(t, "ten held", func() bool { return held() == 10 })
	for i := range 30 {
		eventually(t, "held", func() bool { return held() > i })
		if n := held(); n > i+10 {
			t.Fatalf("%d unconfirmed", n-i)
		}
		b.release(true, i)
		next(t, "confirm", confirms)
	}
}

func TestBlockedConnections(t *testing.T) {
	b := newFakeBroker()
	s, addr := serve(t, b, Config{CloseTimeout: 200 * time.Millisecond})
	r := rawDial(t, addr)
	r.begin(usualTune, Table{"connection.blocked": true})
	r.openChannel(1)
	s.Block("low on memory")
	r.send(1, &queueDeclare{Queue: "q"}) // what does not publish goes on
	expect[*queueDeclareOk](r)
	r.write(appendHeaderFrame(appendMethodFrame(nil, 1, &basicPublish{RoutingKey: "q"}), 1, 0, nil))
	if m := expect[*connectionBlocked](r); m.Reason != "low on memory" {
		t.Errorf("%+v", m)
	}
	if b.count(func() int { return b.published }) != 0 {
		t.Error("published although blocked")
	}
	s.Unblock()
	s.Unblock()
	expect[*connectionUnblocked](r)
	eventually(t, "published", func() bool { return b.count(func() int { return b.published }) == 1 })
	s.Block("again") // the server can be shut down while it blocks
	r.write(appendHeaderFrame(appendMethodFrame(nil, 1, &basicPublish{RoutingKey: "q"}), 1, 0, nil))
	expect[*connectionBlocked](r)
}

// TestSlowRequestHoldsUpOnlyItsChannel, and its context ends with the connection.
func TestSlowRequestHoldsUpOnlyItsChannel(t *testing.T) {
	b := newFakeBroker()
	began, ended := make(chan struct{}), make(chan struct{})
	b.declareHook = func(ctx context.Context, name string) error {
		if name == "slow" {
			close(began)
			<-ctx.Done()
			close(ended)
			return ctx.Err()
		}
		return nil
	}
	_, addr := serve(t, b, Config{})
	r := rawDial(t, addr)
	r.begin(usualTune, nil)
	r.openChannel(1)
	r.openChannel(2)
	r.send(1, &queueDeclare{Queue: "slow"})
	await(t, began)
	r.send(2, &queueDeclare{Queue: "quick"})
	expect[*queueDeclareOk](r)
	_ = r.nc.Close()
	await(t, ended)
}

func await(t *testing.T, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(limit):
		t.Fatal("nothing came")
	}
}

func TestWindowIsEnforced(t *testing.T) {
	b := newFakeBroker()
	b.overWindow = true
	_, addr := serve(t, b, Config{WindowMessages: 5})
	c := dial(t, addr)
	ch := open(t, c)
	declare(t, ch, "q")
	for i := range 50 {
		publish(t, ch, "", "q", rabbit.Publishing{Body: []byte(fmt.Sprint(i))})
	}
	closed := c.NotifyClose(make(chan *rabbit.Error, 1))
	_, _ = ch.Consume("q", "", false, false, false, false, nil) // the close tells
	if e := next(t, "close", closed); e.Code != 541 {
		t.Errorf("%+v", e)
	}
}

// TestManyClients mixes everything; nothing may be lost or doubled.
func TestManyClients(t *testing.T) {
	b := newFakeBroker()
	_, addr := serve(t, b, Config{WindowMessages: 16})
	const clients, each = 6, 300
	setup := open(t, dial(t, addr))
	declare(t, setup, "q")
	var publishers, consumers sync.WaitGroup
	var mu sync.Mutex
	seen := map[string]int{}
	t.Cleanup(consumers.Wait) // after the connections are closed
	for i := range clients {
		conn := dial(t, addr)
		in, out := open(t, conn), open(t, conn)
		if err := in.Confirm(false); err != nil {
			t.Fatal(err)
		}
		if err := out.Qos(20, 0, false); err != nil {
			t.Fatal(err)
		}
		ds := must(out.Consume("q", fmt.Sprint("c", i), false, false, false, false, nil))(t)
		consumers.Go(func() {
			n := 0
			for d := range ds {
				if n++; n%17 == 0 && !d.Redelivered {
					_ = d.Nack(false, true) // fails only once the test ends
					continue
				}
				mu.Lock()
				seen[string(d.Body)]++
				mu.Unlock()
				_ = d.Ack(false) // likewise
			}
		})
		publishers.Go(func() {
			for k := range each {
				body := fmt.Sprint(i, "-", k)
				d, err := in.PublishWithDeferredConfirmWithContext(context.Background(), "", "q", true, false, rabbit.Publishing{Body: []byte(body)})
				if err != nil {
					t.Error(err)
					return
				}
				if !d.Wait() {
					t.Error("nacked")
				}
			}
		})
	}
	publishers.Wait()
	eventually(t, "all consumed", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(seen) == clients*each
	})
	mu.Lock()
	defer mu.Unlock()
	for body, n := range seen {
		if n != 1 {
			t.Errorf("%s was acknowledged %d times", body, n)
		}
	}
}

// TestChannelsOpenedWithoutReading: a client that opens and closes channels and never reads the answers is held back.
func TestChannelsOpenedWithoutReading(t *testing.T) {
	s, addr := serve(t, newFakeBroker(), Config{CloseTimeout: 200 * time.Millisecond})
	r := rawDial(t, addr)
	r.begin(usualTune, nil)
	r.openChannel(2) // so the writer is there
	if err := r.nc.(*net.TCPConn).SetReadBuffer(4096); err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	w := s.snapshot()[0].w
	s.mu.Unlock()
	var one []byte
	for range 1000 {
		one = appendMethodFrame(appendMethodFrame(one, 1, &channelOpen{}), 1, &channelClose{})
	}
	for rest, last, still := one, -1, 0; still < 3; {
		if err := r.nc.SetWriteDeadline(time.Now().Add(300 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		n, err := r.nc.Write(rest)
		if rest = rest[n:]; len(rest) == 0 {
			rest = one
		}
		w.mu.Lock()
		waiting := len(w.waiting)
		w.mu.Unlock()
		if waiting > 20_000 {
			t.Fatalf("%d answers wait for a client that does not read", waiting)
		}
		if still++; err == nil || n > 0 || waiting != last {
			still = 0 // something moves
		}
		last = waiting
	}
}

// TestDeadClientThatDidNotRead: the end of a client is noticed even while its connection is held back because it does not read.
func TestDeadClientThatDidNotRead(t *testing.T) {
	b := newFakeBroker()
	s, addr := serve(t, b, Config{CloseTimeout: 200 * time.Millisecond})
	r := rawDial(t, addr)
	r.begin(usualTune, nil)
	r.openChannel(1)
	r.send(1, &queueDeclare{Queue: "q"})
	expect[*queueDeclareOk](r)
	b.mu.Lock()
	b.queues["q"].messages = slices.Repeat([]fakeMessage{{m: message.Message{Body: make([]byte, 100_000)}}}, 5000)
	b.mu.Unlock()
	if err := r.nc.(*net.TCPConn).SetReadBuffer(4096); err != nil {
		t.Fatal(err)
	}
	var many []byte
	for range 1000 {
		many = appendMethodFrame(many, 1, &basicGet{Queue: "q", NoAck: true})
	}
	for err := error(nil); err == nil; { // until nothing moves
		if err := r.nc.SetWriteDeadline(time.Now().Add(500 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		_, err = r.nc.Write(many)
	}
	if err := r.nc.(*net.TCPConn).SetLinger(0); err != nil {
		t.Fatal(err)
	}
	if err := r.nc.Close(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(10 * time.Second); ; runtime.Gosched() {
		s.mu.Lock()
		n := len(s.snapshot())
		s.mu.Unlock()
		if n == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the connection is still there, ten seconds after its client died")
		}
	}
}
