package amqp

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"net"
	"testing"
	"time"
)

// FuzzConnection sends arbitrary octets on a connection that has a channel open. Whatever they are, the server neither
// panics nor keeps anything once the client is gone.
func FuzzConnection(f *testing.F) {
	pub := appendMethodFrame(nil, 1, &basicPublish{RoutingKey: "q"})
	whole := appendHeaderFrame(append([]byte{}, pub...), 1, 3, []byte{0x10, 0, 2})
	start := len(whole)
	whole = closeFrame(append(openFrame(whole, frameBody, 1), "abc"...), start)
	f.Add(whole)
	for _, m := range []method{&queueDeclare{Queue: "q"}, &basicConsume{Queue: "q"}, &basicGet{Queue: "q"}, &basicAck{Multiple: true},
		&channelClose{}, &channelOpen{}, &confirmSelect{}, &txSelect{}, &txCommit{}, &basicRecover{Requeue: true}, &exchangeDeclare{Exchange: "e", Type: "fanout"}} {
		f.Add(append(appendMethodFrame(nil, 1, m), whole...))
	}
	f.Add(appendMethodFrame(nil, 0, &connectionClose{}))
	f.Fuzz(func(t *testing.T, octets []byte) {
		b := newFakeBroker()
		s := NewServer(Config{Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), CloseTimeout: 5 * time.Second}, b)
		client, server := net.Pipe()
		s.start(server)
		r := &rawClient{t: t, nc: client, fr: frameReader{max: 1 << 20, br: bufio.NewReader(client)}}
		r.begin(usualTune, nil)
		r.openChannel(1)
		drained := make(chan struct{})
		go func() {
			_, _ = io.Copy(io.Discard, client) // until either side closes
			close(drained)
		}()
		_, _ = client.Write(octets) // the server may have closed the connection
		_ = client.Close()
		<-drained
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := s.Shutdown(ctx, "over"); err != nil {
			t.Fatal(err)
		}
		if b.sessions != 0 || b.channels != 0 {
			t.Fatalf("%d sessions, %d channels left", b.sessions, b.channels)
		}
	})
}
