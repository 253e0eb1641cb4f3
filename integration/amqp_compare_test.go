//go:build compare

package integration

import (
	"bytes"
	"context"
	"fmt"
	"hash/fnv"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"warren/integration/cluster"
)

const (
	clientLimit  = 30 * time.Minute // for all scenarios of one client
	fewScenarios = 150
	fewClients   = 5
	hashPlugin   = "rabbitmq_consistent_hash_exchange" // which Warren has always; a cluster that runs already must have it enabled
)

// stage is what the scenarios of clients/ find on both sides. The last user is there when all of it is.
func stage() [][]string {
	all := [][]string{
		{"set_policy", "ha", `^ha\.`, `{"ha-mode":"all","ha-sync-mode":"automatic"}`, "--apply-to", "queues"},
		{"add_vhost", "compare"},
		{"set_permissions", "-p", "compare", "guest", ".*", ".*", ".*"},
		{"add_vhost", "closed"},
		{"clear_permissions", "-p", "closed", "guest"},
		{"add_user", "limited", "limited"},
		{"set_permissions", "-p", "/", "limited", `^limited\.`, `^limited\.`, `^limited\.`},
	}
	h := fnv.New32()
	fmt.Fprint(h, all)
	last := fmt.Sprintf("staged-%x", h.Sum32())
	return append(all, []string{"add_user", last, last}, []string{"set_permissions", "-p", "/", last, "", "", ""})
}

// staged makes the stage unless it is there.
func staged(t *testing.T, uri string, ctl func(args ...string) error) {
	t.Helper()
	all := stage()
	last := all[len(all)-1][3]
	if conn, err := amqp.Dial(strings.Replace(uri, "guest:guest", last+":"+last, 1)); err == nil {
		_ = conn.Close()
		return
	}
	for _, args := range all {
		if err := ctl(args...); err != nil {
			t.Fatalf("rabbitmqctl %s: %v", strings.Join(args, " "), err)
		}
	}
}

// rabbitURIs are the nodes of the RabbitMQ cluster that runs already, or of one that this starts.
func rabbitURIs(t *testing.T) []string {
	t.Helper()
	script := filepath.Join(os.Getenv("WARREN_PEERS"), "rabbitmq-cluster")
	if uris := strings.Fields(os.Getenv("WARREN_COMPARE_RABBIT")); len(uris) > 0 {
		staged(t, uris[0], func(args ...string) error {
			return run(exec.CommandContext(t.Context(), script, append([]string{"ctl", "1"}, args...)...))
		})
		return uris
	}
	t.Setenv("PLUGINS", "rabbitmq_management rabbitmq_prometheus rabbitmq_consistent_hash_exchange")
	p := startPeer(t, script)
	var uris []string
	for i := 1; i <= 3; i++ {
		uris = append(uris, fmt.Sprintf("amqp://guest:guest@127.0.0.1:%s%d/", strings.TrimSuffix(peerPort, "0"), i))
		if err := run(p.command(t.Context(), "", "plugins", strconv.Itoa(i), "enable", hashPlugin)); err != nil {
			t.Fatalf("enable RabbitMQ's consistent-hash exchange: %v", err)
		}
	}
	staged(t, uris[0], func(args ...string) error {
		return run(p.command(t.Context(), "", append([]string{"ctl", "1"}, args...)...))
	})
	return uris
}

func warrenURIs(t *testing.T) []string {
	t.Helper()
	c := cluster.Start(t, 3)
	var uris []string
	for i := 1; i <= 3; i++ {
		uris = append(uris, c.URI(i))
	}
	staged(t, uris[0], func(args ...string) error { c.Ctl(1, args...); return nil })
	return uris
}

func run(cmd *exec.Cmd) error {
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}

