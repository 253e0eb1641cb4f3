package integration

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"warren/dataplane/broker/config"
	"warren/dataplane/link"
	"warren/integration/cluster"
)

// freePort is a port that nobody listens on at the moment.
func freePort(t *testing.T) int {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close() // nobody has connected
	return ln.Addr().(*net.TCPAddr).Port
}

// clientConfig trusts the authority and shows a certificate, if any.
func (a *authority) clientConfig(files *link.TLSFiles) *tls.Config {
	a.t.Helper()
	pem, err := os.ReadFile(a.dir + "/ca.pem")
	if err != nil {
		a.t.Fatal(err)
	}
	c := &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
	c.RootCAs.AppendCertsFromPEM(pem)
	if files != nil {
		own, err := tls.LoadX509KeyPair(files.Cert, files.Key)
		if err != nil {
			a.t.Fatal(err)
		}
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &own, nil }
	}
	return c
}

// dialTLS connects as guest, or by the certificate if external.
func dialTLS(uri string, c *tls.Config, external bool) (*amqp.Connection, error) {
	settings := amqp.Config{TLSClientConfig: c, Heartbeat: time.Minute}
	if external {
		settings.SASL = []amqp.Authentication{&amqp.ExternalAuth{}}
	}
	return amqp.DialConfig(uri, settings)
}

// refused dials and expects that it fails with what the text says ("": anything), and that the node's log gives the reason.
func refused(t *testing.T, c *cluster.Cluster, uri string, conf *tls.Config, external bool, text, reason string) {
	t.Helper()
	conn, err := dialTLS(uri, conf, external)
	if err == nil {
		_ = conn.Close()
		t.Errorf("%s is let in (expected: %s)", uri, reason)
		return
	}
	if !strings.Contains(err.Error(), text) {
		t.Errorf("the client sees %v, not %q", err, text)
	}
	cluster.Eventually(t, hang, "the log says: "+reason, func() bool { return strings.Contains(c.Log(1), reason) })
}

