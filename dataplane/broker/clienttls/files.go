package clienttls

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"warren/dataplane/broker/config"
)

// lookInterval is how often at most the files are looked at.
const lookInterval = time.Second

// Files are the certificates of the TLS listeners. Its methods may be called from any goroutine.
type Files struct {
	options config.ClientTLS
	log     *slog.Logger

	mu      sync.Mutex
	current *tls.Config
	looked  time.Time
	seen    [3]stamp // of the files that current was read from, or that could not be used
}

// stamp tells one content of a file from the next.
type stamp struct {
	modified time.Time
	size     int64
}

// Open reads the files that the options name. The error says which of them cannot be used, and why.
func Open(o config.ClientTLS, log *slog.Logger) (*Files, error) {
	f := &Files{options: o, log: log, seen: stamps(o), looked: time.Now()}
	var err error
	if f.current, err = load(o); err != nil {
		return nil, err
	}
	return f, nil
}

// ServerConfig is what a listener is to use.
func (f *Files) ServerConfig() *tls.Config {
	return &tls.Config{
		SessionTicketsDisabled: true, // a session must not outlive the certificates that it was begun with
		GetConfigForClient:     func(*tls.ClientHelloInfo) (*tls.Config, error) { return f.newest(time.Now()), nil },
	}
}

// newest reads the files again if they have changed.
func (f *Files) newest(now time.Time) *tls.Config {
	f.mu.Lock()
	defer f.mu.Unlock()
	if now.Sub(f.looked) < lookInterval {
		return f.current
	}
	f.looked = now
	seen := stamps(f.options)
	if seen == f.seen {
		return f.current
	}
	f.seen = seen
	changed, err := load(f.options)
	if err != nil {
		f.log.Error("the changed TLS files cannot be used; the certificates from before stay in effect", "error", err)
		return f.current
	}
	f.log.Info("TLS certificates were read again", "file", f.options.CertFile)
	f.current = changed
	return f.current
}

// stamps of files that are not there are zero; what is wrong with them is found when they are read.
func stamps(o config.ClientTLS) (all [3]stamp) {
	for i, name := range []string{o.CACertFile, o.CertFile, o.KeyFile} {
		if info, err := os.Stat(name); err == nil {
			all[i] = stamp{info.ModTime(), info.Size()}
		}
	}
	return all
}

func load(o config.ClientTLS) (*tls.Config, error) {
	own, err := keyPair(o)
	if err != nil {
		return nil, err
	}
	c := &tls.Config{
		MinVersion: o.MinVersion, MaxVersion: o.MaxVersion, CipherSuites: o.Ciphers, Certificates: []tls.Certificate{own},
		SessionTicketsDisabled: true,
	}
	if !o.VerifyPeer {
		return c, nil
	}
	c.ClientAuth = tls.VerifyClientCertIfGiven
	if o.FailIfNoPeerCert {
		c.ClientAuth = tls.RequireAndVerifyClientCert
	}
	c.VerifyConnection = func(s tls.ConnectionState) error { return checkDepth(s.VerifiedChains, o.Depth) }
	authorities, err := os.ReadFile(o.CACertFile)
	if err != nil {
		return nil, fmt.Errorf("ssl_options.cacertfile: %w", err)
	}
	c.ClientCAs = x509.NewCertPool()
	if !c.ClientCAs.AppendCertsFromPEM(authorities) {
		return nil, fmt.Errorf("ssl_options.cacertfile: %s holds no certificate in PEM form", o.CACertFile)
	}
	return c, nil
}

func keyPair(o config.ClientTLS) (own tls.Certificate, err error) {
	chain, err := os.ReadFile(o.CertFile)
	if err != nil {
		return own, fmt.Errorf("ssl_options.certfile: %w", err)
	}
	text, err := os.ReadFile(o.KeyFile)
	if err != nil {
		return own, fmt.Errorf("ssl_options.keyfile: %w", err)
	}
	key, err := decipher(text, []byte(o.Password))
	if err != nil {
		return own, fmt.Errorf("ssl_options.keyfile: %s: %w", o.KeyFile, err)
	}
	if own, err = tls.X509KeyPair(chain, key); err != nil {
		return own, fmt.Errorf("ssl_options.certfile %s with ssl_options.keyfile %s: %w", o.CertFile, o.KeyFile, err)
	}
	return own, nil
}

// checkDepth: between the certificate and the authority that is trusted there are at most depth others.
func checkDepth(chains [][]*x509.Certificate, depth int) error {
	for _, chain := range chains {
		if len(chain)-2 <= depth {
			return nil
		}
	}
	if len(chains) == 0 { // no certificate was asked for, or none given
		return nil
	}
	return errors.New("the chain of the client's certificate is longer than ssl_options.depth allows")
}
