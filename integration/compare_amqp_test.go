package integration

import (
	"bytes"
	"context"
	"fmt"
	"hash/fnv"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
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
	compatibility = "../docs/compatibility.md"
	clientLimit   = 30 * time.Minute // for all scenarios of one client
	fewScenarios  = 150
	fewClients    = 5
	hashPlugin    = "rabbitmq_consistent_hash_exchange" // which Warren has always; a cluster that runs already must have it enabled
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

// normalRules are all differences that are not looked at.
var normalRules = []struct {
	pattern     *regexp.Regexp
	replacement string
}{
	// Names and tags that servers make up.
	{regexp.MustCompile(`amq\.gen-[\w-]{22}`), "amq.gen-NAME"},
	{regexp.MustCompile(`amq\.ctag-[\w-]{22}`), "amq.ctag-TAG"},
	{regexp.MustCompile(`amq\.rabbitmq\.reply-to\.[\w+/=.-]+`), "amq.rabbitmq.reply-to.NAME"},
	// Ports and addresses of the two clusters, their nodes' names, Erlang's process numbers.
	{regexp.MustCompile(`\b(127\.0\.0\.1|localhost|::1)((?::| port |', |", )"?)\d{4,5}\b`), "$1${2}PORT"},
	{regexp.MustCompile(`\brmq(\d)@localhost`), "rabbit$1@localhost"},
	{regexp.MustCompile(`<\d+\.\d+\.\d+>`), "<PID>"},
	// The product: its name, version, platform and texts about itself.
	{regexp.MustCompile(`"(product|version|platform|copyright|information|cluster_name)": ?"[^"]*"`), `"$1": "…"`},
}

// normal is a transcript without what may differ.
func normal(text string) string {
	for _, r := range normalRules {
		text = r.pattern.ReplaceAllString(text, r.replacement)
	}
	return text
}

// said is what a client saw in one scenario.
type said struct{ name, text string }

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

func parseTranscript(text string) (all []said, err error) {
	inside := false
	for line := range strings.Lines(text) {
		head, isHead := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "== ")
		switch {
		case isHead && head == "end" && inside:
			inside = false
		case isHead && !inside && head != "end":
			all, inside = append(all, said{name: head}), true
		case inside && !isHead:
			all[len(all)-1].text += normal(line)
		default:
			return nil, fmt.Errorf("transcript has %q where a scenario begins or goes on", line)
		}
	}
	if inside {
		return nil, fmt.Errorf("transcript ends within scenario %s", all[len(all)-1].name)
	}
	return all, nil
}

// readKnown reads the differences on purpose: the rows | client | scenario | what | why | of the table in docs/compatibility.md.
func readKnown(text string) map[[2]string]string {
	known := map[[2]string]string{}
	for line := range strings.Lines(text) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		if len(cells) != 4 || !strings.HasPrefix(line, "| `") {
			continue
		}
		name := func(i int) string { return strings.Trim(strings.TrimSpace(cells[i]), "`") }
		known[[2]string{name(0), name(1)}] = strings.TrimSpace(cells[3])
	}
	return known
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
	if os.Getenv("WARREN_COMPARE") == "" {
		t.Skip("needs the script of a RabbitMQ cluster: make compare-amqp WARREN_PEERS=DIR")
	}
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

// TestCompareReadsItsFiles: what the comparison reads is read as it is meant.
func TestCompareReadsItsFiles(t *testing.T) {
	all, err := parseTranscript("== a\nx amq.gen-abcdefghijklmnopqrstuv 127.0.0.1:25673\n== end\n== b\n== end\n")
	if err != nil || !slices.Equal(all, []said{{"a", "x amq.gen-NAME 127.0.0.1:PORT\n"}, {"b", ""}}) {
		t.Errorf("transcript is read as %q, %v", all, err)
	}
	for _, bad := range []string{"x\n", "== a\n", "== a\n== b\n== end\n", "== end\n"} {
		if all, err := parseTranscript(bad); err == nil {
			t.Errorf("transcript %q is read as %q", bad, all)
		}
	}
	known := readKnown("| client | scenario | what differs | why |\n| --- | --- | --- | --- |\n| `c` | `s.t` | x | y |\n")
	if len(known) != 1 || known[[2]string{"c", "s.t"}] != "y" {
		t.Errorf("table is read as %v", known)
	}
	doc, err := os.ReadFile(compatibility)
	if err != nil {
		t.Fatal(err)
	}
	rows := strings.Count(string(doc), "\n| `")
	if known := readKnown(string(doc)); len(known) != rows {
		t.Errorf("docs/compatibility.md has %d rows, of which %d are read", rows, len(known))
	}
}
