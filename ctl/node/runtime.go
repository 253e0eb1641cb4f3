package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime/debug"
	"time"

	"warren/ctl/admin"
	"warren/ctl/command"
	"warren/ctl/format"
	"warren/ctl/logtail"
	"warren/dataplane/broker"
	"warren/dataplane/broker/config"
	"warren/metadata/policy"
)

// process is what operators ask of the process itself, whether its application runs or not.
type process struct{ cfg command.ServerConfig }

// SetLogLevel implements admin.Node.
func (p process) SetLogLevel(_ context.Context, level string) error {
	l, err := config.ParseLogLevel(level)
	if err != nil {
		return admin.Errorf(admin.CodeValidation, "%v", err)
	}
	p.cfg.LogLevel.Set(l)
	return nil
}

// CollectGarbage implements admin.Node.
func (p process) CollectGarbage(context.Context) error {
	debug.FreeOSMemory()
	return nil
}

// Log implements admin.Node.
func (p process) Log(ctx context.Context, q admin.LogQuery, row func(admin.LogLine) error) error {
	if !q.Follow {
		for _, line := range p.cfg.LogTail.Last(q.Lines) {
			if err := row(admin.LogLine{Text: line}); err != nil {
				return err
			}
		}
		return nil
	}
	ctx, cancel := lasting(ctx, q.For)
	defer cancel()
	return p.cfg.LogTail.Follow(ctx, q.Lines, func(l logtail.Line) error { return row(admin.LogLine(l)) })
}

// lasting ends a context after a duration, if one is given.
func lasting(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if d <= 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, d)
}

// Resolve implements admin.Node.
func (p process) Resolve(ctx context.Context, q admin.HostQuery) (out []string, _ error) {
	if q.Network != "ip4" && q.Network != "ip6" {
		return nil, admin.Errorf(admin.CodeValidation, "addresses are of ip4 or ip6, not of %q", q.Network)
	}
	all, err := net.DefaultResolver.LookupIP(ctx, q.Network, q.Host)
	var dns *net.DNSError
	switch {
	case errors.As(err, &dns) && dns.IsNotFound:
		return nil, admin.Errorf(admin.CodeNotFound, "nxdomain")
	case errors.As(err, &dns):
		return nil, admin.Errorf(admin.CodeNotFound, "%s", dns.Err)
	case err != nil:
		return nil, fmt.Errorf("resolve %s: %w", q.Host, err)
	}
	for _, ip := range all {
		out = append(out, ip.String())
	}
	return out, nil
}

// SetMemoryLimit implements admin.Node.
func (a *adapter) SetMemoryLimit(_ context.Context, t admin.Threshold) error {
	a.n.SetMemoryLimit(config.Limit{Absolute: t.Absolute, Relative: t.Relative})
	return nil
}

// SetDiskFreeLimit implements admin.Node.
func (a *adapter) SetDiskFreeLimit(_ context.Context, t admin.Threshold) error {
	a.n.SetDiskFreeLimit(config.Limit{Absolute: t.Absolute, Relative: t.Relative})
	return nil
}

// Events implements admin.Node.
func (a *adapter) Events(ctx context.Context, q admin.EventQuery, row func(admin.Event) error) error {
	pattern, err := policy.NewMatcher(q.Pattern)
	if err != nil {
		return admin.Errorf(admin.CodePattern, "%v", err)
	}
	ctx, cancel := lasting(ctx, q.For)
	defer cancel()
	return a.n.Watch(ctx, func(h broker.Happening) error {
		if ok, err := pattern.Match(h.Name); err != nil || !ok {
			return nil
		}
		fields := make(format.Map, len(h.Fields))
		for i, f := range h.Fields {
			fields[i] = format.Pair{Name: f.Name, Value: f.Value}
		}
		text, err := format.JSON(fields)
		if err != nil {
			return fmt.Errorf("encode the event %s: %w", h.Name, err)
		}
		return row(admin.Event{Name: h.Name, At: h.At.UnixMilli(), Fields: text, Missed: h.Missed})
	})
}

// Logins implements admin.Node.
func (a *adapter) Logins(_ context.Context, sources bool) (out []admin.LoginCount, _ error) {
	sum, bySource := a.n.Logins()
	all := []broker.Logins{sum}
	if sources {
		all = bySource
	}
	for _, l := range all {
		out = append(out, admin.LoginCount{Protocol: "amqp091", Source: l.Source, User: l.User, Failed: l.Failed, Succeeded: l.Succeeded})
	}
	return out, nil
}

// ResetLogins implements admin.Node.
func (a *adapter) ResetLogins(context.Context) error {
	a.n.ResetLogins()
	return nil
}

// TrackLoginSources implements admin.Node.
func (a *adapter) TrackLoginSources(_ context.Context, on bool) error {
	a.n.TrackLoginSources(on)
	return nil
}

// SuspendListeners implements admin.Node.
func (a *adapter) SuspendListeners(context.Context) error { return refusal(a.n.SuspendListeners()) }

// ResumeListeners implements admin.Node.
func (a *adapter) ResumeListeners(context.Context) error { return refusal(a.n.ResumeListeners()) }
