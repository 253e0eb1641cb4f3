//go:build compare

package integration

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"warren/integration/cluster"
)

// managementAddress is where the tests of amqp091-go look for RabbitMQ's management API.
const managementAddress = "localhost:15672"

// TestGoClient runs the integration tests that ship in the module github.com/rabbitmq/amqp091-go, unchanged, against a node. It
// is `make compare-amqp091`. They see the product name RabbitMQ. Two requests to RabbitMQ's management API, which Warren does not have yet, are answered here with
// rabbitmqctl: the list of connections and the closing of one.
func TestGoClient(t *testing.T) {
	binary := goClientTests(t)
	c := cluster.Start(t, 1)
	serveManagement(t, c)
	out := goClient(t, binary, c)
	counts := map[string]int{}
	for _, m := range regexp.MustCompile(`(?m)^\s*--- (PASS|FAIL|SKIP): (\S+)`).FindAllStringSubmatch(out, -1) {
		if counts[m[1]]++; m[1] != "PASS" {
			t.Errorf("%s: %s", m[2], m[1])
		}
	}
	t.Logf("amqp091-go: %v", counts)
	if counts["PASS"] < 150 {
		t.Errorf("%d tests passed, fewer than 150", counts["PASS"])
	}
	if t.Failed() {
		t.Log(out)
	}
}

// goClientTests builds the module's tests from a copy of its files.
func goClientTests(t *testing.T) string {
	t.Helper()
	module, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/rabbitmq/amqp091-go").Output()
	if err != nil {
		t.Fatalf("find the module amqp091-go: %v", err)
	}
	dir := t.TempDir()
	err = filepath.WalkDir(strings.TrimSpace(string(module)), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		to := filepath.Join(dir, strings.TrimPrefix(path, strings.TrimSpace(string(module))))
		if d.IsDir() {
			return os.MkdirAll(to, 0o755)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(to, b, 0o644)
	})
	if err != nil {
		t.Fatalf("copy the module amqp091-go: %v", err)
	}
	cmd := exec.CommandContext(t.Context(), "go", "test", "-c", "-tags", "integration", "-o", "client.test", ".")
	cmd.Dir = dir
	if err := run(cmd); err != nil {
		t.Fatalf("build the tests of amqp091-go: %v", err)
	}
	return filepath.Join(dir, "client.test")
}

// goClient runs the tests against node 1.
func goClient(t *testing.T, binary string, c *cluster.Cluster) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary, "-test.v", "-test.timeout", "10m")
	cmd.Dir = filepath.Dir(binary)
	cmd.Env = append(os.Environ(), "AMQP_URL=amqp://guest:guest@"+asRabbitMQ(t, c.Address(1))+"/", "XDG_RUNTIME_DIR="+c.Dir, "RABBITMQ_NODENAME="+c.Name(1),
		"RABBITMQ_RABBITMQCTL_PATH="+filepath.Join(filepath.Dir(cluster.Binary(t)), "rabbitmqctl"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("tests of amqp091-go: %v", err)
	}
	return string(out)
}

// asRabbitMQ passes connections on to addr under the product name RabbitMQ, without which three of the tests do nothing.
func asRabbitMQ(t *testing.T, addr string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	t.Cleanup(func() { _ = listener.Close(); wg.Wait() })
	wg.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { passOn(client, addr) })
		}
	})
	return listener.Addr().String()
}

// passOn carries one connection until either end closes it.
func passOn(client net.Conn, addr string) {
	defer client.Close()
	server, err := net.Dial("tcp", addr)
	if err != nil {
		return
	}
	defer server.Close()
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		defer server.Close()
		_, _ = io.Copy(server, client) // either end may close at any time
	})
	defer client.Close()
	header := make([]byte, 7)
	if _, err := io.ReadFull(server, header); err != nil {
		return
	}
	const own, theirs = "\aproductS\x00\x00\x00\x06Warren", "\aproductS\x00\x00\x00\x08RabbitMQ"
	start := make([]byte, binary.BigEndian.Uint32(header[3:])+1) // connection.start and the frame's end
	if _, err := io.ReadFull(server, start); err != nil {
		return
	}
	if bytes.Contains(start, []byte(own)) {
		start = bytes.Replace(start, []byte(own), []byte(theirs), 1)
		const more = len(theirs) - len(own)
		binary.BigEndian.PutUint32(header[3:], uint32(len(start)-1))
		binary.BigEndian.PutUint32(start[6:], binary.BigEndian.Uint32(start[6:])+uint32(more)) // the table's length
	}
	if _, err := client.Write(append(header, start...)); err != nil {
		return
	}
	_, _ = io.Copy(client, server)
}

// serveManagement answers the two requests until the test ends.
func serveManagement(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	listener, err := net.Listen("tcp", managementAddress)
	if err != nil {
		t.Fatalf("the tests of amqp091-go need %s: %v", managementAddress, err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/connections/", func(w http.ResponseWriter, _ *http.Request) {
		type connection struct {
			Name       string         `json:"name"`
			Properties map[string]any `json:"client_properties"`
		}
		all := []connection{}
		for _, row := range connectionRows(c) {
			properties := map[string]any{}
			for _, p := range row.Properties {
				properties[fmt.Sprint(p[0])] = p[2]
			}
			delete(properties, "capabilities")
			all = append(all, connection{row.Name, properties})
		}
		_ = json.NewEncoder(w).Encode(all)
	})
	mux.HandleFunc("DELETE /api/connections/{name}", func(w http.ResponseWriter, r *http.Request) {
		pids := strings.Split(c.Tool("rabbitmqctl", 1, "-q", "list_connections", "name", "pid").Stdout, "\n")
		i := slices.IndexFunc(pids, func(row string) bool { return strings.HasPrefix(row, r.PathValue("name")+"\t") })
		if i < 0 {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		_, pid, _ := strings.Cut(pids[i], "\t")
		if c.Tool("rabbitmqctl", 1, "close_connection", pid, "Closed via management plugin").Code != 0 {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
	server := &http.Server{Handler: mux}
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close(); <-done })
}

type connectionRow struct {
	Name       string   `json:"name"`
	Properties [][3]any `json:"client_properties"`
}

func connectionRows(c *cluster.Cluster) (rows []connectionRow) {
	r := c.Tool("rabbitmqctl", 1, "-q", "list_connections", "name", "client_properties", "--formatter", "json")
	_ = json.Unmarshal([]byte(r.Stdout), &rows) // an answer that cannot be read has no rows, and its reader asks again
	return rows
}
