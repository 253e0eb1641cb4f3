package link

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/vmihailenco/msgpack/v5"
)

const (
	maxHello    = 16 << 10
	maxFeatures = 256
	maxName     = 255
)

// wireHello is Hello on the wire (doc.go). Keyed, so that fields can be added.
type wireHello struct {
	Cluster     string   `msgpack:"cluster"`
	Node        string   `msgpack:"node"`
	Incarnation uint64   `msgpack:"incarnation"`
	Lo          int      `msgpack:"lo"`
	Hi          int      `msgpack:"hi"`
	Features    []string `msgpack:"features"`
	Ask         bool     `msgpack:"ask"`
	Addr        string   `msgpack:"addr,omitempty"`
}

type wireReply struct {
	Hello    wireHello `msgpack:"hello"`
	Code     int       `msgpack:"code"`
	Text     string    `msgpack:"text"`
	Protocol int       `msgpack:"protocol"`
}

type wireAck struct {
	Code int    `msgpack:"code"`
	Text string `msgpack:"text"`
}

func (t *Transport) hello() wireHello {
	h := t.cfg.Hello()
	if h.Min == 0 && h.Max == 0 {
		h.Min, h.Max = MinProtocol, MaxProtocol
	}
	return wireHello{
		Cluster: h.Cluster, Node: t.cfg.Node, Incarnation: h.Incarnation, Lo: h.Min, Hi: h.Max, Features: h.Features, Addr: h.Addr,
	}
}

func (h wireHello) public() Hello {
	return Hello{Cluster: h.Cluster, Node: h.Node, Incarnation: h.Incarnation, Min: h.Lo, Max: h.Hi, Features: h.Features, Addr: h.Addr}
}

func (h wireHello) validate() error {
	switch {
	case h.Node == "" || len(h.Node) > maxName:
		return fmt.Errorf("%w: node name of %d bytes", ErrHandshake, len(h.Node))
	case len(h.Cluster) > maxName:
		return fmt.Errorf("%w: cluster id of %d bytes", ErrHandshake, len(h.Cluster))
	case len(h.Addr) > maxName:
		return fmt.Errorf("%w: address of %d bytes", ErrHandshake, len(h.Addr))
	case h.Lo < 1 || h.Hi < h.Lo:
		return fmt.Errorf("%w: protocol versions %d to %d", ErrHandshake, h.Lo, h.Hi)
	case len(h.Features) > maxFeatures:
		return fmt.Errorf("%w: %d feature flags", ErrHandshake, len(h.Features))
	}
	return nil
}

// judge compares two hellos and returns the protocol version to speak, or why the two nodes must not be linked.
func judge(own, other wireHello) (int, *RefusedError) {
	switch {
	case own.Node == other.Node:
		return 0, &RefusedError{Node: other.Node, code: codeNameClash, Text: fmt.Sprintf(
			"a node with incarnation %d bears the name %s of this node (incarnation %d)", other.Incarnation, own.Node, own.Incarnation)}
	case own.Cluster != "" && other.Cluster != "" && own.Cluster != other.Cluster:
		return 0, &RefusedError{Node: other.Node, code: codeCluster, Text: fmt.Sprintf(
			"%s is in cluster %q, %s in cluster %q", own.Node, own.Cluster, other.Node, other.Cluster)}
	}
	protocol := min(own.Hi, other.Hi)
	if protocol < own.Lo || protocol < other.Lo {
		return 0, &RefusedError{Node: other.Node, code: codeVersion, Text: fmt.Sprintf(
			"%s speaks protocol versions %d to %d, %s speaks %d to %d", own.Node, own.Lo, own.Hi, other.Node, other.Lo, other.Hi)}
	}
	return protocol, nil
}

func writeMessage(w io.Writer, v any) error {
	var buf bytes.Buffer
	buf.Write(make([]byte, 4))
	enc := msgpack.NewEncoder(&buf)
	enc.UseCompactInts(true)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("link: encode %T: %w", v, err)
	}
	if buf.Len()-4 > maxHello {
		return fmt.Errorf("%w: own %T has %d bytes, at most %d are allowed", ErrHandshake, v, buf.Len()-4, maxHello)
	}
	b := buf.Bytes()
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	if _, err := w.Write(b); err != nil {
		return fmt.Errorf("link: send %T: %w", v, err)
	}
	return nil
}

func readMessage(r io.Reader, v any) error {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return fmt.Errorf("link: read the length of %T: %w", v, err)
	}
	n := binary.BigEndian.Uint32(size[:])
	if n > maxHello {
		return fmt.Errorf("%w: %T of %d bytes, at most %d are allowed", ErrHandshake, v, n, maxHello)
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(r, b); err != nil {
		return fmt.Errorf("link: read %T: %w", v, err)
	}
	if err := Unmarshal(b, v); err != nil {
		return fmt.Errorf("%w: %T: %w", ErrHandshake, v, err)
	}
	return nil
}
