package clienttls

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"fmt"
	"strings"

	"warren/dataplane/broker/config"
)

// attributes are RabbitMQ's short names (rabbit_cert_info) of the parts of a distinguished name.
var attributes = map[string]string{
	"2.5.4.3": "CN", "2.5.4.4": "SN", "2.5.4.5": "SERIALNUMBER", "2.5.4.6": "C", "2.5.4.7": "L", "2.5.4.8": "ST", "2.5.4.9": "STREET",
	"2.5.4.10": "O", "2.5.4.11": "OU", "2.5.4.12": "TITLE", "2.5.4.42": "GIVENNAME", "2.5.4.43": "INITIALS", "2.5.4.44": "GENERATIONQUALIFIER",
	"2.5.4.65": "PSEUDONYM", "0.9.2342.19200300.100.1.25": "DC", "0.9.2342.19200300.100.1.1": "UID", "1.2.840.113549.1.9.1": "EMAILADDRESS",
}

const commonName = "2.5.4.3"

// User is the user that a certificate stands for, by the rule of the configuration. It is an error if the certificate has no such
// name.
func User(cert *x509.Certificate, l config.CertLogin) (string, error) {
	switch l.From {
	case config.LoginCommonName:
		var subject pkix.RDNSequence
		if _, err := asn1.Unmarshal(cert.RawSubject, &subject); err != nil {
			return "", fmt.Errorf("read the certificate's subject: %w", err)
		}
		for _, rdn := range subject {
			for _, a := range rdn {
				if s, ok := a.Value.(string); ok && a.Type.String() == commonName && s != "" {
					return s, nil
				}
			}
		}
		return "", errors.New("the certificate has no common name (CN)")
	case config.LoginAlternativeName:
		return alternativeName(cert, l)
	}
	name, err := distinguishedName(cert.RawSubject)
	if err == nil && name == "" {
		err = errors.New("the certificate's subject is empty")
	}
	return name, err
}

func alternativeName(cert *x509.Certificate, l config.CertLogin) (string, error) {
	var all []string
	switch l.SANType {
	case config.SANEmail:
		all = cert.EmailAddresses
	case config.SANIP:
		for _, ip := range cert.IPAddresses {
			all = append(all, ip.String())
		}
	case config.SANURI:
		for _, u := range cert.URIs {
			all = append(all, u.String())
		}
	default:
		all = cert.DNSNames
	}
	if l.SANIndex >= len(all) {
		return "", fmt.Errorf("the certificate has %d alternative names of type %s; ssl_cert_login_san_index is %d", len(all), l.SANType, l.SANIndex)
	}
	return all[l.SANIndex], nil
}

// distinguishedName writes a name as RabbitMQ does: the last part first (RFC 4514), with its short names.
func distinguishedName(der []byte) (string, error) {
	var sequence pkix.RDNSequence
	if _, err := asn1.Unmarshal(der, &sequence); err != nil {
		return "", fmt.Errorf("read a distinguished name: %w", err)
	}
	parts := make([]string, 0, len(sequence))
	for i := len(sequence) - 1; i >= 0; i-- {
		var values []string
		for _, a := range sequence[i] {
			name := a.Type.String()
			if short, ok := attributes[name]; ok {
				name = short
			}
			values = append(values, name+"="+escaped(fmt.Sprint(a.Value)))
		}
		parts = append(parts, strings.Join(values, "+"))
	}
	return strings.Join(parts, ","), nil
}

// escaped is a value as in RFC 4514, section 2.4.
func escaped(value string) string {
	var b strings.Builder
	for i, r := range value {
		outer := i == 0 && (r == ' ' || r == '#') || i == len(value)-1 && r == ' '
		if outer || strings.ContainsRune(`,+"\<>;`, r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}
