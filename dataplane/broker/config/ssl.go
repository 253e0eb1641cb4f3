package config

import (
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// ClientTLS is what ssl_options say of the TLS listeners.
type ClientTLS struct {
	TLS                     // CACertFile only matters with VerifyPeer
	Password         Secret // of the key file
	VerifyPeer       bool   // ask clients for a certificate, and check it
	FailIfNoPeerCert bool
	Depth            int      // certificates between a client's and the authority's
	MinVersion       uint16   // of package crypto/tls
	MaxVersion       uint16   //
	Ciphers          []uint16 // for TLS 1.2 and before; nil: those of Go
}

// Where the user's name is in a certificate.
const (
	LoginDistinguishedName = "distinguished_name"
	LoginCommonName        = "common_name"
	LoginAlternativeName   = "subject_alternative_name"
)

// Types of alternative names.
const (
	SANDNS   = "dns"
	SANIP    = "ip"
	SANEmail = "email"
	SANURI   = "uri"
)

// CertLogin is which name of a certificate is the user's.
type CertLogin struct {
	From     string
	SANType  string
	SANIndex int // from 0
}

// sslKeys are the keys of TLS for clients.
func sslKeys() []key {
	options := func(c *Config) *ClientTLS { return &c.ClientTLS }
	return []key{
		{"listeners.ssl", (*parser).setNoSSLListeners},
		{"listeners.ssl.*", (*parser).setSSLListener},
		{"ssl_options", none},
		{"ssl_options.cacertfile", text(func(c *Config) *string { return &options(c).CACertFile })},
		{"ssl_options.certfile", text(func(c *Config) *string { return &options(c).CertFile })},
		{"ssl_options.keyfile", text(func(c *Config) *string { return &options(c).KeyFile })},
		{"ssl_options.password", secret(func(c *Config) *Secret { return &options(c).Password })},
		{"ssl_options.verify", (*parser).setVerify},
		{"ssl_options.fail_if_no_peer_cert", flag(func(c *Config) *bool { return &options(c).FailIfNoPeerCert })},
		{"ssl_options.depth", (*parser).setDepth},
		{"ssl_options.versions.*", (*parser).setVersion},
		{"ssl_options.ciphers.*", (*parser).setCipher},
		{"ssl_options.honor_cipher_order", (*parser).setHonorOrder},
		{"ssl_options.honor_ecc_order", (*parser).setHonorOrder},
		{"ssl_handshake_timeout", milliseconds(func(c *Config) *time.Duration { return &c.TLSHandshakeTimeout }, 100*time.Millisecond)},
		{"auth_mechanisms.*", (*parser).setMechanism},
		{"ssl_cert_login_from", choice(func(c *Config) *string { return &c.CertLogin.From },
			LoginDistinguishedName, LoginCommonName, LoginAlternativeName)},
		{"ssl_cert_login_san_type", choice(func(c *Config) *string { return &c.CertLogin.SANType }, SANDNS, SANIP, SANEmail, SANURI)},
		{"ssl_cert_login_san_index", (*parser).setSANIndex},
	}
}

func choice(field func(*Config) *string, words ...string) setter {
	return func(p *parser, _, value string) error {
		if !slices.Contains(words, value) {
			return fmt.Errorf("%q is none of %s", clip(value), strings.Join(words, ", "))
		}
		*field(p.c) = value
		return nil
	}
}

func (p *parser) setNoSSLListeners(wild, value string) error {
	p.noSSL = true
	return none(p, wild, value)
}

func (p *parser) setSSLListener(wild, value string) error {
	l, err := parseListener(value)
	if err != nil {
		return err
	}
	return add(&p.sslListeners, entry[Listener]{wild, p.line, l})
}

func (p *parser) setVerify(_, value string) error {
	switch value {
	case "verify_peer":
		p.c.ClientTLS.VerifyPeer = true
	case "verify_none":
		p.c.ClientTLS.VerifyPeer = false
	default:
		return fmt.Errorf("%q is none of verify_peer, verify_none", clip(value))
	}
	return nil
}

func (p *parser) setDepth(_, value string) error {
	n, err := parseUint(value, 255)
	if err == nil {
		p.c.ClientTLS.Depth = int(n)
	}
	return err
}

func (p *parser) setSANIndex(_, value string) error {
	n, err := parseUint(value, 1000)
	if err == nil {
		p.c.CertLogin.SANIndex = int(n)
	}
	return err
}

// sslVersions are RabbitMQ's names, by ascending version.
var sslVersions = []struct {
	name    string
	version uint16
}{{"tlsv1", tls.VersionTLS10}, {"tlsv1.1", tls.VersionTLS11}, {"tlsv1.2", tls.VersionTLS12}, {"tlsv1.3", tls.VersionTLS13}}

func (p *parser) setVersion(wild, value string) error {
	for _, v := range sslVersions {
		if v.name == value {
			return add(&p.versions, entry[uint16]{wild, p.line, v.version})
		}
	}
	return fmt.Errorf("%q is none of tlsv1.3, tlsv1.2, tlsv1.1, tlsv1", clip(value))
}

// setCipher takes OpenSSL's and IANA's names. Those that Go has not are left out with a warning; those of TLS 1.3 are always on.
func (p *parser) setCipher(wild, value string) error {
	name := strings.ToUpper(value)
	for _, s := range slices.Concat(tls.CipherSuites(), tls.InsecureCipherSuites()) {
		if s.Name == name || openSSLName(s.Name) == name {
			return add(&p.ciphers, entry[uint16]{wild, p.line, s.ID})
		}
	}
	p.cipherGiven = true
	p.warn("ssl_options.ciphers.%s: %s is not among the ciphers that Go has; it is left out", clip(wild), clip(value))
	return nil
}

// openSSLName translates IANA's name of a cipher suite: TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 is ECDHE-RSA-AES128-GCM-SHA256.
func openSSLName(name string) string {
	exchange, rest, old := strings.Cut(strings.TrimPrefix(name, "TLS_"), "_WITH_")
	if !old {
		return name
	}
	rest = strings.NewReplacer("AES_128_CBC", "AES128", "AES_256_CBC", "AES256", "AES_", "AES", "CHACHA20_POLY1305_SHA256", "CHACHA20_POLY1305").Replace(rest)
	if exchange = exchange + "-"; exchange == "RSA-" {
		exchange = ""
	}
	return strings.ReplaceAll(exchange, "_", "-") + strings.ReplaceAll(strings.Replace(rest, "CHACHA20_POLY1305", "CHACHA20-POLY1305", 1), "_", "-")
}

// setHonorOrder: Go's order of ciphers and curves holds, which is a server's own; a client's is never followed.
func (p *parser) setHonorOrder(_, value string) error {
	on, err := parseBool(value)
	if err == nil && !on {
		p.warn("the client's order of ciphers is not followed: the server's always holds")
	}
	return err
}

func (p *parser) setMechanism(wild, value string) error {
	switch value {
	case "PLAIN", "AMQPLAIN", "EXTERNAL":
		return add(&p.mechanisms, entry[string]{wild, p.line, value})
	}
	return fmt.Errorf("%q is none of PLAIN, AMQPLAIN, EXTERNAL", clip(value))
}

// finishSSL checks what the keys of TLS for clients say together.
func (p *parser) finishSSL() {
	t := &p.c.ClientTLS
	p.finishVersions()
	sortEntries(p.ciphers)
	for _, e := range p.ciphers {
		t.Ciphers = append(t.Ciphers, e.value)
	}
	if len(p.ciphers) == 0 && p.cipherGiven {
		p.fail(errors.New("ssl_options.ciphers: none of those named is among the ciphers that Go has"))
	}
	if len(p.mechanisms) > 0 {
		p.c.AuthMechanisms = nil
	}
	sortEntries(p.mechanisms)
	for _, e := range p.mechanisms {
		if !slices.Contains(p.c.AuthMechanisms, e.value) {
			p.c.AuthMechanisms = append(p.c.AuthMechanisms, e.value)
		}
	}
	switch {
	case len(p.c.SSLListeners) > 0 && (t.CertFile == "" || t.KeyFile == ""):
		p.fail(errors.New("listeners.ssl needs ssl_options.certfile and ssl_options.keyfile"))
	case t.VerifyPeer && t.CACertFile == "":
		p.fail(errors.New("ssl_options.verify = verify_peer needs ssl_options.cacertfile"))
	case t.FailIfNoPeerCert && !t.VerifyPeer:
		p.fail(errors.New("ssl_options.fail_if_no_peer_cert = true needs ssl_options.verify = verify_peer"))
	case slices.Contains(p.c.AuthMechanisms, "EXTERNAL") && !t.VerifyPeer:
		p.fail(errors.New("auth_mechanisms: EXTERNAL believes certificates, and needs ssl_options.verify = verify_peer"))
	}
}

// finishVersions makes a range of the versions that are named.
func (p *parser) finishVersions() {
	t := &p.c.ClientTLS
	if len(p.versions) == 0 {
		return
	}
	named := make([]uint16, len(p.versions))
	for i, e := range p.versions {
		named[i] = e.value
	}
	t.MinVersion, t.MaxVersion = slices.Min(named), slices.Max(named)
	for _, v := range sslVersions {
		if v.version > t.MinVersion && v.version < t.MaxVersion && !slices.Contains(named, v.version) {
			p.fail(fmt.Errorf("ssl_options.versions: %s is missing between those that are named", v.name))
		}
	}
}
