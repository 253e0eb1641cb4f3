package broker

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// dataFormat is the version of the data directory's layout. A node refuses a directory of a newer one.
const dataFormat = 1

// identity is what a data directory remembers of its node, in the file "node".
type identity struct {
	Format      int    `json:"format"`
	Node        string `json:"node"`
	Incarnation uint64 `json:"incarnation"` // the newest one that was used
	// Up is the newest incarnation that was proposed to the cluster from this disk. A cluster that knows a newer one has seen
	// the node on another disk, or on this one at a later time.
	Up uint64 `json:"up,omitempty"`
	// Joining: the node was let into a cluster by join_cluster and waits for that cluster's leader. It says so until it is up.
	Joining bool `json:"joining,omitempty"`
	// Shunned are the nodes that its cluster was recovered without.
	Shunned []string `json:"shunned,omitempty"`
}

// ErrDataInUse: another process has the data directory open.
var ErrDataInUse = errors.New("data directory is in use by another process, which has to be stopped first")

// dataDir is a node's data directory, held while it is open.
type dataDir struct {
	path string
	lock *os.File
	id   identity
	// found is the newest incarnation that was on the disk when it was opened; 0: the directory is new.
	found uint64
}

// openDataDir creates or opens a data directory for the node called name.
func openDataDir(path, name string) (*dataDir, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("create the data directory: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(path, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the lock of data directory %s: %w", path, err)
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = lock.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("open %s: %w", path, ErrDataInUse)
		}
		return nil, fmt.Errorf("lock data directory %s: %w", path, err)
	}
	d := &dataDir{path: path, lock: lock}
	if err := d.load(name); err != nil {
		d.close()
		return nil, err
	}
	return d, nil
}

func (d *dataDir) file() string { return filepath.Join(d.path, "node") }

func (d *dataDir) load(name string) error {
	b, err := os.ReadFile(d.file())
	if errors.Is(err, fs.ErrNotExist) {
		d.id = identity{Format: dataFormat, Node: name}
		return nil
	} else if err != nil {
		return fmt.Errorf("read the node's identity: %w", err)
	}
	if err := json.Unmarshal(b, &d.id); err != nil {
		return fmt.Errorf("the node's identity in %s is damaged (%w); restore the file, or move the data directory away to start empty", d.file(), err)
	}
	if d.id.Format > dataFormat {
		return fmt.Errorf("data directory %s has format %d, written by a newer Warren; this one knows up to %d", d.path, d.id.Format, dataFormat)
	}
	d.found = d.id.Incarnation
	if d.id.Up == 0 { // written by a version that did not know it, or never up
		d.id.Up = d.id.Incarnation
	}
	if d.id.Node != name {
		return fmt.Errorf("data directory %s belongs to node %s, not to %s: a node cannot be renamed", d.path, d.id.Node, name)
	}
	return nil
}

// nextIncarnation makes and remembers an incarnation above every earlier one. It looks like the start time in seconds, as
// the creation number in RabbitMQ's process identifiers does.
func (d *dataDir) nextIncarnation() (uint64, error) {
	next := d.id
	next.Incarnation = max(d.id.Incarnation+1, uint64(time.Now().Unix()))
	b, err := json.Marshal(next)
	if err != nil {
		return 0, fmt.Errorf("encode the node's identity: %w", err)
	}
	if err := writeDurably(d.file(), b); err != nil {
		return 0, fmt.Errorf("remember incarnation %d: %w", next.Incarnation, err)
	}
	d.id = next
	return next.Incarnation, nil
}

// setUp remembers that an incarnation is about to be proposed.
func (d *dataDir) setUp(incarnation uint64) error {
	next := d.id
	next.Up = incarnation
	return d.store(next)
}

// setJoining remembers whether the node waits for the cluster that let it in.
func (d *dataDir) setJoining(joining bool) error {
	if d.id.Joining == joining {
		return nil
	}
	next := d.id
	next.Joining = joining
	return d.store(next)
}

func (d *dataDir) store(next identity) error {
	b, err := json.Marshal(next)
	if err != nil {
		return fmt.Errorf("encode the node's identity: %w", err)
	}
	if err := writeDurably(d.file(), b); err != nil {
		return fmt.Errorf("remember the node's identity: %w", err)
	}
	d.id = next
	return nil
}

// writeDurably replaces a file so that after a crash it holds the old or the new content.
func writeDurably(path string, b []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".new")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }()
	if _, err = f.Write(b); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

func (d *dataDir) close() { _ = d.lock.Close() }
