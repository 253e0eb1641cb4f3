package raftstore

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime/debug"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// errDamaged: a file of the metadata cannot be what was written.
var errDamaged = errors.New("the file is damaged")

// checkFile reads the whole log file before it is used. The library that reads it panics, in goroutines of its own too, where
// it meets damage; here that becomes one error. A file that is not there yet is fine. It must not be open.
func checkFile(path string) (err error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	// A file that was cut short is mapped beyond its end: reading there is a fault.
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", errDamaged, p)
		}
	}()
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: time.Second, ReadOnly: true})
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return errors.New("another process uses it")
	case errors.Is(err, bolterrors.ErrInvalid), errors.Is(err, bolterrors.ErrChecksum), errors.Is(err, bolterrors.ErrVersionMismatch):
		return fmt.Errorf("%w: %w", errDamaged, err)
	case err != nil:
		return err
	}
	defer db.Close()
	return db.View(func(tx *bbolt.Tx) error {
		return tx.ForEach(func(name []byte, b *bbolt.Bucket) error { return checkBucket(name, b) })
	})
}

// checkBucket reads every page of a bucket.
func checkBucket(name []byte, b *bbolt.Bucket) error {
	var last []byte
	read := 0
	return b.ForEach(func(k, v []byte) error {
		if last != nil && bytes.Compare(last, k) >= 0 {
			return fmt.Errorf("%w: the entries of %q are not in order", errDamaged, name)
		}
		last = k
		for i := 0; i < len(v); i += os.Getpagesize() {
			read += int(v[i])
		}
		return nil
	})
}
