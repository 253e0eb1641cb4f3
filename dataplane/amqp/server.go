package amqp

import (
	"log/slog"
	"time"
)

// Config of a [Server]. The zero value of a field means its default.
type Config struct {
	FrameMax         uint32        // octets; 131072
	ChannelMax       uint16        // 2047
	Heartbeat        time.Duration // 60 s; negative: off
	MaxMessageSize   int64         // octets of a body; 134217728
	HandshakeTimeout time.Duration // from accept to connection.open; 10 s
	CloseTimeout     time.Duration // wait for close-ok and for a backend's Close; 5 s
	WindowMessages   int           // deliveries under way per consumer; 256
	WindowBytes      int64         // their bodies; 1 MiB
	MaxUnconfirmed   int           // publishes of a channel that wait for their confirm; 65536
	MaxConnections   int           // at once; 0: no limit
	Version          string        // server-properties: version
	ClusterName      string        // server-properties: cluster_name
	Logger           *slog.Logger  // slog.Default()
}
