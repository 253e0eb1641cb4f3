package admin

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/vmihailenco/msgpack/v5"

	"warren/dataplane/link"
)

// Version is the version of the protocol that this package speaks. It is raised only when an older peer could not
// understand a frame; new commands and new fields do not need it.
const Version = 1

// Limits. A peer that exceeds a size is answered with CodeBadRequest and the connection is closed.
const (
	MaxRequest = 1 << 20   // bytes of a request
	MaxAnswer  = 16 << 20  // bytes of one frame of an answer (one row)
	MaxTimeout = time.Hour // of one request; more is cut down to it

	// idleTimeout is how long a connection may be open between two requests, frameTimeout how long the peer may take to
	// accept one frame or to finish one that it began.
	idleTimeout  = 2 * time.Minute
	frameTimeout = 30 * time.Second
	flushAfter   = 50 * time.Millisecond // rows wait for company no longer than this
)

// request is what a client sends.
type request struct {
	Version int                `msgpack:"v"`
	Command string             `msgpack:"cmd"`
	Timeout int64              `msgpack:"timeout"` // milliseconds; 0: MaxTimeout
	Args    msgpack.RawMessage `msgpack:"args"`
}

// answer is one frame of what a node sends back.
type answer struct {
	Kind string             `msgpack:"k"`
	Row  msgpack.RawMessage `msgpack:"row,omitempty"`
	Code Code               `msgpack:"code,omitempty"`
	Text string             `msgpack:"text,omitempty"`
}

// Kinds of answer frames.
const (
	kindRow   = "row"
	kindEnd   = "end"
	kindError = "error"
)

// errTooLarge is a frame above the limit of its direction.
var errTooLarge = errors.New("frame too large")

// marshal leaves out fields that are zero, as most are in a list of queues, and writes small numbers in few bytes.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := msgpack.NewEncoder(&b)
	enc.SetOmitEmpty(true)
	enc.UseCompactInts(true)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("encode msgpack: %w", err)
	}
	return b.Bytes(), nil
}

// writeFrame encodes v and writes it with its length; limit is the largest that the other end accepts.
func writeFrame(w io.Writer, v any, limit int) error {
	body, err := marshal(v)
	if err != nil {
		return fmt.Errorf("encode admin frame: %w", err)
	}
	if len(body) > limit {
		return fmt.Errorf("write admin frame of %d bytes, limit %d: %w", len(body), limit, errTooLarge)
	}
	frame := make([]byte, 4, 4+len(body))
	binary.BigEndian.PutUint32(frame, uint32(len(body)))
	if _, err := w.Write(append(frame, body...)); err != nil {
		return fmt.Errorf("write admin frame: %w", err)
	}
	return nil
}

// readFrame reads one frame into v. io.EOF, unwrapped, means that the peer closed between two frames.
func readFrame(r *bufio.Reader, v any, limit int) error {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return io.EOF
		}
		return fmt.Errorf("read admin frame: %w", err)
	}
	n := binary.BigEndian.Uint32(head[:])
	if uint64(n) > uint64(limit) {
		return fmt.Errorf("read admin frame of %d bytes, limit %d: %w", n, limit, errTooLarge)
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(r, body); err != nil {
		return fmt.Errorf("read admin frame of %d bytes: %w", n, err)
	}
	if err := link.Unmarshal(body, v); err != nil {
		return fmt.Errorf("decode admin frame: %w", err)
	}
	return nil
}