// play runs a client's scenarios against a broker.
func play(client string, uris, scenarios []string) ([]said, error) {
	ctx, cancel := context.WithTimeout(context.Background(), clientLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join("clients", client, "run"), scenarios...)
	cmd.Env = append(os.Environ(), "AMQP_URI="+uris[0], "AMQP_URIS="+strings.Join(uris, " "))
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &stdout, &stderr, time.Second
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("run client %s against %s: %w\n%s%s", client, uris[0], err, stdout.String(), stderr.String())
	}
	return parseTranscript(stdout.String())
}

// clientNames are the directories of clients/ that hold a client.
func clientNames(t *testing.T) (names []string) {
	t.Helper()
	runs, err := filepath.Glob("clients/*/run")
	if err != nil {
		t.Fatal(err)
	}
	only := strings.Fields(os.Getenv("CLIENT"))
	for _, r := range runs {
		if name := filepath.Base(filepath.Dir(r)); len(only) == 0 || slices.Contains(only, name) {
			names = append(names, name)
		}
	}
	return names
}

// playBoth runs a client's scenarios against both brokers at once.
func playBoth(t *testing.T, client string, rabbit, warren, scenarios []string) (want, got []said) {
	t.Helper()
	if err := run(exec.CommandContext(t.Context(), filepath.Join("clients", client, "install"))); err != nil {
		t.Fatalf("install client %s: %v", client, err)
	}
	var wantErr, gotErr error
	var wg sync.WaitGroup
	wg.Go(func() { want, wantErr = play(client, rabbit, scenarios) })
	wg.Go(func() { got, gotErr = play(client, warren, scenarios) })
	wg.Wait()
	if wantErr != nil || gotErr != nil {
		t.Fatalf("RabbitMQ: %v\nWarren: %v", wantErr, gotErr)
	}
	return want, got
}

// TestCompareClients has clients that are not Warren's do the same to a RabbitMQ and a Warren cluster, and compares what they saw.
// It is `make compare-amqp`. CLIENT= and SCENARIO= narrow it; WARREN_COMPARE_RABBIT="URI URI URI" is a RabbitMQ cluster that runs
// already, whose script then gets DIR, BASE_PORT and ERL_EPMD_PORT from the environment.
func TestCompareClients(t *testing.T) {
	doc, err := os.ReadFile(compatibility)
	if err != nil {
		t.Fatal(err)
	}
	known, scenarios := readKnown(string(doc)), strings.Fields(os.Getenv("SCENARIO"))
	clients, rabbit, warren := clientNames(t), rabbitURIs(t), warrenURIs(t)
	count, onPurpose, differences := 0, 0, 0
	for _, client := range clients {
		want, got := playBoth(t, client, rabbit, warren, scenarios)
		if !slices.EqualFunc(want, got, func(a, b said) bool { return a.name == b.name }) {
			t.Fatalf("%s ran other scenarios against RabbitMQ than against Warren", client)
		}
		count += len(want)
		for i, w := range want {
			why, expected := known[[2]string{client, w.name}]
			switch same := w.text == got[i].text; {
			case strings.Contains("\n"+w.text, "\nTIMEOUT\n"):
				t.Errorf("%s: %s: takes too long with RabbitMQ\n%s", client, w.name, w.text)
			case same && expected:
				t.Errorf("%s: %s: no difference any more (%s)", client, w.name, why)
			case expected:
				onPurpose++
			case !same:
				differences++
				t.Errorf("%s: %s\n--- Warren\n%s--- RabbitMQ\n%s", client, w.name, got[i].text, w.text)
			}
		}
		t.Logf("%s: %d scenarios", client, len(want))
	}
	if os.Getenv("CLIENT")+os.Getenv("SCENARIO") == "" && (count < fewScenarios || len(clients) < fewClients) {
		t.Errorf("%d scenarios of %d clients, fewer than %d of %d", count, len(clients), fewScenarios, fewClients)
	}
	t.Logf("%d scenarios of %d clients, %d on purpose different, %d differences", count, len(clients), onPurpose, differences)
}
