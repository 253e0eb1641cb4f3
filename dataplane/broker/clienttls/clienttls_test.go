package clienttls

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"warren/dataplane/broker/config"
)

// issue makes a certificate that signs itself.
func issue(t *testing.T, c *x509.Certificate) (cert, key []byte, parsed *x509.Certificate) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c.SerialNumber, c.NotBefore, c.NotAfter = big.NewInt(1), time.Unix(1700000000, 0), time.Now().Add(time.Hour)
	cert, err = x509.CreateCertificate(rand.Reader, c, c, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	if key, err = x509.MarshalPKCS8PrivateKey(private); err != nil {
		t.Fatal(err)
	}
	if parsed, err = x509.ParseCertificate(cert); err != nil {
		t.Fatal(err)
	}
	return cert, key, parsed
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// encrypt is what "openssl pkcs8 -topk8 -v2 aes256" does.
func encrypt(t *testing.T, der, password []byte) []byte {
	t.Helper()
	salt, iv := []byte("salt-and"), []byte("sixteen-octets-!")
	key, err := pbkdf2.Key(sha256.New, string(password), salt, 2048, 32)
	if err != nil {
		t.Fatal(err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		t.Fatal(err)
	}
	n := aes.BlockSize - len(der)%aes.BlockSize
	data := append(bytes.Clone(der), bytes.Repeat([]byte{byte(n)}, n)...)
	cipher.NewCBCEncrypter(block, iv).CryptBlocks(data, data)
	raw := func(v any) asn1.RawValue {
		b, err := asn1.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return asn1.RawValue{FullBytes: b}
	}
	out := raw(encryptedKey{
		Algorithm: pkix.AlgorithmIdentifier{Algorithm: oidPBES2, Parameters: raw(pbes2Params{
			Derivation: pkix.AlgorithmIdentifier{Algorithm: oidPBKDF2, Parameters: raw(pbkdf2Params{
				Salt: salt, Iterations: 2048, PRF: pkix.AlgorithmIdentifier{Algorithm: asn1.ObjectIdentifier{1, 2, 840, 113549, 2, 9}},
			})},
			Scheme: pkix.AlgorithmIdentifier{Algorithm: asn1.ObjectIdentifier{2, 16, 840, 1, 101, 3, 4, 1, 42}, Parameters: raw(iv)},
		})},
		Data: data,
	})
	return out.FullBytes
}

func TestEncryptedKeys(t *testing.T) {
	_, key, _ := issue(t, &x509.Certificate{})
	want := encode("PRIVATE KEY", key)
	//lint:ignore SA1019 the old form has to be read
	old, err := x509.EncryptPEMBlock(rand.Reader, "PRIVATE KEY", key, []byte("secret"), x509.PEMCipherAES256)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{
		"PKCS #8": encode("ENCRYPTED PRIVATE KEY", encrypt(t, key, []byte("secret"))), "RFC 1421": pem.EncodeToMemory(old), "plain": want,
	} {
		if got, err := decipher(text, []byte("secret")); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %v\n%s", name, err, got)
		}
		if _, err := decipher(text, []byte("wrong")); name != "plain" && (err == nil || !strings.Contains(err.Error(), "ssl_options.password is wrong")) {
			t.Errorf("%s with a wrong password: %v", name, err)
		}
	}
}

func FuzzDecipher(f *testing.F) {
	f.Add([]byte("-----BEGIN ENCRYPTED PRIVATE KEY-----\nMAA=\n-----END ENCRYPTED PRIVATE KEY-----\n"))
	f.Fuzz(func(_ *testing.T, text []byte) {
		_, _ = decipher(text, []byte("p")) // it does not panic
	})
}

func TestUser(t *testing.T) {
	link, err := url.Parse("spiffe://x/y")
	if err != nil {
		t.Fatal(err)
	}
	_, _, cert := issue(t, &x509.Certificate{
		Subject:  pkix.Name{CommonName: "bob, the first", Organization: []string{"client"}, Country: []string{"SE"}, OrganizationalUnit: []string{"a+b"}},
		DNSNames: []string{"one.example", "two.example"}, EmailAddresses: []string{"bob@example"}, IPAddresses: []net.IP{net.IPv4(10, 0, 0, 1)},
		URIs: []*url.URL{link},
	})
	for _, tc := range []struct {
		login config.CertLogin
		want  string
	}{
		{config.CertLogin{From: config.LoginDistinguishedName}, `CN=bob\, the first,OU=a\+b,O=client,C=SE`},
		{config.CertLogin{From: config.LoginCommonName}, "bob, the first"},
		{config.CertLogin{From: config.LoginAlternativeName, SANType: config.SANDNS, SANIndex: 1}, "two.example"},
		{config.CertLogin{From: config.LoginAlternativeName, SANType: config.SANEmail}, "bob@example"},
		{config.CertLogin{From: config.LoginAlternativeName, SANType: config.SANIP}, "10.0.0.1"},
		{config.CertLogin{From: config.LoginAlternativeName, SANType: config.SANURI}, "spiffe://x/y"},
		{config.CertLogin{From: config.LoginAlternativeName, SANType: config.SANEmail, SANIndex: 1}, ""},
	} {
		if got, err := User(cert, tc.login); got != tc.want || (err == nil) != (tc.want != "") {
			t.Errorf("%+v: %q, %v; want %q", tc.login, got, err, tc.want)
		}
	}
	_, _, nobody := issue(t, &x509.Certificate{})
	for _, from := range []string{config.LoginDistinguishedName, config.LoginCommonName} {
		if got, err := User(nobody, config.CertLogin{From: from}); err == nil {
			t.Errorf("a certificate without a subject names %q by %s", got, from)
		}
	}
}

func TestDescribe(t *testing.T) {
	_, _, cert := issue(t, &x509.Certificate{Subject: pkix.Name{CommonName: "bob"}})
	got := *Describe(&tls.ConnectionState{Version: tls.VersionTLS13, CipherSuite: tls.TLS_AES_128_GCM_SHA256, PeerCertificates: []*x509.Certificate{cert}})
	want := Facts{Protocol: "tlsv1.3", KeyExchange: "any", Cipher: "aes_128_gcm", Hash: "aead", PeerSubject: "CN=bob", PeerIssuer: "CN=bob",
		PeerValidity: "2023-11-14T22:13:20Z - " + cert.NotAfter.UTC().Format(time.RFC3339)}
	if got != want {
		t.Errorf("%+v\nwant %+v", got, want)
	}
	for id, want := range map[uint16][3]string{
		tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384:       {"ecdhe_rsa", "aes_256_gcm", "aead"},
		tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA:        {"ecdhe_ecdsa", "aes_128_cbc", "sha"},
		tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256: {"ecdhe_rsa", "chacha20_poly1305", "aead"},
		tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256:     {"ecdhe_ecdsa", "aes_128_cbc", "sha256"},
		tls.TLS_RSA_WITH_AES_128_CBC_SHA:                {"rsa", "aes_128_cbc", "sha"},
	} {
		if k, c, h := suite(tls.CipherSuiteName(id)); [3]string{k, c, h} != want {
			t.Errorf("%s: %s %s %s", tls.CipherSuiteName(id), k, c, h)
		}
	}
}

// TestFilesAreReadAgain: a renewed certificate is used without a restart, and one that cannot be read changes nothing.
func TestFilesAreReadAgain(t *testing.T) {
	dir := t.TempDir()
	o := config.ClientTLS{TLS: config.TLS{CertFile: filepath.Join(dir, "cert.pem"), KeyFile: filepath.Join(dir, "key.pem")}}
	now := time.Now()
	write := func(cert, key []byte) {
		t.Helper()
		now = now.Add(time.Minute)
		for name, text := range map[string][]byte{o.CertFile: cert, o.KeyFile: key} {
			if err := os.WriteFile(name, text, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chtimes(name, now, now); err != nil {
				t.Fatal(err)
			}
		}
	}
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, nil))
	if _, err := Open(o, logger); err == nil || !strings.Contains(err.Error(), "ssl_options.certfile") {
		t.Fatalf("without files: %v", err)
	}
	first, firstKey, _ := issue(t, &x509.Certificate{})
	second, secondKey, _ := issue(t, &x509.Certificate{})
	write(encode("CERTIFICATE", first), encode("PRIVATE KEY", firstKey))
	f, err := Open(o, logger)
	if err != nil {
		t.Fatal(err)
	}
	uses := func(want []byte) bool { return bytes.Equal(f.newest(now).Certificates[0].Certificate[0], want) }
	if !uses(first) {
		t.Error("the first certificate is not used")
	}
	write(encode("CERTIFICATE", second), encode("PRIVATE KEY", firstKey))
	if !uses(first) || !strings.Contains(log.String(), "level=ERROR") {
		t.Errorf("a certificate without its key is used; log: %s", log.String())
	}
	write(encode("CERTIFICATE", second), encode("PRIVATE KEY", secondKey))
	if !uses(second) {
		t.Error("the renewed certificate is not used")
	}
}
