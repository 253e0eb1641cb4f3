package admin

import (
	"context"
	"time"

	"github.com/vmihailenco/msgpack/v5"
)

// Runtime is the part of Node about the process: its limits, its log, what happens in it. What is set here lasts until the node
// restarts.
type Runtime interface {
	// SetMemoryLimit sets the memory above which the node blocks publishers, SetDiskFreeLimit the free disk space below which it
	// does.
	SetMemoryLimit(ctx context.Context, t Threshold) error
	SetDiskFreeLimit(ctx context.Context, t Threshold) error
	// SetLogLevel: debug, info, notice, warning, error, critical or none. Error: CodeValidation.
	SetLogLevel(ctx context.Context, level string) error
	// CollectGarbage returns memory that is free to the system.
	CollectGarbage(ctx context.Context) error
	// SuspendListeners closes the listeners for clients and leaves connections as they are, ResumeListeners opens them again.
	SuspendListeners(ctx context.Context) error
	ResumeListeners(ctx context.Context) error
	// Process describes the process and its machine.
	Process(ctx context.Context) (ProcessInfo, error)
	// Log calls row for the last lines of the log, and if asked for those that come, until ctx or q.For ends.
	Log(ctx context.Context, q LogQuery, row func(LogLine) error) error
	// Events calls row for what happens on the node, until ctx or q.For ends. Error: CodePattern.
	Events(ctx context.Context, q EventQuery, row func(Event) error) error
	// Logins are the counts of clients' logins: one row, or with sources one for each address and user while they are tracked.
	Logins(ctx context.Context, sources bool) ([]LoginCount, error)
	ResetLogins(ctx context.Context) error
	TrackLoginSources(ctx context.Context, on bool) error
	// Resolve asks the node for the addresses of a host: ip4 or ip6. Error: CodeNotFound.
	Resolve(ctx context.Context, q HostQuery) ([]string, error)
}

// Threshold is an amount of bytes, or a fraction of the machine's memory. Both zero: nothing.
type Threshold struct {
	Absolute uint64  `msgpack:"absolute"`
	Relative float64 `msgpack:"relative"`
}

// HostQuery asks for addresses. Network is ip4 or ip6.
type HostQuery struct {
	Host    string `msgpack:"host"`
	Network string `msgpack:"network"`
}

// ProcessInfo is a node's process and the machine as the process sees it.
type ProcessInfo struct {
	Arguments    []string           `msgpack:"arguments"`
	Environment  []string           `msgpack:"environment"` // NAME=VALUE of those that a node looks at
	CookieHash   string             `msgpack:"cookie_hash"` // base64 of a hash that does not give the cookie away
	Interfaces   []NetworkInterface `msgpack:"interfaces"`
	Resolver     []NodeText         `msgpack:"resolver"` // what decides how names are resolved, and its value
	Certificates []Certificate      `msgpack:"certificates"`
	CPU          []CPUTime          `msgpack:"cpu"`     // of each thread, since it started
	Waiting      []Goroutines       `msgpack:"waiting"` // goroutines that seem stuck: for a minute or more they have waited for a lock or the like
}

// NetworkInterface is one of the machine.
type NetworkInterface struct {
	Name      string   `msgpack:"name"`
	Hardware  string   `msgpack:"hardware"`
	Addresses []string `msgpack:"addresses"` // ADDRESS/PREFIX
	Flags     []string `msgpack:"flags"`
}

// Certificate is one that a listener shows, or an authority's that it trusts.
type Certificate struct {
	Protocol  string    `msgpack:"protocol"` // of the listener
	Port      uint16    `msgpack:"port"`
	File      string    `msgpack:"file"`
	Subject   string    `msgpack:"subject"`
	Issuer    string    `msgpack:"issuer"`
	NotBefore time.Time `msgpack:"not_before"`
	NotAfter  time.Time `msgpack:"not_after"`
	Authority bool      `msgpack:"authority"`
	PEM       string    `msgpack:"pem"`
}

// CPUTime is a thread's processor time in seconds.
type CPUTime struct {
	Name   string  `msgpack:"name"`
	User   float64 `msgpack:"user"`
	System float64 `msgpack:"system"`
}

// Goroutines are some that wait in the same place.
type Goroutines struct {
	Count int      `msgpack:"count"`
	Since string   `msgpack:"since"` // "12 minutes"
	State string   `msgpack:"state"`
	Stack []string `msgpack:"stack"`
}

// LogQuery: the last Lines, then with Follow what comes, for the duration For (0: until the client closes).
type LogQuery struct {
	Lines  int           `msgpack:"lines"`
	Follow bool          `msgpack:"follow"`
	For    time.Duration `msgpack:"for"`
}

// LogLine is one line, without its newline. Missed: how many before it came too fast.
type LogLine struct {
	Text   string `msgpack:"text"`
	Missed int    `msgpack:"missed"`
}

// EventQuery: those whose name matches Pattern (empty: all), for the duration For (0: until the client closes).
type EventQuery struct {
	Pattern string        `msgpack:"pattern"`
	For     time.Duration `msgpack:"for"`
}

// Event is something that happened. Fields is a JSON object with its properties. Missed: how many before it came too fast.
type Event struct {
	Name   string `msgpack:"name"`
	At     int64  `msgpack:"at"` // ms since 1970
	Fields []byte `msgpack:"fields"`
	Missed int    `msgpack:"missed"`
}

