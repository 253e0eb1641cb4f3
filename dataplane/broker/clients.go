package broker

import (
	"context"
	"crypto/x509"
	"errors"
	"math"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"warren/dataplane/amqp"
	"warren/dataplane/broker/clienttls"
	"warren/dataplane/broker/config"
)

// clients is the AMQP server of a life while it serves clients.
type clients struct {
	server    *amqp.Server
	listeners []net.Listener
	suspended atomic.Bool // an operator had the listeners closed
	done      sync.WaitGroup
}

// serve begins to serve clients, unless the node is paused.
func (l *life) serve() {
	l.clientsMu.Lock()
	l.serving = true
	l.clientsMu.Unlock()
	l.pauseChanged()
}

// pauseChanged has the clients' listeners follow whether the node is paused; it does not wait.
func (l *life) pauseChanged() { l.spawn(l.followPause) }

func (l *life) followPause() {
	l.clientsMu.Lock()
	defer l.clientsMu.Unlock()
	why := l.whyNoClients()
	switch {
	case !l.serving || l.ctx.Err() != nil:
	case why != "" && l.clients != nil:
		l.log.Warn("clients are sent away", "reason", why)
		l.closeClients(why)
	case why == "" && l.clients == nil:
		if err := l.openClients(); err != nil {
			l.fail(err)
		}
		l.spawn(l.followAlarms)
	}
}

// serverConfig is the AMQP server's part of the configuration.
func (l *life) serverConfig() amqp.Config {
	cfg := l.node.cfg
	c := amqp.Config{
		FrameMax: cfg.FrameMax, ChannelMax: cfg.ChannelMax, Heartbeat: cfg.Heartbeat, Version: cfg.Version,
		ConsumerTimeout: cfg.ConsumerTimeout, HandshakeTimeout: cfg.HandshakeTimeout, MaxMessageSize: cfg.MaxMessageSize, MaxConnections: cfg.ConnectionMax,
		ClusterName: cfg.ClusterName, Logger: l.log, WindowMessages: int(consumerWindow.Count), WindowBytes: consumerWindow.Bytes,
		Capabilities: []string{"consumer_priorities", "direct_reply_to"},
	}
	c.TLSTimeout, c.Mechanisms = cfg.TLSHandshakeTimeout, cfg.AuthMechanisms
	c.CertUser = func(cert *x509.Certificate) (string, error) { return clienttls.User(cert, cfg.CertLogin) }
	if c.Heartbeat == 0 {
		c.Heartbeat = -1
	}
	if c.FrameMax == 0 {
		c.FrameMax = config.MaxFrame
	}
	if c.ChannelMax == 0 {
		c.ChannelMax = math.MaxUint16
	}
	return c
}

// openClients and closeClients are called with clientsMu held.
func (l *life) openClients() (err error) {
	c := &clients{server: amqp.NewServer(l.serverConfig(), backend{l})}
	if err = l.accept(c); err == nil {
		l.clients = c
	}
	return err
}

// accept opens the listeners of c; clientsMu is held.
func (l *life) accept(c *clients) (err error) {
	if c.listeners, err = l.node.listenAll(); err != nil {
		return err
	}
	for _, ln := range c.listeners {
		c.done.Go(func() {
			if err := c.server.Serve(ln); !errors.Is(err, amqp.ErrServerClosed) && !c.suspended.Load() {
				l.fail(err)
			}
		})
		l.log.Info("serving AMQP clients", "address", ln.Addr().String())
	}
	return nil
}

// SuspendListeners closes this node's listeners for clients; those that are connected stay. A node that is paused or drained has
// no listeners, and forgets that they were suspended. Error: ErrNotUp.
func (n *Node) SuspendListeners() error {
	l := n.currentLife()
	if l == nil {
		return ErrNotUp
	}
	l.clientsMu.Lock()
	defer l.clientsMu.Unlock()
	c := l.clients
	if c == nil || c.suspended.Swap(true) {
		return nil
	}
	for _, ln := range c.listeners {
		_ = ln.Close() // nothing is accepted any more either way
	}
	c.done.Wait()
	l.log.Warn("the listeners for clients were suspended by an operator")
	return nil
}

// ResumeListeners opens them again. Errors: ErrNotUp, or why an address cannot be had.
func (n *Node) ResumeListeners() error {
	l := n.currentLife()
	if l == nil {
		return ErrNotUp
	}
	l.clientsMu.Lock()
	defer l.clientsMu.Unlock()
	c := l.clients
	if c == nil || !c.suspended.Swap(false) {
		return nil
	}
	if err := l.accept(c); err != nil {
		c.suspended.Store(true)
		return err
	}
	return nil
}

func (l *life) closeClients(text string) {
	if l.clients == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := l.clients.server.Shutdown(ctx, text); err != nil {
		l.log.Warn("some clients did not close in time", "error", err)
	}
	l.clients.done.Wait()
	l.clients = nil
}
