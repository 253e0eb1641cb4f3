package amqp

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// rawClient speaks frames by hand.
type rawClient struct {
	t  testing.TB
	nc net.Conn
	fr frameReader
}

func rawDial(t testing.TB, addr string) *rawClient {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = nc.Close() })
	if err := nc.SetDeadline(time.Now().Add(limit)); err != nil {
		t.Fatal(err)
	}
	return &rawClient{t: t, nc: nc, fr: frameReader{br: bufio.NewReader(nc), max: 1 << 20}}
}

func (r *rawClient) write(b []byte) {
	r.t.Helper()
	if _, err := r.nc.Write(b); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rawClient) send(channel uint16, ms ...method) {
	r.t.Helper()
	var b []byte
	for _, m := range ms {
		b = appendMethodFrame(b, channel, m)
	}
	r.write(b)
}

// receive reads the next frame's method, heartbeats excepted.
func (r *rawClient) receive() (uint16, method) {
	r.t.Helper()
	for {
		f, err := r.fr.next()
		if err != nil {
			r.t.Fatalf("receive: %v", err)
		}
		b, err := r.fr.payload(f)
		if err != nil {
			r.t.Fatal(err)
		}
		if f.typ == frameHeartbeat {
			continue
		}
		d := decoder{b: b}
		m := newMethod(d.long())
		if f.typ != frameMethod || m == nil {
			r.t.Fatalf("frame type %d: % x", f.typ, b)
		}
		if m.decode(&d); d.err != nil {
			r.t.Fatal(d.err)
		}
		return f.channel, m
	}
}

func expect[M method](r *rawClient) M {
	r.t.Helper()
	_, m := r.receive()
	got, ok := m.(M)
	if !ok {
		r.t.Fatalf("received %s %+v, want %T", m.name(), m, got)
	}
	return got
}

// begin does the handshake with the given tune-ok.
func (r *rawClient) begin(tune connectionTuneOk, caps Table) {
	r.t.Helper()
	r.write([]byte(protocolHeader))
	expect[*connectionStart](r)
	r.send(0, &connectionStartOk{ClientProperties: Table{"capabilities": caps}, Mechanism: "PLAIN", Response: "\x00guest\x00guest", Locale: "en_US"})
	expect[*connectionTune](r)
	r.send(0, &tune, &connectionOpen{VirtualHost: "/"})
	expect[*connectionOpenOk](r)
}

var usualTune = connectionTuneOk{ChannelMax: 2047, FrameMax: 131072, Heartbeat: 60}

func (r *rawClient) openChannel(n uint16) {
	r.t.Helper()
	r.send(n, &channelOpen{})
	expect[*channelOpenOk](r)
}

// wantEnd expects nothing more but the end of the connection.
func (r *rawClient) wantEnd() {
	r.t.Helper()
	b, err := io.ReadAll(r.fr.br)
	var timeout net.Error
	if len(b) > 0 || errors.As(err, &timeout) && timeout.Timeout() {
		r.t.Errorf("want the end of the connection: % x, %v", b, err)
	}
}

func TestOtherProtocols(t *testing.T) {
	_, addr := serve(t, newFakeBroker(), Config{})
	for _, header := range []string{"GET / HTTP/1.1\r\n\r\n", "AMQP\x00\x01\x00\x00", "AMQP\x01\x01\x08\x00", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"} {
		r := rawDial(t, addr)
		r.write([]byte(header))
		got, err := io.ReadAll(io.LimitReader(r.nc, 8))
		if err != nil || string(got) != protocolHeader {
			t.Errorf("%q was answered with %q, %v", header, got, err)
		}
		r.wantEnd()
	}
}