// LoginCount is how often clients tried to log in. Source and User are empty in a sum.
type LoginCount struct {
	Protocol  string `msgpack:"protocol"`
	Source    string `msgpack:"source"`
	User      string `msgpack:"user"`
	Failed    uint64 `msgpack:"failed"`
	Succeeded uint64 `msgpack:"succeeded"`
}

// Names of the requests about the process; see commands.go.
const (
	cmdSetMemoryLimit    = "set_memory_limit"
	cmdSetDiskFreeLimit  = "set_disk_free_limit"
	cmdSetLogLevel       = "set_log_level"
	cmdCollectGarbage    = "collect_garbage"
	cmdSuspendListeners  = "suspend_listeners"
	cmdResumeListeners   = "resume_listeners"
	cmdProcess           = "process"
	cmdLog               = "log"
	cmdEvents            = "events"
	cmdLogins            = "logins"
	cmdResetLogins       = "reset_logins"
	cmdTrackLoginSources = "track_login_sources"
	cmdResolve           = "resolve"
)

type switched struct {
	On bool `msgpack:"on"`
}

func runtimeHandlers() map[string]handler {
	return map[string]handler{
		cmdSetMemoryLimit:   none(func(ctx context.Context, n Node, t Threshold) error { return n.SetMemoryLimit(ctx, t) }),
		cmdSetDiskFreeLimit: none(func(ctx context.Context, n Node, t Threshold) error { return n.SetDiskFreeLimit(ctx, t) }),
		cmdSetLogLevel:      none(func(ctx context.Context, n Node, a named) error { return n.SetLogLevel(ctx, a.Name) }),
		cmdCollectGarbage:   none(func(ctx context.Context, n Node, _ nothing) error { return n.CollectGarbage(ctx) }),
		cmdSuspendListeners: none(func(ctx context.Context, n Node, _ nothing) error { return n.SuspendListeners(ctx) }),
		cmdResumeListeners:  none(func(ctx context.Context, n Node, _ nothing) error { return n.ResumeListeners(ctx) }),
		cmdProcess:          one(func(ctx context.Context, n Node, _ nothing) (ProcessInfo, error) { return n.Process(ctx) }),
		cmdLog: func(ctx context.Context, node Node, args msgpack.RawMessage, row func(any) error) error {
			q, err := decode[LogQuery](args)
			if err != nil {
				return err
			}
			return node.Log(ctx, q, func(l LogLine) error { return row(l) })
		},
		cmdEvents: func(ctx context.Context, node Node, args msgpack.RawMessage, row func(any) error) error {
			q, err := decode[EventQuery](args)
			if err != nil {
				return err
			}
			return node.Events(ctx, q, func(e Event) error { return row(e) })
		},
		cmdLogins:      many(func(ctx context.Context, n Node, a switched) ([]LoginCount, error) { return n.Logins(ctx, a.On) }),
		cmdResetLogins: none(func(ctx context.Context, n Node, _ nothing) error { return n.ResetLogins(ctx) }),
		cmdTrackLoginSources: none(func(ctx context.Context, n Node, a switched) error {
			return n.TrackLoginSources(ctx, a.On)
		}),
		cmdResolve: many(func(ctx context.Context, n Node, q HostQuery) ([]string, error) { return n.Resolve(ctx, q) }),
	}
}

// SetMemoryLimit implements Node.
func (c *Client) SetMemoryLimit(ctx context.Context, t Threshold) error {
	return c.ask(ctx, cmdSetMemoryLimit, t)
}

// SetDiskFreeLimit implements Node.
func (c *Client) SetDiskFreeLimit(ctx context.Context, t Threshold) error {
	return c.ask(ctx, cmdSetDiskFreeLimit, t)
}

// SetLogLevel implements Node.
func (c *Client) SetLogLevel(ctx context.Context, level string) error {
	return c.ask(ctx, cmdSetLogLevel, named{Name: level})
}

// CollectGarbage implements Node.
func (c *Client) CollectGarbage(ctx context.Context) error {
	return c.ask(ctx, cmdCollectGarbage, nothing{})
}

// SuspendListeners implements Node.
func (c *Client) SuspendListeners(ctx context.Context) error {
	return c.ask(ctx, cmdSuspendListeners, nothing{})
}

// ResumeListeners implements Node.
func (c *Client) ResumeListeners(ctx context.Context) error {
	return c.ask(ctx, cmdResumeListeners, nothing{})
}

// Process implements Node.
func (c *Client) Process(ctx context.Context) (ProcessInfo, error) {
	return single[ProcessInfo](ctx, c, cmdProcess, nothing{})
}

// Log implements Node.
func (c *Client) Log(ctx context.Context, q LogQuery, row func(LogLine) error) error {
	return streamed(ctx, c, cmdLog, q, row)
}

// Events implements Node.
func (c *Client) Events(ctx context.Context, q EventQuery, row func(Event) error) error {
	return streamed(ctx, c, cmdEvents, q, row)
}

// Logins implements Node.
func (c *Client) Logins(ctx context.Context, sources bool) ([]LoginCount, error) {
	return list[LoginCount](ctx, c, cmdLogins, switched{sources})
}

// ResetLogins implements Node.
func (c *Client) ResetLogins(ctx context.Context) error { return c.ask(ctx, cmdResetLogins, nothing{}) }

// TrackLoginSources implements Node.
func (c *Client) TrackLoginSources(ctx context.Context, on bool) error {
	return c.ask(ctx, cmdTrackLoginSources, switched{on})
}

// Resolve implements Node.
func (c *Client) Resolve(ctx context.Context, q HostQuery) ([]string, error) {
	return list[string](ctx, c, cmdResolve, q)
}
