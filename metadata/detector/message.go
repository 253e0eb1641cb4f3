package detector

import (
	"bytes"
	"fmt"

	"github.com/vmihailenco/msgpack/v5"
)

// maxHeartbeat bounds what is decoded.
const maxHeartbeat = 4096

// heartbeat is the payload between two nodes: a msgpack map, unknown fields are skipped.
type heartbeat struct {
	Incarnation uint64 `msgpack:"i"` // of the sender
	Seq         uint64 `msgpack:"q"` // the sender's count of heartbeats; grants name it
	Leader      string `msgpack:"l"` // whom the sender takes for the Raft leader and reaches, "" for none
	Term        uint64 `msgpack:"t"`
	Applied     uint64 `msgpack:"a"` // newest metadata command applied at the sender
	// Grant: the sender will not act as master of a queue whose master the receiver's incarnation Holder is. Answers is the Seq
	// of the receiver's heartbeat that it answers. Holder 0: no grant.
	Holder  uint64 `msgpack:"h"`
	Answers uint64 `msgpack:"w"`
	// Heard is the Seq of the receiver's newest heartbeat that the sender has heard, of its incarnation HeardOf. 0: none yet, or the
	// sender is of a version that does not say.
	HeardOf uint64 `msgpack:"o"`
	Heard   uint64 `msgpack:"e"`
	// Ask: send a heartbeat back at once.
	Ask bool `msgpack:"k"`
}

func (h *heartbeat) encode() []byte {
	var b bytes.Buffer
	enc := msgpack.NewEncoder(&b)
	enc.UseCompactInts(true)
	if err := enc.Encode(h); err != nil {
		panic(fmt.Sprintf("encode heartbeat: %v", err)) // a struct of numbers and strings always encodes
	}
	return b.Bytes()
}

func decodeHeartbeat(p []byte) (h heartbeat, err error) {
	if len(p) > maxHeartbeat {
		return h, fmt.Errorf("heartbeat of %d bytes", len(p))
	}
	if err := msgpack.NewDecoder(bytes.NewReader(p)).Decode(&h); err != nil {
		return h, fmt.Errorf("decode heartbeat: %w", err)
	}
	return h, nil
}
