package locate

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// CookieName is the cookie's file in a node's data directory.
const CookieName = ".cookie"

// Limits of a cookie, in bytes. Below MinCookie it would be guessed (dataplane/link refuses it too).
const (
	MinCookie = 8
	maxCookie = 4096
)

// CookieError is a cookie file that cannot be used, and what to do about it.
type CookieError struct {
	File string
	Err  error
}

// Error implements error.
func (e *CookieError) Error() string { return fmt.Sprintf("cookie file %s: %v", e.File, e.Err) }

// Unwrap returns the cause.
func (e *CookieError) Unwrap() error { return e.Err }

// ReadCookie reads the secret that the nodes of a cluster and their tools share; white space around it does not count. The
// file must be readable by its owner alone (mode 0400 or 0600). Error: *CookieError; it wraps os.ErrNotExist if there is none.
func ReadCookie(file string) ([]byte, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, &CookieError{file, err}
	}
	if perm := info.Mode().Perm(); perm&0o077 != 0 {
		return nil, &CookieError{file, fmt.Errorf("mode %#o lets other users read it; make it 0400: chmod 400 %s", perm, file)}
	}
	if !info.Mode().IsRegular() {
		return nil, &CookieError{file, errors.New("is no regular file")}
	}
	if info.Size() > maxCookie {
		return nil, &CookieError{file, fmt.Errorf("has %d bytes; the limit is %d", info.Size(), maxCookie)}
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, &CookieError{file, err}
	}
	cookie := bytes.TrimSpace(content)
	if len(cookie) == 0 {
		return nil, &CookieError{file, errors.New("is empty; copy the cookie of another node of the cluster, or remove the file for a new one")}
	}
	if len(cookie) < MinCookie {
		return nil, &CookieError{file, fmt.Errorf("has %d bytes; at least %d are needed", len(cookie), MinCookie)}
	}
	return cookie, nil
}

// EnsureCookie returns the cookie, and makes the file (mode 0400, its directory 0700, a random secret) if there is none. Two
// processes that start at once end up with the same cookie. Error: *CookieError.
func EnsureCookie(file string) ([]byte, error) {
	cookie, err := ReadCookie(file)
	if !errors.Is(err, os.ErrNotExist) {
		return cookie, err
	}
	dir := filepath.Dir(file)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, &CookieError{file, err}
	}
	temp, err := os.CreateTemp(dir, ".cookie-new-*")
	if err != nil {
		return nil, &CookieError{file, err}
	}
	err = errors.Join(writeCookie(temp), temp.Close())
	if err == nil {
		err = os.Link(temp.Name(), file) // fails if somebody was faster, never shows half a file
	}
	if removeErr := os.Remove(temp.Name()); removeErr != nil && err == nil {
		err = removeErr
	}
	if err != nil && !errors.Is(err, os.ErrExist) {
		return nil, &CookieError{file, err}
	}
	return ReadCookie(file)
}

func writeCookie(f *os.File) error {
	secret := make([]byte, 32)
	if _, err := rand.Read(secret); err != nil {
		return fmt.Errorf("find randomness: %w", err)
	}
	if _, err := f.WriteString(hex.EncodeToString(secret) + "\n"); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	if err := f.Chmod(0o400); err != nil {
		return fmt.Errorf("protect: %w", err)
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("sync: %w", err)
	}
	return nil
}
