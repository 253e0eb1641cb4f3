package config

import (
	"crypto/tls"
	"reflect"
	"strings"
	"testing"
	"time"
)

const certAndKey = "ssl_options.certfile = /c.pem\nssl_options.keyfile = /k.pem\n"

func TestParseSSL(t *testing.T) {
	c, warnings, err := Parse("f", []byte(certAndKey+`listeners.ssl.default = 5671
ssl_options.cacertfile = /ca.pem
ssl_options.password = secret
ssl_options.verify = verify_peer
ssl_options.fail_if_no_peer_cert = true
ssl_options.depth = 2
ssl_options.versions.1 = tlsv1.2
ssl_options.ciphers.1 = ECDHE-RSA-AES256-GCM-SHA384
ssl_options.ciphers.2 = TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256
ssl_options.ciphers.3 = ECDHE-RSA-CHACHA20-POLY1305
ssl_options.honor_cipher_order = true
ssl_handshake_timeout = 3000
auth_mechanisms.2 = EXTERNAL
auth_mechanisms.1 = PLAIN
ssl_cert_login_from = subject_alternative_name
ssl_cert_login_san_type = email
ssl_cert_login_san_index = 1
`))
	if err != nil || len(warnings) > 0 {
		t.Fatalf("%v, %v", err, warnings)
	}
	want := Default()
	want.SSLListeners = []Listener{{Port: 5671}}
	want.ClientTLS = ClientTLS{
		TLS: TLS{"/ca.pem", "/c.pem", "/k.pem"}, Password: "secret", VerifyPeer: true, FailIfNoPeerCert: true, Depth: 2,
		MinVersion: tls.VersionTLS12, MaxVersion: tls.VersionTLS12,
		Ciphers: []uint16{tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256},
	}
	want.TLSHandshakeTimeout = 3 * time.Second
	want.AuthMechanisms = []string{"PLAIN", "EXTERNAL"}
	want.CertLogin = CertLogin{From: LoginAlternativeName, SANType: SANEmail, SANIndex: 1}
	if !reflect.DeepEqual(c, want) {
		t.Errorf("got\n%+v\nwant\n%+v", c, want)
	}
	checkSettings(t, c)
	if c.ClientTLS.Password.String() != "(hidden)" {
		t.Error("the password is shown")
	}
}

func TestParseRefusesSSL(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{"listeners.ssl.1 = 5671", "f: listeners.ssl needs ssl_options.certfile and ssl_options.keyfile"},
		{certAndKey + "listeners.ssl.1 = 5672", "f:3: listeners.ssl.1: :5672 is listened on already"},
		{"ssl_options.verify = verify_peer", "f: ssl_options.verify = verify_peer needs ssl_options.cacertfile"},
		{"ssl_options.verify = maybe", `f:1: ssl_options.verify: "maybe" is none of verify_peer, verify_none`},
		{"ssl_options.fail_if_no_peer_cert = true", "f: ssl_options.fail_if_no_peer_cert = true needs ssl_options.verify = verify_peer"},
		{"auth_mechanisms.1 = EXTERNAL", "f: auth_mechanisms: EXTERNAL believes certificates, and needs ssl_options.verify = verify_peer"},
		{"auth_mechanisms.1 = ANONYMOUS", `f:1: auth_mechanisms.1: "ANONYMOUS" is none of PLAIN, AMQPLAIN, EXTERNAL`},
		{"ssl_options.versions.1 = tlsv1.3\nssl_options.versions.2 = tlsv1.1", "f: ssl_options.versions: tlsv1.2 is missing between those that are named"},
		{"ssl_options.versions.1 = sslv3", `f:1: ssl_options.versions.1: "sslv3" is none of tlsv1.3, tlsv1.2, tlsv1.1, tlsv1`},
		{"ssl_options.ciphers.1 = DHE-RSA-AES256-SHA", "f: ssl_options.ciphers: none of those named is among the ciphers that Go has"},
		{"ssl_options.crl_check = true", `f:1: ssl_options.crl_check: "true" cannot be kept: lists of revoked certificates are not read; possible is false, off, none`},
		{"ssl_options.password = encrypted:x", `f:1: ssl_options.password: encrypted values are not supported; write the password itself, and protect the file`},
		{"ssl_cert_login_from = email", `f:1: ssl_cert_login_from: "email" is none of distinguished_name, common_name, subject_alternative_name`},
	} {
		if _, _, err := Parse("f", []byte(tc.text)); err == nil || err.Error() != tc.want {
			t.Errorf("%q:\n got %v\nwant %s", tc.text, err, tc.want)
		}
	}
}

func TestParseWarnsOfSSL(t *testing.T) {
	_, warnings, err := Parse("f", []byte("ssl_options.ciphers.1 = DHE-RSA-AES256-SHA\nssl_options.ciphers.2 = TLS_AES_128_GCM_SHA256\n"+
		"ssl_options.honor_cipher_order = false\nssl_options.secure_renegotiate = true"))
	if err != nil || len(warnings) != 3 || !strings.Contains(warnings[0].Text, "DHE-RSA-AES256-SHA is not among the ciphers") {
		t.Errorf("%v, %v", err, warnings)
	}
}
