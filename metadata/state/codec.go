package state

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/vmihailenco/msgpack/v5"
)

// A command in the Raft log:
//
//	byte 0     format, 1
//	byte 1-2   number of the command, big endian; the highest bit is the skip bit
//	then       Request, a msgpack map
//	then       the command, a msgpack map
//
// Unknown fields are skipped (upgrades.md). An unknown number stops the node, because skipping it would make replicas
// diverge, unless the skip bit says that a node that does not know the command may do without it.

const (
	commandFormat = 1
	skipBit       = 0x8000
	headerBytes   = 3
)

// Request makes a repeated proposal harmless: a command with the Session and Seq of one that was applied gets that one's
// result. The zero Request is not remembered.
type Request struct {
	// Session is the proposing process's random number, not 0.
	Session uint64 `msgpack:"s"`
	// Seq counts that process's proposals from 1.
	Seq uint64 `msgpack:"q"`
	// Lowest is the lowest Seq that it may still repeat; results below are forgotten.
	Lowest uint64 `msgpack:"l"`
}

// errUnknown: the command's number is not known here.
var errUnknown = errors.New("unknown command")

// Encode lays out a command for the Raft log.
func Encode(cmd Command, req Request) ([]byte, error) {
	b := bytes.NewBuffer(binary.BigEndian.AppendUint16([]byte{commandFormat}, cmd.number()))
	enc := newEncoder(b)
	if err := enc.Encode(&req); err != nil {
		return nil, fmt.Errorf("encode request of command %d: %w", cmd.number(), err)
	}
	if err := enc.Encode(cmd); err != nil {
		return nil, fmt.Errorf("encode command %d: %w", cmd.number(), err)
	}
	return b.Bytes(), nil
}

// Decode reads what Encode wrote. skip is true, and cmd nil, for an unknown command with the skip bit.
func Decode(data []byte) (cmd Command, req Request, skip bool, err error) {
	if len(data) < headerBytes || data[0] != commandFormat {
		return nil, req, false, fmt.Errorf("decode command: not format %d (%d bytes)", commandFormat, len(data))
	}
	number := binary.BigEndian.Uint16(data[1:])
	cmd = newCommand(number &^ skipBit)
	if cmd == nil {
		if number&skipBit != 0 {
			return nil, req, true, nil
		}
		return nil, req, false, fmt.Errorf("decode command %d: %w", number, errUnknown)
	}
	dec := msgpack.NewDecoder(bytes.NewReader(data[headerBytes:]))
	if err := dec.Decode(&req); err != nil {
		return nil, req, false, fmt.Errorf("decode request of command %d: %w", number, err)
	}
	if err := dec.Decode(cmd); err != nil {
		return nil, req, false, fmt.Errorf("decode command %d: %w", number, err)
	}
	return cmd, req, false, nil
}

func newEncoder(b *bytes.Buffer) *msgpack.Encoder {
	enc := msgpack.NewEncoder(b)
	enc.UseCompactInts(true)
	return enc
}

// newCommand is an empty command of that number, nil if there is none.
func newCommand(number uint16) Command {
	for _, c := range commands() {
		if c.number() == number {
			return c
		}
	}
	return nil
}

func commands() []Command {
	return append([]Command{&InitCluster{}, &NodeUp{}, &NodesDown{}, &MirrorReady{}, &MirrorSynchronised{}, &MirrorUnsynchronised{},
		&RecoverQueue{}, &MasterActing{}, &TransferMaster{}, &KeepMaster{}, &DropMirror{}, &ReplaceMirror{}, &DeclareQueue{},
		&DeleteQueue{}, &SetHadConsumers{}, &DeclareExchange{}, &DeleteExchange{}, &Bind{}, &Unbind{}, &SetPolicy{},
		&ClearPolicy{}, &AddVhost{}, &DeleteVhost{}, &PutUser{}, &DeleteUser{}, &SetPermission{}, &ClearPermission{}, &PromoteMirror{}},
		append(operatorCommands(), lifecycleCommands()...)...)
}
