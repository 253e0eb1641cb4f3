package integration

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"warren/dataplane/link"
	"warren/integration/cluster"
)

// authority signs certificates and writes them as PEM files.
type authority struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T, name string) *authority {
	t.Helper()
	a := &authority{t: t, dir: t.TempDir()}
	a.key = a.newKey()
	a.cert = &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	a.write("ca.pem", "CERTIFICATE", a.sign(a.cert, a.key))
	return a
}

func (a *authority) newKey() *ecdsa.PrivateKey {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	return key
}

func (a *authority) sign(c *x509.Certificate, key *ecdsa.PrivateKey) []byte {
	a.t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, c, a.cert, &key.PublicKey, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	return der
}

func (a *authority) write(file, kind string, der []byte) string {
	a.t.Helper()
	path := filepath.Join(a.dir, file)
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		a.t.Fatal(err)
	}
	return path
}

// issue makes a certificate for a node or a tool on this machine.
func (a *authority) issue(name string) link.TLSFiles {
	a.t.Helper()
	key := a.newKey()
	der := a.sign(&x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name},
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}, key)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	return link.TLSFiles{
		CA: filepath.Join(a.dir, "ca.pem"), Cert: a.write(name+".pem", "CERTIFICATE", der), Key: a.write(name+".key", "PRIVATE KEY", secret),
	}
}

// TestInternodeTLS runs three nodes that speak TLS to each other: they form a cluster, mirror a queue, and answer tools that
// hold a certificate. Who has none, or another authority's, is refused with a line in the log.
func TestInternodeTLS(t *testing.T) {
	ours := newAuthority(t, "ours")
	files := ours.issue("node")
	c := cluster.Prepare(t, 3)
	for i := 1; i <= c.Nodes; i++ {
		c.Configure(i, fmt.Sprintf("warren.internode.tls.cacertfile = %s\nwarren.internode.tls.certfile = %s\nwarren.internode.tls.keyfile = %s",
			files.CA, files.Cert, files.Key))
	}
	c.StartNodes(1, 2, 3)
	c.Ctl(1, mirrorAll...)
	declareQueue(t, c, 2, "orders")
	p := newPublisher("p1")
	if p.run(c.URI(3), "orders", 200); p.err != nil {
		t.Fatal(p.err)
	}
	for i := 1; i <= c.Nodes; i++ {
		mirrorsListed(t, c, i, "orders", 2)
	}
	tool := ours.issue("tool")
	args := []string{"--address", c.InternodeAddress(1), "--cookie-file", c.CookieFile()}
	named := append([]string{"-n", "rabbit9@elsewhere", "list_users", "--tls-cacertfile", tool.CA, "--tls-certfile", tool.Cert, "--tls-keyfile", tool.Key}, args...)
	if r := c.Tool("rabbitmqctl", 1, named...); r.Code != 0 || !strings.Contains(r.Stdout, "guest") {
		t.Errorf("a tool that is not registered, with a certificate: exit %d\n%s%s", r.Code, r.Stdout, r.Stderr)
	}
	plain := append([]string{"-n", "rabbit9@elsewhere", "list_users"}, args...)
	if r := c.Tool("rabbitmqctl", 1, plain...); r.Code == 0 || !strings.Contains(r.Stderr, "--tls-certfile") {
		t.Errorf("a tool without TLS: exit %d\n%s%s", r.Code, r.Stdout, r.Stderr)
	}
	refusedWithout(t, c, files)
}

// refusedWithout dials the inter-node listener with the true cookie, but without a certificate of the cluster's authority.
func refusedWithout(t *testing.T, c *cluster.Cluster, files link.TLSFiles) {
	t.Helper()
	cookie, err := os.ReadFile(c.CookieFile())
	if err != nil {
		t.Fatal(err)
	}
	_, own, err := files.Load()
	if err != nil {
		t.Fatal(err)
	}
	_, foreign, err := newAuthority(t, "theirs").issue("intruder").Load()
	if err != nil {
		t.Fatal(err)
	}
	foreign.RootCAs = own.RootCAs // it believes the node; the node must not believe it
	shown := foreign.Certificates[0]
	foreign.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &shown, nil }
	none := own.Clone()
	none.Certificates = nil
	cookie = bytes.TrimSpace(cookie)
	for name, conf := range map[string]*tls.Config{"no TLS": nil, "no certificate": none, "a foreign certificate": foreign} {
		for _, proto := range []link.Proto{link.ProtoAdmin, link.ProtoPeer, link.ProtoRaft} {
			ctx, cancel := context.WithTimeout(t.Context(), hang)
			conn, err := link.DialAuthenticated(ctx, c.InternodeAddress(1), proto, cookie, conf)
			cancel()
			if err == nil {
				_ = conn.Close()
				t.Errorf("%s: protocol %q is served", name, byte(proto))
			}
		}
	}
	for _, line := range []string{"does not look like a TLS handshake", "client didn't provide a certificate", "unknown authority"} {
		cluster.Eventually(t, hang, "the log says: "+line, func() bool { return strings.Contains(c.Log(1), line) })
	}
	conn, err := link.DialAuthenticated(t.Context(), c.InternodeAddress(1), link.ProtoAdmin, cookie, own)
	if err != nil {
		t.Fatalf("with the true certificate: %v", err)
	}
	_ = conn.Close()
}