func TestHandshakeErrors(t *testing.T) {
	_, addr := serve(t, newFakeBroker(), Config{HandshakeTimeout: 5 * time.Second})
	login := func(mechanism, response string, caps Table) *connectionStartOk {
		return &connectionStartOk{ClientProperties: Table{"capabilities": caps}, Mechanism: mechanism, Response: response, Locale: "en_US"}
	}
	guest := login("PLAIN", "\x00guest\x00guest", nil)
	tests := []struct {
		name string
		send []method
		want string // the reply text; "": nothing is said
	}{
		{"wrong password, able", []method{login("PLAIN", "\x00guest\x00wrong", Table{"authentication_failure_close": true})},
			"ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN. For details see the broker logfile."},
		{"wrong password, not able", []method{login("PLAIN", "\x00guest\x00wrong", nil)}, ""},
		{"mechanism", []method{login("MAGIC", "", nil)}, "COMMAND_INVALID - unknown authentication mechanism 'MAGIC'"},
		{"bad response", []method{login("PLAIN", "guest", nil)}, "SYNTAX_ERROR - response of mechanism PLAIN invalid"},
		{"backend fails", []method{login("PLAIN", "\x00broken\x00x", nil)}, "INTERNAL_ERROR"},
		{"wrong state", []method{guest, &connectionOpen{VirtualHost: "/"}}, "CHANNEL_ERROR - unexpected method in connection state tuning"},
		{"small frames", []method{guest, &connectionTuneOk{ChannelMax: 1, FrameMax: 100}},
			"NOT_ALLOWED - negotiated frame_max = 100 is lower than the minimum allowed value (4096)"},
		{"large frames", []method{guest, &connectionTuneOk{ChannelMax: 1, FrameMax: 200000}},
			"NOT_ALLOWED - negotiated frame_max = 200000 is higher than the maximum allowed value (131072)"},
		{"many channels", []method{guest, &connectionTuneOk{ChannelMax: 0, FrameMax: 4096}},
			"NOT_ALLOWED - negotiated channel_max = 0 (no limit) is higher than the maximum allowed value (2047)"},
		{"vhost", []method{guest, &usualTune, &connectionOpen{VirtualHost: "nope"}}, "NOT_ALLOWED - vhost nope not found"},
	}
	for _, tt := range tests {
		r := rawDial(t, addr)
		r.write([]byte(protocolHeader))
		expect[*connectionStart](r)
		r.send(0, tt.send...)
		if len(tt.send) > 1 {
			expect[*connectionTune](r)
		}
		if tt.want != "" {
			if m := expect[*connectionClose](r); m.ReplyText != tt.want {
				t.Errorf("%s: %q, want %q", tt.name, m.ReplyText, tt.want)
			}
			r.send(0, &connectionCloseOk{})
		}
		r.wantEnd()
	}
}

func TestAMQPlain(t *testing.T) {
	_, addr := serve(t, newFakeBroker(), Config{})
	response, err := AppendTable(nil, Table{"LOGIN": "guest", "PASSWORD": "guest"})
	if err != nil {
		t.Fatal(err)
	}
	r := rawDial(t, addr)
	r.write([]byte(protocolHeader))
	start := expect[*connectionStart](r)
	if start.Mechanisms != "PLAIN AMQPLAIN" || start.ServerProperties["product"] != "Warren" {
		t.Errorf("start: %+v", start)
	}
	r.send(0, &connectionStartOk{Mechanism: "AMQPLAIN", Response: string(response[4:])})
	expect[*connectionTune](r)
	r.send(0, &usualTune, &connectionOpen{VirtualHost: "/"})
	expect[*connectionOpenOk](r)
	r.send(0, &connectionClose{ReplyCode: 200})
	expect[*connectionCloseOk](r)
	r.wantEnd()
}

