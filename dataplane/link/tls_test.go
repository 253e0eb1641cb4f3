package link

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"testing"
	"time"
)

// authority makes certificates for 127.0.0.1.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	a := &authority{cert: cert, key: key, pool: x509.NewCertPool()}
	a.pool.AddCert(cert)
	return a
}

func (a *authority) issue(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "node"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, a.cert, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func TestMutualTLS(t *testing.T) {
	ca := newAuthority(t)
	secure := func(c *Config) {
		cert := ca.issue(t)
		c.ServerTLS = &tls.Config{Certificates: []tls.Certificate{cert}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: ca.pool}
		c.ClientTLS = &tls.Config{Certificates: []tls.Certificate{cert}, RootCAs: ca.pool}
	}
	a, b := pair(t, secure)
	if err := a.Send("b@h", testKind, make([]byte, 1<<20)); err != nil {
		t.Fatal(err)
	}
	b.rec.wait(t, "the frame", func() bool { return len(b.rec.events) == 2 })
	addr, cookie := b.Addr().String(), []byte(testCookie)
	b.Handle(ProtoAdmin, func(c net.Conn) { _ = c.Close() })
	stranger := &tls.Config{Certificates: []tls.Certificate{newAuthority(t).issue(t)}, RootCAs: ca.pool}
	for name, conf := range map[string]*tls.Config{"without TLS": nil, "without certificate": {RootCAs: ca.pool}, "another authority": stranger} {
		if c, err := DialAuthenticated(t.Context(), addr, ProtoAdmin, cookie, conf); err == nil {
			_ = c.Close()
			t.Errorf("%s: connected", name)
		}
	}
	c, err := DialAuthenticated(t.Context(), addr, ProtoAdmin, cookie, &tls.Config{Certificates: []tls.Certificate{ca.issue(t)}, RootCAs: ca.pool})
	if err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
	plain := start(t, "p@h", nil)
	if _, err := DialAuthenticated(t.Context(), plain.Addr().String(), ProtoAdmin, cookie, a.cfg.ClientTLS); err == nil {
		t.Error("TLS to a listener without it: connected")
	}
}