// TestClientTLS: clients come over TLS with a password or a certificate; who has the wrong one, or speaks no TLS where it is due, or
// TLS where it is not, is turned away with a line in the log, and nobody else notices. A renewed certificate needs no restart.
func TestClientTLS(t *testing.T) {
	ours, theirs := newAuthority(t, "ours"), newAuthority(t, "theirs")
	server, port := ours.issue("server"), freePort(t)
	c := cluster.StartConfigured(t, 1, fmt.Sprintf(`listeners.ssl.1 = 127.0.0.1:%d
ssl_options.cacertfile = %s
ssl_options.certfile = %s
ssl_options.keyfile = %s
ssl_options.password = not-needed-here
ssl_options.verify = verify_peer
ssl_options.fail_if_no_peer_cert = false
auth_mechanisms.1 = PLAIN
auth_mechanisms.2 = EXTERNAL
ssl_cert_login_from = common_name`, port, server.CA, server.Cert, server.Key))
	secure := "amqps://guest:guest@127.0.0.1:" + strconv.Itoa(port) + "/"
	c.Ctl(1, "add_user", "app", "")
	c.Ctl(1, "set_permissions", "app", ".*", ".*", ".*")

	conn, err := dialTLS(secure, ours.clientConfig(nil), false)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close() // the test is over
	body := bytes.Repeat([]byte("0123456789abcdef"), 64<<10)
	ch := channelOf(t, conn)
	if _, err := ch.QueueDeclare("q", false, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	if err := ch.PublishWithContext(t.Context(), "", "q", false, false, amqp.Publishing{Body: body}); err != nil {
		t.Fatal(err)
	}

	app := ours.issue("app")
	certified, err := dialTLS(secure, ours.clientConfig(&app), true)
	if err != nil {
		t.Fatal(err)
	}
	defer certified.Close() // the test is over
	deliveries, err := channelOf(t, certified).Consume("q", "", true, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	if m := next(t, deliveries, "a megabyte over TLS"); !bytes.Equal(m.Body, body) {
		t.Errorf("a megabyte over TLS: %d bytes", len(m.Body))
	}
	const row = "app\ttrue\ttlsv1.3\tany\tEXTERNAL\tCN=app\tCN=ours"
	out := c.Ctl(1, "list_connections", "-q", "user", "ssl", "ssl_protocol", "ssl_key_exchange", "auth_mechanism", "peer_cert_subject", "peer_cert_issuer")
	if !strings.Contains(out, row) || !strings.Contains(out, "guest\ttrue\ttlsv1.3\tany\tPLAIN\t\t") {
		t.Errorf("list_connections says\n%s", out)
	}
	if r := c.Tool("rabbitmq-diagnostics", 1, "-q", "listeners"); !strings.Contains(r.Stdout, fmt.Sprintf("port: %d, protocol: amqp/ssl", port)) {
		t.Errorf("listeners: %s%s", r.Stdout, r.Stderr)
	}
	if out := c.Ctl(1, "environment"); strings.Contains(out, "not-needed-here") || !strings.Contains(out, "ssl_options.password = (hidden)") {
		t.Errorf("environment shows the password:\n%s", out)
	}
	if _, warnings, err := config.Parse("environment", []byte(c.Ctl(1, "-q", "environment"))); err != nil || len(warnings) > 0 {
		t.Errorf("environment prints what is no configuration: %v, %v", err, warnings)
	}
	turnedAway(t, c, ours, theirs, port)
	renewed(t, ours, secure, server)
	if m, err := ch.QueueDeclarePassive("q", false, false, false, false, nil); err != nil || m.Messages != 0 {
		t.Errorf("the first client: %+v, %v", m, err)
	}
}

func turnedAway(t *testing.T, c *cluster.Cluster, ours, theirs *authority, port int) {
	t.Helper()
	at := "127.0.0.1:" + strconv.Itoa(port) + "/"
	secure, plain := "amqps://guest:guest@"+at, c.URI(1)
	stranger, forged := ours.issue("stranger"), theirs.issue("app")
	refused(t, c, secure, ours.clientConfig(&stranger), true, "403", "user 'stranger' is not known")
	refused(t, c, "amqps://app:@"+at, ours.clientConfig(nil), false, "403", "user 'app' is not known or the password is wrong")
	refused(t, c, secure, ours.clientConfig(nil), true, "403", "presented no TLS (x.509) certificate")
	refused(t, c, secure, ours.clientConfig(&forged), true, "", "unknown authority")
	refused(t, c, "amqp://guest:guest@"+at, nil, false, "", "the client does not speak TLS, and this listener")
	refused(t, c, strings.Replace(plain, "amqp:", "amqps:", 1), ours.clientConfig(nil), false, "", "the client speaks TLS, and this listener")
	if conn, err := dialTLS(plain, nil, true); err == nil {
		_ = conn.Close()
		t.Error("EXTERNAL without TLS is let in")
	}
	conn := dial(t, plain) // and who is right still comes in
	channelOf(t, conn)
}

// renewed replaces the server's certificate: new connections get the new one.
func renewed(t *testing.T, ours *authority, secure string, server link.TLSFiles) {
	t.Helper()
	fresh := ours.issue("fresh")
	for from, to := range map[string]string{fresh.Cert: server.Cert, fresh.Key: server.Key} {
		b, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cluster.Eventually(t, hang, "a new connection sees the renewed certificate", func() bool {
		conf, name := ours.clientConfig(nil), ""
		conf.VerifyConnection = func(s tls.ConnectionState) error {
			name = s.PeerCertificates[0].Subject.CommonName
			return nil
		}
		conn, err := dialTLS(secure, conf, false)
		if err != nil {
			return false
		}
		return conn.Close() == nil && name == "fresh"
	})
}
