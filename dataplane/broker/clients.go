package broker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"warren/dataplane/amqp"
)

// clients is the AMQP server of a life while it serves clients.
type clients struct {
	server    *amqp.Server
	listeners []net.Listener
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

// openClients and closeClients are called with clientsMu held.
func (l *life) openClients() error {
	cfg := l.node.cfg
	heartbeat := cfg.Heartbeat
	if heartbeat == 0 {
		heartbeat = -1
	}
	c := &clients{server: amqp.NewServer(amqp.Config{
		FrameMax: cfg.FrameMax, ChannelMax: cfg.ChannelMax, Heartbeat: heartbeat, Version: cfg.Version,
		ClusterName: cfg.ClusterName, Logger: l.log, WindowMessages: int(consumerWindow.Count), WindowBytes: consumerWindow.Bytes,
		Capabilities: []string{"consumer_priorities", "direct_reply_to"},
	}, backend{l})}
	for _, addr := range cfg.Listeners {
		ln, err := net.Listen("tcp", addr.Address())
		if err != nil {
			for _, open := range c.listeners {
				_ = open.Close()
			}
			return fmt.Errorf("AMQP listener: %w", err)
		}
		c.listeners = append(c.listeners, ln)
	}
	for _, ln := range c.listeners {
		c.done.Go(func() {
			if err := c.server.Serve(ln); !errors.Is(err, amqp.ErrServerClosed) {
				l.fail(err)
			}
		})
		l.log.Info("serving AMQP clients", "address", ln.Addr().String())
	}
	l.clients = c
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
