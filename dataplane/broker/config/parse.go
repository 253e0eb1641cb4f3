package config

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/xrash/smetrics"
)

// Error is one fault of a file. Line is 0 where the fault is in what several lines say together.
type Error struct {
	File string
	Line int
	Err  error
}

// Error implements error: FILE:LINE: what is wrong.
func (e *Error) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("%s: %v", e.File, e.Err)
	}
	return fmt.Sprintf("%s:%d: %v", e.File, e.Line, e.Err)
}

// Unwrap returns the fault without its place.
func (e *Error) Unwrap() error { return e.Err }

// parser collects what the lines say; finish puts it together.
type parser struct {
	c        *Config
	file     string
	line     int
	table    []key
	warnings []Warning
	errs     []error

	noListeners bool
	tagsSet     bool
	noSSL       bool
	cipherGiven bool // one that is not there
	listeners   []entry[Listener]

	sslListeners []entry[Listener]
	versions     []entry[uint16]
	ciphers      []entry[uint16]
	mechanisms   []entry[string]
	peers        []entry[string]
	addresses    []entry[string]
}

// entry is one value of a numbered list.
type entry[T any] struct {
	name  string
	line  int
	value T
}

// Parse reads a whole file. file is its name, for messages only. It returns either a Config (with remarks), or an error
// that joins one *Error for every fault found, in the order of the lines. It is pure, and safe to call at any time.
func Parse(file string, content []byte) (*Config, []Warning, error) {
	p := &parser{c: Default(), file: file, table: keys()}
	if len(content) > MaxText {
		return nil, nil, &Error{File: file, Err: fmt.Errorf("the file has %d bytes; the limit is %d", len(content), MaxText)}
	}
	for i, text := range strings.Split(string(content), "\n") {
		p.line = i + 1
		s, ok, err := parseLine(text)
		switch {
		case err != nil:
			p.fail(err)
		case ok:
			p.apply(s)
		}
	}
	p.finish()
	if len(p.errs) > 0 {
		return nil, nil, errors.Join(p.errs...)
	}
	return p.c, p.warnings, nil
}

// Load reads and parses the file of that name; a file that cannot be read is an error that names it.
func Load(file string) (*Config, []Warning, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, nil, fmt.Errorf("read configuration: %w", err)
	}
	return Parse(file, content)
}

func (p *parser) fail(err error) {
	p.errs = append(p.errs, &Error{File: p.file, Line: p.line, Err: err})
}

func (p *parser) warn(format string, args ...any) {
	p.warnings = append(p.warnings, Warning{File: p.file, Line: p.line, Text: fmt.Sprintf(format, args...)})
}

// apply gives a setting to the key that it names.
func (p *parser) apply(s Setting) {
	parts := splitKey(s.Key)
	for _, k := range p.table {
		wild, ok := match(strings.Split(k.name, "."), parts)
		if !ok {
			continue
		}
		if err := k.set(p, wild, s.Value); err != nil {
			p.fail(fmt.Errorf("%s: %w", s.Key, err))
		}
		return
	}
	for _, f := range foreign() {
		if matchForeign(strings.Split(f.name, "."), parts) {
			p.setForeign(f, s)
			return
		}
	}
	p.fail(fmt.Errorf("unknown key %q%s", clip(s.Key), p.suggest(parts)))
}

// match compares the segments of a key with those of the table.
func match(pattern, parts []string) (wild string, ok bool) {
	if len(pattern) != len(parts) {
		return "", false
	}
	for i, segment := range pattern {
		switch segment {
		case parts[i]:
		case "*":
			wild = parts[i]
		default:
			return "", false
		}
	}
	return wild, true
}

