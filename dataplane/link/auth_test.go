package link

import (
	"bytes"
	"context"
	"crypto/hmac"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestDialWrongCookie(t *testing.T) {
	var log lockedBuffer
	n := start(t, "a@h", func(c *Config) { c.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	n.Handle(ProtoAdmin, func(c net.Conn) { _ = c.Close() })
	for range 3 {
		_, err := DialAuthenticated(t.Context(), n.Addr().String(), ProtoAdmin, []byte("another cookie"), nil)
		if !errors.Is(err, ErrCookie) {
			t.Fatalf("dialed with another cookie: %v", err)
		}
	}
	// The listener logs after it has answered.
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	out := log.String()
	if strings.Count(out, "cookies of the two sides differ") != 1 || !strings.Contains(out, "remote=127.0.0.1:") {
		t.Errorf("want one line with the remote address, got %q", out)
	}
	if strings.Contains(out, testCookie) || strings.Contains(out, "another cookie") {
		t.Error("a cookie was logged")
	}
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func TestDialUnknownProtocolAndVersion(t *testing.T) {
	n := start(t, "a@h", nil)
	_, err := DialAuthenticated(t.Context(), n.Addr().String(), 'X', []byte(testCookie), nil)
	if !errors.Is(err, ErrProtoUnknown) {
		t.Errorf("unknown protocol: %v", err)
	}
	c, err := net.Dial("tcp", n.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	msg := make([]byte, 2+nonceSize)
	msg[0], msg[1] = byte(ProtoPeer), 99
	if _, err := c.Write(msg); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(c)
	if err != nil || len(answer) != 2+nonceSize || answer[0] != authVersion || answer[1] != statusVersion {
		t.Errorf("version 99 answered with % x, %v", answer, err)
	}
}

// A server that does not know the cookie must not pass, whatever it answers: neither the client's own proof sent back
// nor a success without proof.
func TestClientWantsProof(t *testing.T) {
	for _, reflect := range []bool{true, false} {
		client, server := net.Pipe()
		var wg sync.WaitGroup
		wg.Go(func() {
			defer server.Close()
			hello := make([]byte, 2+nonceSize)
			if _, err := io.ReadFull(server, hello); err != nil {
				return
			}
			answer := append([]byte{authVersion, statusOK}, hello[2:]...) // the client's own nonce
			if _, err := server.Write(answer); err != nil {
				return
			}
			verdict := make([]byte, 1+macSize)
			if _, err := io.ReadFull(server, verdict[1:]); err != nil {
				return
			}
			if !reflect {
				clear(verdict)
			}
			_, _ = server.Write(verdict)
		})
		err := clientAuth(client, ProtoPeer, []byte(testCookie))
		wg.Wait()
		if !errors.Is(err, ErrCookie) {
			t.Errorf("reflect %v: %v", reflect, err)
		}
	}
}

func TestProofBindsRoleProtocolAndNonces(t *testing.T) {
	c, s := bytes.Repeat([]byte{1}, nonceSize), bytes.Repeat([]byte{2}, nonceSize)
	base := proof([]byte(testCookie), "client", ProtoPeer, c, s)
	for name, other := range map[string][]byte{
		"role":     proof([]byte(testCookie), "server", ProtoPeer, c, s),
		"protocol": proof([]byte(testCookie), "client", ProtoRaft, c, s),
		"nonces":   proof([]byte(testCookie), "client", ProtoPeer, s, c),
		"cookie":   proof([]byte(testCookie+"x"), "client", ProtoPeer, c, s),
	} {
		if hmac.Equal(base, other) {
			t.Errorf("the proof does not depend on the %s", name)
		}
	}
}

// Somebody who connects and says nothing is thrown out after HandshakeTimeout.
func TestSilentConnectionIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := net.Pipe()
		defer client.Close()
		_ = server.SetDeadline(time.Now().Add(HandshakeTimeout))
		began := time.Now()
		_, err := serverAuth(server, []byte(testCookie), func(Proto) bool { return true })
		var ne net.Error
		if !errors.As(err, &ne) || !ne.Timeout() || time.Since(began) != HandshakeTimeout {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}

func TestDialContextEnds(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0") // never answers
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := DialAuthenticated(ctx, ln.Addr().String(), ProtoAdmin, []byte(testCookie), nil); err == nil {
		t.Fatal("dialed a server that does not answer")
	}
}

func FuzzServerAuth(f *testing.F) {
	f.Add([]byte{'L', authVersion})
	f.Add(bytes.Repeat([]byte{'L', authVersion, 0xff}, 40))
	f.Fuzz(func(t *testing.T, in []byte) {
		out := new(bytes.Buffer)
		rw := struct {
			io.Reader
			io.Writer
		}{bytes.NewReader(in), out}
		if _, err := serverAuth(rw, []byte(testCookie), func(p Proto) bool { return p == ProtoPeer }); err == nil {
			t.Fatal("random bytes proved the cookie")
		}
		if out.Len() > 2+nonceSize+1+macSize {
			t.Fatalf("answered with %d bytes", out.Len())
		}
	})
}

// claims is a hello with an unknown field that claims 800 MB.
const claims = "\x00\x00\x000\x87\xa700000000\xa40000\x860\xc9000000000000000000000000000000"

// TestHelloAllocatesNoClaim: what a hello claims is not allocated before it has arrived.
func TestHelloAllocatesNoClaim(t *testing.T) {
	for range 20 { // a decoder that is used again must not have grown
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		var h wireHello
		if err := readMessage(strings.NewReader(claims), &h); !errors.Is(err, ErrHandshake) {
			t.Errorf("got %v", err)
		}
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > 4<<20 {
			t.Fatalf("%d bytes were allocated", n)
		}
	}
}

func FuzzReadMessage(f *testing.F) {
	var b bytes.Buffer
	if err := writeMessage(&b, wireHello{Node: "a@h", Lo: 1, Hi: 2, Features: []string{"x"}}); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add([]byte(claims))
	f.Fuzz(func(t *testing.T, in []byte) {
		var h wireHello
		if err := readMessage(bytes.NewReader(in), &h); err != nil {
			return
		}
		if len(in) < 4 || binary.BigEndian.Uint32(in) > maxHello {
			t.Fatal("an oversize message was read")
		}
		_ = h.validate()
		_, _ = judge(wireHello{Node: "b@h", Lo: 1, Hi: 1}, h)
		var r wireReply
		_ = readMessage(bytes.NewReader(in), &r)
	})
}
