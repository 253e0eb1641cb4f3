package locate

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
)

// InternodePort is where a node listens for nodes and tools if nothing else is said.
const InternodePort = 25672

// DefaultName is the part before the @ of a node that was given no name.
const DefaultName = "rabbit"

// NodeNameError is a name that no node can have.
type NodeNameError struct{ Name string }

// Error implements error.
func (e *NodeNameError) Error() string {
	return fmt.Sprintf("%q is no node name: letters, digits, _ and - before the @, a host name after it", e.Name)
}

// ShortHostname is the machine's name up to the first dot.
func ShortHostname() (string, error) {
	host, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("find the host name: %w", err)
	}
	short, _, _ := strings.Cut(host, ".")
	return short, nil
}

// NodeName completes what the user typed: "x" and "x@" are nodes on host, "x@y" is taken as it is. host is asked for only when
// it is needed. Error: *NodeNameError, or host's.
func NodeName(typed string, host func() (string, error)) (string, error) {
	name, at, _ := strings.Cut(typed, "@")
	if !validName(name) {
		return "", &NodeNameError{Name: typed}
	}
	if at == "" {
		short, err := host()
		if err != nil {
			return "", err
		}
		at = short
	}
	if !validHost(at) {
		return "", &NodeNameError{Name: typed}
	}
	return name + "@" + at, nil
}

func validName(name string) bool {
	for _, r := range name {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_', r == '-':
		default:
			return false
		}
	}
	return name != "" && len(name) <= 200
}

func validHost(host string) bool {
	for _, r := range host {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', strings.ContainsRune("_-.:", r):
		default:
			return false
		}
	}
	return host != "" && len(host) <= 253
}

// DefaultAddress is where a node of that full name listens if nothing else is known.
func DefaultAddress(node string) string {
	_, host, _ := strings.Cut(node, "@")
	return net.JoinHostPort(host, strconv.Itoa(InternodePort))
}
