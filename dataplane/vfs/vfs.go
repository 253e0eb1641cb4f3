package vfs

import (
	"errors"
	"io"
)

// File is an open file. ReadAt and WriteAt may be called from several goroutines at once.
type File interface {
	io.ReaderAt
	io.WriterAt
	// Sync makes the file's content and size durable (fdatasync), not its name: see FS.SyncDir. After an error nothing is
	// known about what is durable, and another Sync proves nothing.
	Sync() error
	// Allocate makes the file at least end bytes large, with room on the disk for all of it; what is new reads as zeroes. It saves
	// a Sync of what is then written there the file's metadata. errors.ErrUnsupported where the file system cannot; after any
	// error the size is unknown.
	Allocate(end int64) error
	// Truncate sets the size in bytes.
	Truncate(size int64) error
	// Size in bytes.
	Size() (int64, error)
	Close() error
}

// Space is what a file system has, in bytes. Free is what an unprivileged process may still use.
type Space struct{ Free, Total uint64 }

// ErrLocked: another process (or another user in this one) holds the lock.
var ErrLocked = errors.New("locked by another process")

// FS is a file system. Paths are slash-separated. Errors match fs.ErrNotExist and fs.ErrExist where they apply. Changes of
// names (Create, Rename, Remove, MkdirAll) are durable after SyncDir of the directory that holds the name.
type FS interface {
	// Create makes a new file for reading and writing; fs.ErrExist if the name is taken.
	Create(path string) (File, error)
	// Open opens a file for reading and writing.
	Open(path string) (File, error)
	Remove(path string) error
	// RemoveAll removes a tree; that there is none is no error.
	RemoveAll(path string) error
	Rename(from, to string) error
	MkdirAll(path string) error
	// ReadDir is the names in a directory, ascending.
	ReadDir(path string) ([]string, error)
	SyncDir(path string) error
	// Lock takes an exclusive lock on the file at path, made if need be, until the Closer is closed or the process ends.
	// ErrLocked at once if it is held.
	Lock(path string) (io.Closer, error)
	// Space of the file system that holds path.
	Space(path string) (Space, error)
}

// ReadFile reads a whole file.
func ReadFile(fsys FS, path string) ([]byte, error) { return ReadFileInto(fsys, path, nil) }

// ReadFileInto reads a whole file into b if it is large enough, else into a new buffer.
func ReadFileInto(fsys FS, path string, b []byte) ([]byte, error) {
	f, err := fsys.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	n, err := f.Size()
	if err != nil {
		return nil, err
	}
	if int64(cap(b)) < n {
		b = make([]byte, n)
	}
	b = b[:n]
	if n == 0 {
		return b, nil
	}
	if _, err := f.ReadAt(b, 0); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return b, nil
}

// WriteFile makes a new file with the content, durable but for its name.
func WriteFile(fsys FS, path string, b []byte) error {
	f, err := fsys.Create(path)
	if err != nil {
		return err
	}
	if _, err := f.WriteAt(b, 0); err != nil {
		return errors.Join(err, f.Close())
	}
	if err := f.Sync(); err != nil {
		return errors.Join(err, f.Close())
	}
	return f.Close()
}
