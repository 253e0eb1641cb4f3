package locate

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// TakenError: a node of that name runs already on this machine, for this user.
type TakenError struct{ Running Entry }

// Error implements error.
func (e *TakenError) Error() string {
	return fmt.Sprintf("node %s runs already: process %d, data directory %s", e.Running.Node, e.Running.Process.PID, e.Running.DataDir)
}

// maxEntry is the largest registry file that is read, in bytes.
const maxEntry = 64 << 10

// ErrNotRegistered: no running node of that name has left a file. The caller falls back to DefaultAddress.
var ErrNotRegistered = errors.New("no running node of that name is registered on this machine")

// Entry is what a running node says of itself to the tools of the same user on the same machine.
type Entry struct {
	Node       string  `json:"node"`
	Address    string  `json:"address"` // inter-node, host:port, where a tool on this machine can dial it
	DataDir    string  `json:"data_dir"`
	CookieFile string  `json:"cookie_file"`
	Process    Process `json:"process"`
	TLS        *TLS    `json:"tls,omitempty"` // nil: the node's inter-node listener is without TLS
}

// TLS names the PEM files, by absolute paths, that a tool needs for the node's inter-node listener.
type TLS struct {
	CACertFile string `json:"cacertfile"`
	CertFile   string `json:"certfile"`
	KeyFile    string `json:"keyfile"`
}

// Registry is the directory of entries, one file a node. Its methods may be called by all goroutines and processes.
type Registry struct{ dir string }

// UserRegistry is the registry of the user who asks: $XDG_RUNTIME_DIR/warren, /run/user/UID/warren or, where neither
// directory is there, warren-UID in the one for temporary files. getenv is os.Getenv or a test's.
func UserRegistry(getenv func(string) string) Registry {
	uid := strconv.Itoa(os.Getuid())
	if dir := getenv("XDG_RUNTIME_DIR"); dir != "" && isDir(dir) {
		return Registry{dir: filepath.Join(dir, "warren")}
	}
	if base := filepath.Join("/run/user", uid); isDir(base) {
		return Registry{dir: filepath.Join(base, "warren")}
	}
	return Registry{dir: filepath.Join(os.TempDir(), "warren-"+uid)}
}

// NewRegistry is a registry in a directory of the caller's choice.
func NewRegistry(dir string) Registry { return Registry{dir: dir} }

// Dir is the registry's directory.
func (r Registry) Dir() string { return r.dir }

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

func (r Registry) file(node string) string {
	return filepath.Join(r.dir, url.PathEscape(node)+".json")
}

// Register writes e, replacing an entry of the same node whose process is gone; the function returned removes it again,
// unless another process has replaced it meanwhile. Errors: *TakenError; the directory is not this user's alone.
func (r Registry) Register(e Entry) (unregister func() error, err error) {
	if err := r.prepare(); err != nil {
		return nil, err
	}
	if old, err := r.read(e.Node); err == nil && old.Process != e.Process && old.Process.Alive() {
		return nil, &TakenError{Running: old}
	}
	content, err := json.MarshalIndent(e, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("register node %s: %w", e.Node, err)
	}
	temp, err := os.CreateTemp(r.dir, ".new-*") // mode 0600
	if err != nil {
		return nil, fmt.Errorf("register node %s: %w", e.Node, err)
	}
	_, err = temp.Write(append(content, '\n'))
	err = errors.Join(err, temp.Close())
	if err == nil {
		err = os.Rename(temp.Name(), r.file(e.Node))
	}
	if err != nil {
		return nil, fmt.Errorf("register node %s: %w", e.Node, errors.Join(err, os.Remove(temp.Name())))
	}
	return func() error {
		if now, err := r.read(e.Node); err != nil || now.Process != e.Process {
			return nil
		}
		if err := os.Remove(r.file(e.Node)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("unregister node %s: %w", e.Node, err)
		}
		return nil
	}, nil
}

// prepare makes the directory, and refuses one that another user could write to: its entries decide whom a tool trusts.
func (r Registry) prepare() error {
	if err := os.MkdirAll(r.dir, 0o700); err != nil {
		return fmt.Errorf("make the registry of nodes: %w", err)
	}
	return r.check()
}

func (r Registry) check() error {
	info, err := os.Lstat(r.dir)
	if err != nil {
		return fmt.Errorf("open the registry of nodes: %w", err)
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !info.IsDir():
		return fmt.Errorf("open the registry of nodes: %s is no directory", r.dir)
	case ok && int(owner.Uid) != os.Getuid() && os.Getuid() != 0: // root may use a service's own registry
		return fmt.Errorf("open the registry of nodes: %s belongs to user %d", r.dir, owner.Uid)
	case info.Mode().Perm()&0o077 != 0:
		return fmt.Errorf("open the registry of nodes: %s has mode %#o, other users may use it; it must be 0700", r.dir, info.Mode().Perm())
	}
	return nil
}

func (r Registry) read(node string) (Entry, error) { return readEntry(r.file(node)) }

func readEntry(file string) (Entry, error) {
	info, err := os.Stat(file)
	if err != nil {
		return Entry{}, fmt.Errorf("read registry: %w", err)
	}
	if info.Size() > maxEntry {
		return Entry{}, fmt.Errorf("read registry: %s has %d bytes", file, info.Size())
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return Entry{}, fmt.Errorf("read registry: %w", err)
	}
	var e Entry
	if err := json.Unmarshal(content, &e); err != nil {
		return Entry{}, fmt.Errorf("read registry: %s: %w", file, err)
	}
	return e, nil
}

// Find returns the entry of a running node; one whose process is gone does not count (see Last). Errors: ErrNotRegistered, or the
// registry cannot be trusted or read.
func (r Registry) Find(node string) (Entry, error) {
	if !isDir(r.dir) {
		return Entry{}, ErrNotRegistered
	}
	if err := r.check(); err != nil {
		return Entry{}, err
	}
	e, err := r.read(node)
	if errors.Is(err, os.ErrNotExist) {
		return Entry{}, ErrNotRegistered
	}
	if err != nil {
		return Entry{}, err
	}
	if e.Node != node || !e.Process.Alive() {
		// The entry stays: it may be replaced by a node that starts right now, and who looks must not remove that one's.
		return Entry{}, ErrNotRegistered
	}
	return e, nil
}

// Last returns the entry of a node that ended without taking it away, as one that was killed. Errors: as Find.
func (r Registry) Last(node string) (Entry, error) {
	if !isDir(r.dir) {
		return Entry{}, ErrNotRegistered
	}
	if err := r.check(); err != nil {
		return Entry{}, err
	}
	e, err := r.read(node)
	if errors.Is(err, os.ErrNotExist) || err == nil && e.Node != node {
		return Entry{}, ErrNotRegistered
	}
	return e, err
}

// List returns the entries of all nodes that run, by name. It is for messages; what cannot be read is left out.
func (r Registry) List() []Entry {
	if r.check() != nil {
		return nil
	}
	files, err := os.ReadDir(r.dir)
	if err != nil {
		return nil
	}
	var all []Entry
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".json") {
			continue
		}
		if e, err := readEntry(filepath.Join(r.dir, f.Name())); err == nil && e.Process.Alive() {
			all = append(all, e)
		}
	}
	slices.SortFunc(all, func(a, b Entry) int { return strings.Compare(a.Node, b.Node) })
	return all
}
