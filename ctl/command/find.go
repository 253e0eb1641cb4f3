package command

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"warren/ctl/admin"
	"warren/ctl/locate"
	"warren/dataplane/link"
)

// Where a node is, and with what to talk to it.

// place is what Dialer knows of a node.
type place struct {
	address string
	entry   locate.Entry // of the node, or of another one of its cluster, whose cookie and TLS files it shares
	known   bool         // entry is not empty
	// guessed: the address may be another node's by now, which must be found out before anything is asked of it.
	guessed bool
	notes   []string // how the address was found, if it was not simply registered
}

// Limits of asking other nodes where one is.
const (
	maxAsked = 3
	askLimit = time.Second
)

// find looks for a node: at the address that the user named, in the registry, where it was before its process ended, where other
// nodes of this user know it, and at last at the default port of its host.
func (d Dialer) find(ctx context.Context, t Target) (p place, err error) {
	entry, err := d.Registry.Find(t.Node)
	switch {
	case err == nil:
		p.entry, p.known, p.address = entry, true, entry.Address
	case !errors.Is(err, locate.ErrNotRegistered) && (t.Address == "" || t.CookieFile == ""):
		return p, err
	case t.Address != "" && t.CookieFile != "":
		p.notes = []string{"asked at " + t.Address + ", as --address says"}
	default:
		p.notes = d.notRegistered(t.Node)
	}
	switch {
	case t.Address != "":
		p.address = t.Address
		return p, nil
	case p.known:
		return p, nil
	}
	p.guessed = true
	if last, err := d.Registry.Last(t.Node); err == nil {
		p.address, p.entry, p.known = last.Address, last, true
		p.notes = append(p.notes, fmt.Sprintf("it was at %s as process %d, which has ended", last.Address, last.Process.PID))
		return p, nil
	}
	for i, other := range d.Registry.List() {
		if i == maxAsked {
			break
		}
		if info, ok := d.ask(ctx, t, other); ok {
			p.address, p.entry, p.known = info.Address, other, true
			p.notes = append(p.notes, fmt.Sprintf("%s knows it at %s, and says that it is %s", other.Node, info.Address, info.Status))
			return p, nil
		}
	}
	p.address = locate.DefaultAddress(t.Node)
	p.notes = append(p.notes, "where it is could not be found out; a node listens on port "+p.address[strings.LastIndex(p.address, ":")+1:]+
		" if it was not told otherwise")
	return p, nil
}

// ask asks another node for a member of its cluster.
func (d Dialer) ask(ctx context.Context, t Target, other locate.Entry) (info admin.NodeInfo, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	c, _, err := d.connect(ctx, t, place{address: other.Address, entry: other, known: true})
	if err != nil {
		return info, false
	}
	defer c.Close()
	cluster, err := c.ClusterStatus(ctx)
	if err != nil {
		return info, false
	}
	for _, n := range cluster.Nodes {
		if n.Name == t.Node && n.Address != "" {
			return n, true
		}
	}
	return info, false
}

// connect opens a connection to a place with the cookie and the TLS files of t or the place; it returns the cookie's file too.
func (d Dialer) connect(ctx context.Context, t Target, p place) (c *admin.Client, cookieFile string, err error) {
	cookieFile, err = d.cookieFile(t, p.entry, p.known)
	if err != nil {
		return nil, "", err
	}
	cookie, err := locate.ReadCookie(cookieFile)
	if err != nil {
		return nil, cookieFile, err
	}
	tlsConf, err := tlsOf(t, p.entry)
	if err != nil {
		return nil, cookieFile, err
	}
	conn, err := link.DialAuthenticated(ctx, p.address, link.ProtoAdmin, cookie, tlsConf)
	if err != nil {
		return nil, cookieFile, &dialError{err}
	}
	return admin.NewClient(conn), cookieFile, nil
}

// dialError is a failure of the connection itself.
type dialError struct{ err error }

// Error implements error.
func (e *dialError) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e *dialError) Unwrap() error { return e.err }

// strangerError is another node at an address that was guessed.
type strangerError struct{ address, node string }

// Error implements error.
func (e *strangerError) Error() string {
	return fmt.Sprintf("at %s is node %s: nothing was asked of it", e.address, e.node)
}

// Dial connects to t: see find for where, connect for with what. At an address that was guessed the node must say that it is the
// one. Errors: *unreachableError, or ctx's.
func (d Dialer) Dial(ctx context.Context, t Target) (Client, error) {
	p, err := d.find(ctx, t)
	if err != nil {
		return nil, &unreachableError{Node: t.Node, Reasons: []string{err.Error()}, Err: err}
	}
	c, cookieFile, err := d.connect(ctx, t, p)
	if err == nil && p.guessed {
		var status admin.NodeStatus
		if status, err = c.Status(ctx); err == nil && status.Name != t.Node {
			err = &strangerError{p.address, status.Name}
		}
		if err != nil {
			_ = c.Close() // it is of no use
		}
	}
	switch dial := (*dialError)(nil); {
	case err == nil:
		return c, nil
	case ctx.Err() != nil:
		return nil, fmt.Errorf("connect to %s: %w", t.Node, ctx.Err())
	case errors.As(err, &dial):
		return nil, &unreachableError{Node: t.Node, Reasons: append(p.notes, explain(err, p.address, cookieFile)...), Err: err}
	}
	return nil, &unreachableError{Node: t.Node, Reasons: append(p.notes, err.Error()), Err: err}
}

// notRegistered says which nodes there are instead.
func (d Dialer) notRegistered(node string) []string {
	var others []string
	hint, name := "", node[:strings.Index(node+"@", "@")]
	for _, e := range d.Registry.List() {
		others = append(others, e.Node)
		if strings.HasPrefix(e.Node, name+"@") {
			hint = "; -n " + e.Node + " is the one of that name"
		}
	}
	return []string{fmt.Sprintf("node %s is not registered as running on this machine (other nodes of this user: [%s])%s",
		node, strings.Join(others, ","), hint)}
}
