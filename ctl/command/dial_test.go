package command

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"warren/ctl/admin"
	"warren/ctl/locate"
	"warren/dataplane/link"
)

// listen runs a node's real inter-node listener that serves the admin protocol, and registers it.
func listen(t *testing.T, node *fakeNode, registry locate.Registry) (address, cookieFile string) {
	t.Helper()
	cookieFile = filepath.Join(t.TempDir(), locate.CookieName)
	cookie, err := locate.EnsureCookie(cookieFile)
	if err != nil {
		t.Fatal(err)
	}
	transport, err := link.New(link.Config{
		Addr: "127.0.0.1:0", Node: "rmq1@localhost", Cookie: cookie, Hello: func() link.Hello { return link.Hello{} },
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	transport.Handle(link.ProtoAdmin, func(conn net.Conn) { _ = admin.Serve(ctx, conn, node) })
	transport.Start()
	t.Cleanup(func() {
		cancel()
		if err := transport.Close(); err != nil {
			t.Error(err)
		}
	})
	address = transport.Addr().String()
	_, err = registry.Register(locate.Entry{Node: "rmq1@localhost", Address: address, CookieFile: cookieFile, Process: locate.Self()})
	if err != nil {
		t.Fatal(err)
	}
	return address, cookieFile
}

func TestDialOverTheInternodeListener(t *testing.T) {
	registry := locate.NewRegistry(filepath.Join(t.TempDir(), "run"))
	address, cookieFile := listen(t, recordedState("queues"), registry)
	other := locate.NewRegistry(filepath.Join(t.TempDir(), "none"))
	for name, tc := range map[string]struct {
		registry locate.Registry
		target   Target
	}{
		"by name":              {registry, Target{Node: "rmq1@localhost"}},
		"by address":           {other, Target{Node: "rmq1@localhost", Address: address, CookieFile: cookieFile}},
		"a neighbour's cookie": {registry, Target{Node: "rmq9@localhost", Address: address}},
	} {
		t.Run(name, func(t *testing.T) {
			client, err := Dialer{tc.registry}.Dial(t.Context(), tc.target)
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			if users, err := client.ListUsers(t.Context()); err != nil || len(users) != 6 {
				t.Errorf("%v, %v", users, err)
			}
		})
	}
}

// A node that is not registered is asked for where its cluster knows it, and a stranger at that address is asked for nothing.
func TestDialFindsOtherNodes(t *testing.T) {
	registry := locate.NewRegistry(filepath.Join(t.TempDir(), "run"))
	node := recordedState("queues")
	node.status.Name = "rmq1@localhost"
	address, _ := listen(t, node, registry)
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := free.Addr().String()
	free.Close()
	node.cluster.Nodes = []admin.NodeInfo{
		{Name: "down@localhost", Address: closed, Status: "down"}, {Name: "moved@localhost", Address: address, Status: "running"},
	}
	dead := locate.Entry{Node: "dead@localhost", Address: closed, Process: locate.Process{PID: 1 << 30}}
	if _, err := registry.Register(dead); err != nil {
		t.Fatal(err)
	}
	for node, want := range map[string]string{
		"down@localhost":  "rmq1@localhost knows it at " + closed + ", and says that it is down",
		"moved@localhost": "at " + address + " is node rmq1@localhost: nothing was asked of it",
		"dead@localhost":  "it was at " + closed + " as process 1073741824, which has ended",
		"x@localhost":     "a node listens on port 25672 if it was not told otherwise",
	} {
		_, err := Dialer{registry}.Dial(t.Context(), Target{Node: node})
		unreachable, ok := err.(*unreachableError)
		if !ok || !strings.Contains(unreachable.text(), want) {
			t.Errorf("%s: %v", node, err)
		}
	}
	node.cluster.Nodes[1].Name = "rmq2@localhost"
	node.status.Name = "rmq2@localhost"
	c, err := Dialer{registry}.Dial(t.Context(), Target{Node: "rmq2@localhost"})
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
}

func TestDialExplainsFailure(t *testing.T) {
	registry := locate.NewRegistry(filepath.Join(t.TempDir(), "run"))
	_, cookieFile := listen(t, recordedState("queues"), registry)
	wrong := filepath.Join(t.TempDir(), "cookie")
	if err := os.WriteFile(wrong, []byte("not the right one"), 0o400); err != nil {
		t.Fatal(err)
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := free.Addr().String()
	free.Close()
	for name, tc := range map[string]struct {
		target Target
		want   []string
	}{
		"wrong cookie": {Target{Node: "rmq1@localhost", CookieFile: wrong}, []string{"authentication failed", wrong}},
		"no cookie":    {Target{Node: "rmq1@localhost", CookieFile: "/nowhere"}, []string{"/nowhere"}},
		"not there":    {Target{Node: "x@localhost", Address: closed, CookieFile: cookieFile}, []string{"asked at " + closed + ", as --address says", "nothing listens on " + closed, "start the node"}},
		"not named":    {Target{Node: "x@localhost", Address: closed}, []string{"not registered", "rmq1@localhost"}},
		"no such host": {Target{Node: "x@no-such-host.invalid", CookieFile: cookieFile}, []string{"no-such-host.invalid"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Dialer{registry}.Dial(t.Context(), tc.target)
			unreachable, ok := err.(*unreachableError)
			if !ok {
				t.Fatalf("got %v", err)
			}
			for _, want := range tc.want {
				if text := unreachable.text(); !strings.Contains(text, want) {
					t.Errorf("%q is not in\n%s", want, text)
				}
			}
		})
	}
}
