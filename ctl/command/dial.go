package command

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"warren/ctl/admin"
	"warren/ctl/locate"
	"warren/dataplane/link"
)

// unreachableError is a node that could not be talked to, with what was found out about why.
type unreachableError struct {
	Node    string
	Reasons []string
	Err     error
}

// Error implements error.
func (e *unreachableError) Error() string {
	return fmt.Sprintf("node %s cannot be reached: %s", e.Node, strings.Join(e.Reasons, "; "))
}

// Unwrap returns the cause.
func (e *unreachableError) Unwrap() error { return e.Err }

// text is the block that RabbitMQ's tools print, with what is different here.
func (e *unreachableError) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, `Error: unable to perform an operation on node '%[1]s'. Please see diagnostics information and suggestions below.

Most common reasons for this are:

 * Target node is unreachable (e.g. due to hostname resolution, TCP connection or firewall issues)
 * CLI tool fails to authenticate with the server (e.g. due to CLI tool's cookie not matching that of the server)
 * Target node is not running

In addition to the diagnostics info below:

 * Consult server logs on node %[1]s
 * Name the node's inter-node address with --address and its cookie with --cookie-file if it was not started on this machine by this user

DIAGNOSTICS
===========

attempted to contact: [%[1]s]

%[1]s:
`, e.Node)
	for _, reason := range e.Reasons {
		fmt.Fprintf(&b, "  * %s\n", reason)
	}
	return b.String()
}

// Dialer finds nodes through a registry and connects with the cookie handshake.
type Dialer struct{ Registry locate.Registry }

// Dial connects to t, with TLS if t or the node's registry entry names the files for it. The address is t's, or that of the node's registry entry, or host:25672; the cookie is t's, or that of the
// entry, or that of another node of this user on this machine. Errors: *unreachableError, or ctx's.
func (d Dialer) Dial(ctx context.Context, t Target) (Client, error) {
	fail := func(err error, reasons ...string) (Client, error) {
		return nil, &unreachableError{Node: t.Node, Reasons: reasons, Err: err}
	}
	found, err := d.Registry.Find(t.Node)
	if err != nil && !errors.Is(err, locate.ErrNotRegistered) && (t.Address == "" || t.CookieFile == "") {
		return fail(err, err.Error())
	}
	entry, registered := found, err == nil
	address := t.Address
	switch {
	case address != "":
	case registered:
		address = entry.Address
	default:
		address = locate.DefaultAddress(t.Node)
	}
	file, err := d.cookieFile(t, entry, registered)
	if err != nil {
		return fail(err, append(d.notRegistered(t.Node, registered), err.Error())...)
	}
	cookie, err := locate.ReadCookie(file)
	if err != nil {
		return fail(err, err.Error())
	}
	tlsConf, err := tlsOf(t, entry)
	if err != nil {
		return fail(err, err.Error())
	}
	conn, err := link.DialAuthenticated(ctx, address, link.ProtoAdmin, cookie, tlsConf)
	if err != nil {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("connect to %s: %w", t.Node, ctx.Err())
		}
		return fail(err, append(d.notRegistered(t.Node, registered), explain(err, address, file)...)...)
	}
	return admin.NewClient(conn), nil
}

// tlsOf is the client's side of TLS, nil for a connection without: with the files of t, or of the registry's entry.
func tlsOf(t Target, entry locate.Entry) (*tls.Config, error) {
	files := t.TLS
	switch {
	case files != locate.TLS{}:
	case entry.TLS != nil:
		files = *entry.TLS
	default:
		return nil, nil
	}
	_, client, err := link.TLSFiles{CA: files.CACertFile, Cert: files.CertFile, Key: files.KeyFile}.Load()
	return client, err
}

// CookieFile is the file that Dial takes the cookie from.
func (d Dialer) CookieFile(t Target) (string, error) {
	entry, err := d.Registry.Find(t.Node)
	return d.cookieFile(t, entry, err == nil)
}

// cookieFile decides which file holds the cookie.
func (d Dialer) cookieFile(t Target, entry locate.Entry, registered bool) (string, error) {
	if t.CookieFile != "" {
		return t.CookieFile, nil
	}
	if registered {
		if entry.CookieFile != "" {
			return entry.CookieFile, nil
		}
		return filepath.Join(entry.DataDir, locate.CookieName), nil
	}
	for _, other := range d.Registry.List() {
		if other.CookieFile != "" {
			return other.CookieFile, nil
		}
	}
	return "", errors.New("no cookie to authenticate with: no node of this user runs on this machine; name one with --cookie-file")
}

// notRegistered says which nodes there are instead.
func (d Dialer) notRegistered(node string, registered bool) []string {
	if registered {
		return nil
	}
	var others []string
	for _, e := range d.Registry.List() {
		others = append(others, e.Node)
	}
	return []string{fmt.Sprintf("node %s is not registered as running on this machine (other nodes of this user: [%s])", node, strings.Join(others, ","))}
}

// explain says what a failed connection means and what to do.
func explain(err error, address, cookieFile string) []string {
	var dns *net.DNSError
	switch {
	case errors.Is(err, link.ErrCookie):
		return []string{
			"TCP connection to " + address + " succeeded but authentication failed",
			"suggestion: check if the cookie is identical for all server nodes and CLI tools (this one used " + cookieFile + ")",
		}
	case errors.Is(err, syscall.ECONNREFUSED):
		return []string{"nothing listens on " + address, "suggestion: start the node"}
	case errors.As(err, &dns):
		return []string{"unable to resolve " + address + ": " + dns.Err}
	case errors.Is(err, link.ErrHandshake), errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
		return []string{
			"TCP connection to " + address + " succeeded but the handshake failed: " + err.Error(),
			"suggestion: if the node's inter-node listener has TLS, name --tls-cacertfile, --tls-certfile and --tls-keyfile",
		}
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		return []string{"TCP connection to " + address + " succeeded or hangs, but the node does not answer: " + err.Error()}
	}
	return []string{err.Error()}
}