// TestBadFrames sends what no client should once a channel is open: the connection is closed with the code.
func TestBadFrames(t *testing.T) {
	_, addr := serve(t, newFakeBroker(), Config{CloseTimeout: time.Second})
	running := goleak.IgnoreCurrent()
	m := func(channel uint16, ms ...method) []byte {
		var b []byte
		for _, m := range ms {
			b = appendMethodFrame(b, channel, m)
		}
		return b
	}
	body := func(channel uint16, n int) []byte {
		return closeFrame(append(openFrame(nil, frameBody, channel), make([]byte, n)...), 0)
	}
	header := func(class byte, size int) []byte {
		b := appendHeaderFrame(nil, 1, size, nil)
		b[8] = class
		return b
	}
	badEnd := m(1, &basicQos{})
	badEnd[len(badEnd)-1] = 0
	pub := &basicPublish{RoutingKey: "q"}
	tests := []struct {
		name string
		send []byte
		code uint16
		text string
	}{
		{"frame type", []byte{9, 0, 1, 0, 0, 0, 0, 0xCE}, 501, "{invalid_frame_type,9}"},
		{"frame end", badEnd, 501, "{invalid_frame_end_marker,0}"},
		{"oversize", []byte{3, 0, 1, 0xff, 0xff, 0xff, 0xff}, 501, "{frame_too_large,4294967295,131064}"},
		{"one too large", []byte{3, 0, 1, 0, 1, 0xff, 0xf9}, 501, "{frame_too_large,131065,131064}"},
		{"unknown method", []byte{1, 0, 1, 0, 0, 0, 4, 0, 60, 0, 99, 0xCE}, 501, "cannot decode a method of class 60, id 99"},
		{"short method", []byte{1, 0, 1, 0, 0, 0, 5, 0, 60, 0, 10, 1, 0xCE}, 501, "cannot decode basic.qos"},
		{"short publish", []byte{1, 0, 1, 0, 0, 0, 5, 0, 60, 0, 40, 1, 0xCE}, 501, "cannot decode"},
		{"long method", []byte{1, 0, 1, 0, 0, 0, 6, 0, 20, 0, 20, 1, 1, 0xCE}, 501, "octets follow"},
		{"empty method frame", []byte{1, 0, 1, 0, 0, 0, 0, 0xCE}, 501, "cannot decode"},
		{"queue name not UTF-8", m(1, &queueDeclare{Queue: "q\xff"}), 501, "FRAME_ERROR - Malformed UTF-8 in shortstr"},
		{"exchange name not UTF-8", m(1, &basicPublish{Exchange: "x\xff"}), 501, "FRAME_ERROR - Malformed UTF-8 in shortstr"},
		{"heartbeat on a channel", []byte{8, 0, 1, 0, 0, 0, 0, 0xCE}, 505, "type 8"},
		{"closed channel", m(7, &basicQos{}), 504, "CHANNEL_ERROR - expected 'channel.open'"},
		{"body on a closed channel", body(7, 3), 504, "CHANNEL_ERROR - expected 'channel.open'"},
		{"opened twice", m(1, &channelOpen{}), 504, "CHANNEL_ERROR - second 'channel.open' seen"},
		{"channel method on 0", m(0, &basicQos{}), 504, "CHANNEL_ERROR - unexpected method in connection state running"},
		{"start-ok again", m(0, &connectionStartOk{}), 504, "CHANNEL_ERROR - unexpected method in connection state running"},
		{"body on 0", body(0, 3), 505, "UNEXPECTED_FRAME"},
		{"server's method", m(1, &basicDeliver{}), 503, "COMMAND_INVALID - unimplemented method"},
		{"server's answer", m(1, &queueDeclareOk{}), 503, "COMMAND_INVALID - unimplemented method"},
		{"connection's method on a channel", m(1, &connectionOpen{}), 503, "COMMAND_INVALID - unimplemented method"},
		{"body first", body(1, 3), 505, "UNEXPECTED_FRAME - expected method frame, got non method frame instead"},
		{"header first", header(60, 3), 505, "UNEXPECTED_FRAME - expected method frame, got non method frame instead"},
		{"no header", m(1, pub, pub), 505, "UNEXPECTED_FRAME - expected content header for class 60, got non content header frame instead"},
		{"body for header", append(m(1, pub), body(1, 3)...), 505, "UNEXPECTED_FRAME - expected content header for class 60, got non content header frame instead"},
		{"wrong class", append(m(1, pub), header(50, 3)...), 505, "UNEXPECTED_FRAME - expected content header for class 60, got one for class 50 instead"},
		{"header twice", append(append(m(1, pub), header(60, 3)...), header(60, 3)...), 505, "UNEXPECTED_FRAME - expected content body, got non content body frame instead"},
		{"method for body", append(append(m(1, pub), header(60, 3)...), m(1, pub)...), 505, "UNEXPECTED_FRAME - expected content body, got non content body frame instead"},
		{"body too long", append(append(m(1, pub), header(60, 3)...), body(1, 4)...), 501, "the body is longer than its header says"},
		{"bad properties", append(m(1, pub), closeFrame(append(openFrame(nil, frameHeader, 1), 0, 60, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff), 0)...), 501, "read content properties"},
		{"short header", append(m(1, pub), closeFrame(append(openFrame(nil, frameHeader, 1), 0, 60), 0)...), 501, "a content header of 2 octets"},
	}
	for _, tt := range tests {
		r := rawDial(t, addr)
		r.begin(usualTune, nil)
		r.openChannel(1)
		r.write(tt.send)
		c := expect[*connectionClose](r)
		if c.ReplyCode != tt.code || !strings.Contains(c.ReplyText, tt.text) || !strings.HasPrefix(c.ReplyText, CodeName(tt.code)) {
			t.Errorf("%s: %d %q, want %d with %q", tt.name, c.ReplyCode, c.ReplyText, tt.code, tt.text)
		}
		r.send(0, &connectionCloseOk{})
		_ = r.nc.(*net.TCPConn).CloseWrite() // where frames cannot be told apart any more the server waits for the end
		r.wantEnd()
	}
	// While the server goes on, nothing is left of those connections.
	for deadline := time.Now().Add(30 * time.Second); ; {
		err := goleak.Find(running)
		if err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

func TestChannelMax(t *testing.T) {
	_, addr := serve(t, newFakeBroker(), Config{})
	r := rawDial(t, addr)
	r.begin(connectionTuneOk{ChannelMax: 2, FrameMax: 4096}, nil)
	r.openChannel(1)
	r.openChannel(2)
	r.send(2, &channelClose{})
	expect[*channelCloseOk](r)
	r.openChannel(2)
	r.send(3, &channelOpen{})
	if c := expect[*connectionClose](r); c.ReplyCode != 530 ||
		c.ReplyText != "NOT_ALLOWED - number of channels opened (2) has reached the negotiated channel_max (2)" {
		t.Errorf("%+v", c)
	}
}

// TestChannelExceptionDiscards: after channel.close the client's frames on the channel are discarded until close-ok, and the
// number can be used again; other channels do not notice.
func TestChannelExceptionDiscards(t *testing.T) {
	b := newFakeBroker()
	_, addr := serve(t, b, Config{})
	r := rawDial(t, addr)
	r.begin(usualTune, nil)
	r.openChannel(1)
	r.openChannel(2)
	r.send(1, &basicAck{DeliveryTag: 9})
	if n, m := r.receive(); n != 1 || m.(*channelClose).ReplyCode != 406 || m.(*channelClose).ClassId != 60 || m.(*channelClose).MethodId != 80 {
		t.Errorf("channel %d: %+v", n, m)
	}
	r.send(1, &basicPublish{}, &queueDeclare{Queue: "ignored"}, &basicAck{DeliveryTag: 10})
	r.send(2, &queueDeclare{Queue: "q"})
	expect[*queueDeclareOk](r)
	r.send(1, &channelCloseOk{})
	r.openChannel(1)
	r.send(1, &channelClose{}, &channelCloseOk{}) // a stray close-ok harms nothing
	expect[*channelCloseOk](r)
	r.openChannel(1)
	if b.count(func() int { return len(b.queues) }) != 1 {
		t.Error("a discarded method was carried out")
	}
}

// TestChannelCloseCrossing: client and server close the channel at the same time.
func TestChannelCloseCrossing(t *testing.T) {
	_, addr := serve(t, newFakeBroker(), Config{})
	r := rawDial(t, addr)
	r.begin(usualTune, nil)
	r.openChannel(1)
	r.send(1, &basicAck{DeliveryTag: 9})
	expect[*channelClose](r)
	r.send(1, &channelClose{})
	expect[*channelCloseOk](r)
	r.send(1, &channelCloseOk{})
	r.openChannel(1)
}

func TestFramesKeepFrameMax(t *testing.T) {
	_, addr := serve(t, newFakeBroker(), Config{})
	r := rawDial(t, addr)
	r.begin(connectionTuneOk{ChannelMax: 1, FrameMax: 4096}, nil)
	r.fr.max = 4096
	r.openChannel(1)
	r.send(1, &queueDeclare{Queue: "q"})
	expect[*queueDeclareOk](r)
	content := bytes.Repeat([]byte("x"), 10_000)
	b := appendMethodFrame(nil, 1, &basicPublish{RoutingKey: "q"})
	b = appendHeaderFrame(b, 1, len(content), []byte{0, 0})
	for rest := content; len(rest) > 0; {
		n := min(len(rest), 3000)
		start := len(b)
		b = closeFrame(append(openFrame(b, frameBody, 1), rest[:n]...), start)
		rest = rest[n:]
	}
	r.write(b)
	r.send(1, &basicGet{Queue: "q", NoAck: true})
	expect[*basicGetOk](r)
	var got []byte
	for len(got) < len(content) {
		f, err := r.fr.next()
		if err != nil {
			t.Fatal(err)
		}
		p, err := r.fr.payload(f)
		if err != nil {
			t.Fatal(err)
		}
		if f.typ == frameBody {
			got = append(got, p...)
		}
	}
	if !bytes.Equal(got, content) {
		t.Error("the body differs")
	}
}

func TestRecover(t *testing.T) {
	_, addr := serve(t, newFakeBroker(), Config{})
	r := rawDial(t, addr)
	r.begin(usualTune, nil)
	r.openChannel(1)
	r.send(1, &queueDeclare{Queue: "q"}, &basicPublish{RoutingKey: "q"})
	expect[*queueDeclareOk](r)
	r.write(appendHeaderFrame(nil, 1, 0, nil))
	r.send(1, &basicGet{Queue: "q"}, &basicGet{Queue: "q"}, &basicRecover{Requeue: true}, &basicRecoverAsync{Requeue: true}, &basicGet{Queue: "q"})
	expect[*basicGetOk](r)
	if _, err := r.fr.next(); err != nil { // the content header
		t.Fatal(err)
	}
	if err := r.fr.into(frame{}, make([]byte, headerFixed+2)); err != nil {
		t.Fatal(err)
	}
	expect[*basicGetEmpty](r)
	expect[*basicRecoverOk](r)
	if m := expect[*basicGetOk](r); !m.Redelivered || m.DeliveryTag != 2 {
		t.Errorf("after recover: %+v", m)
	}
}

func TestUpdateSecret(t *testing.T) {
	b := newFakeBroker()
	_, addr := serve(t, b, Config{})
	r := rawDial(t, addr)
	r.begin(usualTune, nil)
	r.send(0, &connectionUpdateSecret{NewSecret: "new", Reason: "old"})
	expect[*connectionUpdateSecretOk](r)
	if b.secret != "new" {
		t.Errorf("secret %q", b.secret)
	}
}

func TestUnfinishedPublishIsForgotten(t *testing.T) {
	b := newFakeBroker()
	_, addr := serve(t, b, Config{})
	r := rawDial(t, addr)
	r.begin(usualTune, nil)
	r.openChannel(1)
	r.send(1, &basicPublish{RoutingKey: "q"})
	r.write(appendHeaderFrame(nil, 1, 1<<27, []byte{0, 0})) // promises 128 MiB
	r.write(closeFrame(append(openFrame(nil, frameBody, 1), 1, 2, 3), 0))
	_ = r.nc.Close()
	eventually(t, "the session is closed", func() bool { return b.count(func() int { return b.sessions }) == 0 })
	if b.published != 0 {
		t.Error("an unfinished publish was handed over")
	}
}

// TestChannelNumbersAreUsedAgain: quickly, beside a channel that stays open.
func TestChannelNumbersAreUsedAgain(t *testing.T) {
	b := newFakeBroker()
	_, addr := serve(t, b, Config{})
	r := rawDial(t, addr)
	r.begin(connectionTuneOk{ChannelMax: 3, FrameMax: 4096}, nil)
	r.openChannel(2)
	var many []byte
	const n = 500
	for range n {
		many = appendMethodFrame(appendMethodFrame(many, 1, &channelOpen{}), 1, &channelClose{})
	}
	r.write(many)
	opened, closed := 0, 0 // in no order: such a client does not wait for close-ok, as it should
	for range 2 * n {
		switch _, m := r.receive(); m.(type) {
		case *channelOpenOk:
			opened++
		case *channelCloseOk:
			closed++
		}
	}
	if opened != n || closed != n {
		t.Errorf("%d opened, %d closed, want %d", opened, closed, n)
	}
	if open := b.count(func() int { return b.channels }); open != 1 {
		t.Errorf("%d channels are open at the backend", open)
	}
}
