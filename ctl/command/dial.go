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
