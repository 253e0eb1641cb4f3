package link

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
)

// TLSFiles name the PEM files of one end of an inter-node connection: the authority that signs every node and tool of the
// cluster, and the own certificate, good for server and client, with its key.
type TLSFiles struct {
	CA, Cert, Key string
}

// Load reads the files and returns the two sides of mutual authentication: a server that takes only clients which the
// authority signed, and a client that takes only such servers, under the host name or address that it dials. TLS 1.3.
// The files are read once: a renewed certificate counts from the next start. It fails if a file is missing or nonsense.
func (f TLSFiles) Load() (server, client *tls.Config, err error) {
	pem, err := os.ReadFile(f.CA)
	if err != nil {
		return nil, nil, fmt.Errorf("link: read the inter-node authority: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, nil, fmt.Errorf("link: the inter-node authority %s holds no PEM certificate", f.CA)
	}
	cert, err := tls.LoadX509KeyPair(f.Cert, f.Key)
	if err != nil {
		return nil, nil, fmt.Errorf("link: load the inter-node certificate %s with key %s: %w", f.Cert, f.Key, err)
	}
	own := []tls.Certificate{cert}
	server = &tls.Config{MinVersion: tls.VersionTLS13, Certificates: own, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool}
	client = &tls.Config{MinVersion: tls.VersionTLS13, Certificates: own, RootCAs: pool}
	return server, client, nil
}
