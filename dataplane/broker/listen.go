package broker

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"

	"warren/dataplane/broker/clienttls"
	"warren/dataplane/broker/config"
)

// listenNetwork is the network of a clients' listener: one on "::" takes IPv4 as well, unless another one of the same port does.
func listenNetwork(l config.Listener, all []config.Listener) string {
	for _, other := range all {
		if l.Host == "::" && other.Host == "0.0.0.0" && other.Port == l.Port {
			return "tcp6"
		}
	}
	return "tcp"
}

// openClientTLS reads the certificates of the TLS listeners.
func (n *Node) openClientTLS() (err error) {
	if len(n.cfg.clientTLSListeners()) > 0 {
		n.clientTLS, err = clienttls.Open(n.cfg.ClientTLS, n.log)
	}
	return err
}

// tryListen finds out early whether the clients' addresses are free, so that a node does not first join its cluster.
func (n *Node) tryListen() error {
	open, err := n.listenAll()
	for _, ln := range open {
		err = errors.Join(err, ln.Close())
	}
	return err
}

// listenAll opens all listeners for clients, in their order, or none.
func (n *Node) listenAll() (open []net.Listener, err error) {
	settings := net.ListenConfig{KeepAlive: -1}
	if n.cfg.TCP.KeepAlive {
		settings.KeepAlive = 0 // the usual interval
	}
	plain, secure := n.cfg.clientListeners(), n.cfg.clientTLSListeners()
	all := slices.Concat(plain, secure)
	for i, l := range all {
		ln, err := settings.Listen(context.Background(), listenNetwork(l, all), l.Address())
		if err != nil {
			for _, before := range open {
				_ = before.Close() // nothing was accepted
			}
			return nil, fmt.Errorf("AMQP listener: %w", err)
		}
		ln = tunedListener{ln, n.cfg.TCP}
		if i >= len(plain) {
			ln = tls.NewListener(ln, n.clientTLS.ServerConfig())
		}
		open = append(open, ln)
	}
	return open, nil
}

// tunedListener sets the options of the sockets that it accepts.
type tunedListener struct {
	net.Listener
	options config.TCP
}

// Accept implements net.Listener. A connection whose options cannot be set is gone already: its reader finds that out.
func (l tunedListener) Accept() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	tcp, ok := nc.(*net.TCPConn)
	if err != nil || !ok {
		return nc, err
	}
	o := l.options
	if !o.NoDelay { // Go's default is on
		_ = tcp.SetNoDelay(false)
	}
	if o.SendBuffer > 0 {
		_ = tcp.SetWriteBuffer(o.SendBuffer)
	}
	if o.ReceiveBuffer > 0 {
		_ = tcp.SetReadBuffer(o.ReceiveBuffer)
	}
	if o.Linger {
		_ = tcp.SetLinger(int(o.LingerTime.Seconds()))
	}
	return nc, nil
}
