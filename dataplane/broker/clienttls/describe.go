package clienttls

import (
	"crypto/tls"
	"crypto/x509"
	"strings"
	"time"
)

// Facts are what operators see of a connection's TLS, by RabbitMQ's words. The last three are empty if the client gave no
// certificate.
type Facts struct {
	Protocol     string `msgpack:"p"` // tlsv1.3
	KeyExchange  string `msgpack:"k"` // ecdhe_rsa, or any
	Cipher       string `msgpack:"c"` // aes_128_gcm
	Hash         string `msgpack:"h"` // aead, sha, sha256
	PeerSubject  string `msgpack:"s"`
	PeerIssuer   string `msgpack:"i"`
	PeerValidity string `msgpack:"v"` // from - to, in UTC
}

// Describe translates the state of a connection.
func Describe(s *tls.ConnectionState) *Facts {
	f := &Facts{Protocol: strings.ToLower(strings.ReplaceAll(tls.VersionName(s.Version), "TLS ", "tlsv"))}
	f.KeyExchange, f.Cipher, f.Hash = suite(tls.CipherSuiteName(s.CipherSuite))
	if len(s.PeerCertificates) > 0 {
		c := s.PeerCertificates[0]
		f.PeerSubject, f.PeerIssuer, f.PeerValidity = nameOrRaw(c.RawSubject), nameOrRaw(c.RawIssuer), validity(c)
	}
	return f
}

// nameOrRaw is a name of a certificate that was accepted already: it can be read.
func nameOrRaw(der []byte) string {
	name, err := distinguishedName(der)
	if err != nil {
		return err.Error()
	}
	return name
}

func validity(c *x509.Certificate) string {
	return c.NotBefore.UTC().Format(time.RFC3339) + " - " + c.NotAfter.UTC().Format(time.RFC3339)
}

// suite takes the name of a cipher suite apart, as Erlang's ssl does: TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256.
func suite(name string) (exchange, cipher, hash string) {
	name = strings.ToLower(strings.TrimPrefix(name, "TLS_"))
	exchange, rest, old := strings.Cut(name, "_with_")
	if !old { // TLS 1.3
		exchange, rest = "any", name
	}
	cut := strings.LastIndexByte(rest, '_')
	if cut < 0 {
		return exchange, rest, ""
	}
	cipher, hash = rest[:cut], rest[cut+1:]
	if strings.HasSuffix(cipher, "_gcm") || strings.HasSuffix(cipher, "poly1305") {
		hash = "aead"
	}
	return exchange, cipher, hash
}