// suggest names the known key that is nearest to a misspelt one, if there is one near enough.
func (p *parser) suggest(parts []string) string {
	name := strings.Join(parts, ".")
	if len(name) > 100 {
		return ""
	}
	best, distance := "", 4
	for _, k := range p.table {
		candidate := k.name
		if before, ok := strings.CutSuffix(candidate, ".*"); ok && len(parts) > 1 {
			candidate = before + "." + parts[len(parts)-1]
		}
		if d := smetrics.WagnerFischer(name, candidate, 1, 1, 1); d < distance {
			best, distance = candidate, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", best)
}

// add puts an entry into a list whose entries are named by the last segment of the key; a repeated name replaces the entry.
func add[T any](list *[]entry[T], e entry[T]) error {
	for i := range *list {
		if (*list)[i].name == e.name {
			(*list)[i] = e
			return nil
		}
	}
	if len(*list) == MaxPeer {
		return fmt.Errorf("more than %d entries", MaxPeer)
	}
	*list = append(*list, e)
	return nil
}

// finish puts the numbered lists in order and checks what several keys say together.
func (p *parser) finish() {
	p.line = 0
	p.finishListeners()
	p.finishPeers()
	p.finishTLS()
	p.finishSSL()
	t := p.c.Timing
	if t.Lease < 2*t.HeartbeatInterval {
		p.fail(fmt.Errorf("warren.lease (%v) must be at least twice warren.heartbeat_interval (%v): heartbeats renew leases",
			t.Lease, t.HeartbeatInterval))
	}
	if t.UnreachableAfter < 2*t.HeartbeatInterval {
		p.fail(fmt.Errorf("warren.unreachable_after (%v) must be at least twice warren.heartbeat_interval (%v)",
			t.UnreachableAfter, t.HeartbeatInterval))
	}
}

func (p *parser) finishListeners() {
	if p.noListeners {
		p.c.Listeners = nil
	} else if len(p.listeners) > 0 {
		p.c.Listeners = p.finishList("listeners.tcp", p.listeners)
	}
	if !p.noSSL {
		p.c.SSLListeners = p.finishList("listeners.ssl", p.sslListeners, p.c.Listeners...)
	}
}

// finishList puts listeners in order; none may be there twice, or among taken.
func (p *parser) finishList(group string, list []entry[Listener], taken ...Listener) (all []Listener) {
	sortEntries(list)
	for _, e := range list {
		if slices.Contains(all, e.value) || slices.Contains(taken, e.value) {
			p.line = e.line
			p.fail(fmt.Errorf("%s.%s: %s is listened on already", group, e.name, e.value.Address()))
		}
		all = append(all, e.value)
	}
	p.line = 0
	return all
}

func (p *parser) finishPeers() {
	sortEntries(p.peers)
	known := make(map[string]int, len(p.peers))
	for i, e := range p.peers {
		_, host, _ := strings.Cut(e.value, "@")
		p.c.Peers = append(p.c.Peers, Peer{Node: e.value, Address: net.JoinHostPort(host, strconv.Itoa(DefaultInternodePort))})
		known[e.name] = i
	}
	for _, e := range p.addresses {
		i, ok := known[e.name]
		if !ok {
			p.line = e.line
			p.fail(fmt.Errorf("warren.cluster_formation.address.%s: there is no cluster_formation.classic_config.nodes.%s", e.name, e.name))
			continue
		}
		p.c.Peers[i].Address = e.value
	}
	p.line = 0
	for i, peer := range p.c.Peers {
		for _, other := range p.c.Peers[:i] {
			if other.Node == peer.Node {
				p.line = p.peers[i].line
				p.fail(fmt.Errorf("cluster_formation.classic_config.nodes.%s: %s is listed twice", p.peers[i].name, peer.Node))
			}
		}
	}
	p.line = 0
}

func (p *parser) finishTLS() {
	if t := p.c.Internode.TLS; t.On() && (t.CACertFile == "" || t.CertFile == "" || t.KeyFile == "") {
		p.fail(errors.New("warren.internode.tls.cacertfile, .certfile and .keyfile must be set together"))
	}
}

// sortEntries orders by number where the names are numbers, others after them by name.
func sortEntries[T any](list []entry[T]) {
	rank := func(name string) (int, string) {
		if n, err := strconv.Atoi(name); err == nil {
			return n, ""
		}
		return int(^uint(0) >> 1), name
	}
	sort.SliceStable(list, func(i, j int) bool {
		ni, si := rank(list[i].name)
		nj, sj := rank(list[j].name)
		if ni != nj {
			return ni < nj
		}
		return si < sj
	})
}
