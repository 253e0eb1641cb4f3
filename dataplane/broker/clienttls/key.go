package clienttls

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/pbkdf2"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"hash"
)

// maxIterations bounds the work that a file may ask for.
const maxIterations = 10_000_000

var errPassword = errors.New("the key cannot be deciphered: ssl_options.password is wrong or missing")

// decipher returns a PEM text whose private key is not encrypted. It understands PKCS #8 (RFC 5958) with PBES2, PBKDF2 and AES-CBC
// (RFC 8018), which is what OpenSSL writes since 1.1, and the encrypted PEM of RFC 1421 from before.
func decipher(text, password []byte) ([]byte, error) {
	for rest := text; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return text, nil // nothing is encrypted; what else may be wrong is found by the reader
		}
		switch {
		case block.Type == "ENCRYPTED PRIVATE KEY":
			der, err := decipherPKCS8(block.Bytes, password)
			if err != nil {
				return nil, err
			}
			return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
		case block.Headers["DEK-Info"] != "":
			//lint:ignore SA1019 keys of this form are what RabbitMQ's users have; its weakness is theirs already
			der, err := x509.DecryptPEMBlock(block, password)
			if err != nil {
				return nil, errPassword
			}
			return pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: der}), nil
		}
	}
}

// The structures of RFC 5958, section 3, and RFC 8018, appendix A.
type encryptedKey struct {
	Algorithm pkix.AlgorithmIdentifier
	Data      []byte
}

type pbes2Params struct{ Derivation, Scheme pkix.AlgorithmIdentifier }

type pbkdf2Params struct {
	Salt       []byte
	Iterations int
	KeyLength  int                      `asn1:"optional"`
	PRF        pkix.AlgorithmIdentifier `asn1:"optional"`
}

var (
	oidPBES2  = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 5, 13}
	oidPBKDF2 = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 5, 12}
)

// prfs are the pseudo-random functions (HMAC) by their identifiers; without one it is that of SHA-1.
var prfs = map[string]func() hash.Hash{
	"":                   sha1.New,
	"1.2.840.113549.2.7": sha1.New, "1.2.840.113549.2.9": sha256.New, "1.2.840.113549.2.10": sha512.New384, "1.2.840.113549.2.11": sha512.New,
}

// schemes are the lengths of keys of AES-CBC.
var schemes = map[string]int{
	"2.16.840.1.101.3.4.1.2": 16, "2.16.840.1.101.3.4.1.22": 24, "2.16.840.1.101.3.4.1.42": 32,
}

func decipherPKCS8(der, password []byte) ([]byte, error) {
	var e encryptedKey
	var p pbes2Params
	var k pbkdf2Params
	var iv []byte
	if _, err := asn1.Unmarshal(der, &e); err != nil {
		return nil, fmt.Errorf("read the encrypted key: %w", err)
	}
	if !e.Algorithm.Algorithm.Equal(oidPBES2) {
		return nil, fmt.Errorf("the key is encrypted by algorithm %v; understood is PBES2: write it anew with openssl pkcs8 -topk8 -v2 aes256", e.Algorithm.Algorithm)
	}
	if _, err := asn1.Unmarshal(e.Algorithm.Parameters.FullBytes, &p); err != nil {
		return nil, fmt.Errorf("read how the key is encrypted: %w", err)
	}
	size, isAES := schemes[p.Scheme.Algorithm.String()]
	if !p.Derivation.Algorithm.Equal(oidPBKDF2) || !isAES {
		return nil, fmt.Errorf("the key is encrypted by %v and %v; understood are PBKDF2 and AES-CBC: write it anew with openssl pkcs8 -topk8 -v2 aes256",
			p.Derivation.Algorithm, p.Scheme.Algorithm)
	}
	if _, err := asn1.Unmarshal(p.Derivation.Parameters.FullBytes, &k); err != nil {
		return nil, fmt.Errorf("read how the key is encrypted: %w", err)
	}
	if _, err := asn1.Unmarshal(p.Scheme.Parameters.FullBytes, &iv); err != nil {
		return nil, fmt.Errorf("read how the key is encrypted: %w", err)
	}
	prf := prfs[k.PRF.Algorithm.String()]
	if prf == nil || k.Iterations < 1 || k.Iterations > maxIterations || len(iv) != aes.BlockSize || len(e.Data) == 0 || len(e.Data)%aes.BlockSize != 0 {
		return nil, errors.New("the key is encrypted in a way that is not understood")
	}
	return decipherCBC(e.Data, password, k, prf, size, iv)
}

func decipherCBC(data, password []byte, k pbkdf2Params, prf func() hash.Hash, size int, iv []byte) ([]byte, error) {
	key, err := pbkdf2.Key(prf, string(password), k.Salt, k.Iterations, size)
	if err != nil {
		return nil, fmt.Errorf("derive the key's key: %w", err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("decipher the key: %w", err)
	}
	plain := make([]byte, len(data))
	cipher.NewCBCDecrypter(block, iv).CryptBlocks(plain, data)
	padding := int(plain[len(plain)-1])
	if padding < 1 || padding > aes.BlockSize {
		return nil, errPassword
	}
	plain = plain[:len(plain)-padding]
	if _, err := x509.ParsePKCS8PrivateKey(plain); err != nil {
		return nil, errPassword
	}
	return plain, nil
}
