package node

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"warren/ctl/admin"
)

// Process implements admin.Node.
func (p process) Process(context.Context) (admin.ProcessInfo, error) {
	info := admin.ProcessInfo{
		Arguments: os.Args, Environment: environment(os.Environ()), CookieHash: cookieHash(p.cfg.Cookie), Resolver: resolver(),
		Certificates: p.certificates(), CPU: threads(), Waiting: stuck(),
	}
	var err error
	info.Interfaces, err = interfaces()
	return info, err
}

// environment are the variables that a node or its runtime looks at; values that may be secrets are left out.
func environment(all []string) (out []string) {
	for _, v := range all {
		name, _, _ := strings.Cut(v, "=")
		switch {
		case !strings.HasPrefix(name, "RABBITMQ_") && !strings.HasPrefix(name, "WARREN_") &&
			!slices.Contains([]string{"GOMAXPROCS", "GOGC", "GOMEMLIMIT", "GODEBUG", "XDG_RUNTIME_DIR", "HOME"}, name):
		case strings.Contains(name, "COOKIE") || strings.Contains(name, "PASS") || strings.Contains(name, "SECRET"):
			out = append(out, name+"=(hidden)")
		default:
			out = append(out, v)
		}
	}
	slices.Sort(out)
	return out
}

// cookieHash tells whether two cookies are the same without giving them away.
func cookieHash(cookie []byte) string {
	sum := sha256.Sum256(append([]byte("warren cookie\x00"), cookie...))
	return base64.StdEncoding.EncodeToString(sum[:16])
}

func interfaces() (out []admin.NetworkInterface, _ error) {
	all, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("list the network interfaces: %w", err)
	}
	for _, i := range all {
		one := admin.NetworkInterface{Name: i.Name, Hardware: strings.ToUpper(i.HardwareAddr.String()), Flags: strings.Split(i.Flags.String(), "|")}
		addresses, err := i.Addrs()
		if err != nil {
			return nil, fmt.Errorf("list the addresses of network interface %s: %w", i.Name, err)
		}
		for _, a := range addresses {
			one.Addresses = append(one.Addresses, a.String())
		}
		out = append(out, one)
	}
	return out, nil
}

// resolver says what decides how the process resolves names.
func resolver() []admin.NodeText {
	order := "files dns (no /etc/nsswitch.conf)"
	if b, err := os.ReadFile("/etc/nsswitch.conf"); err == nil {
		for line := range strings.Lines(string(b)) {
			if hosts, ok := strings.CutPrefix(strings.TrimSpace(line), "hosts:"); ok {
				order = strings.Join(strings.Fields(hosts), " ")
			}
		}
	}
	return []admin.NodeText{
		{Node: "Lookup order", Text: order}, {Node: "Hosts file", Text: "/etc/hosts"},
		{Node: "Resolver conf file", Text: "/etc/resolv.conf"}, {Node: "Cache size", Text: "0 (nothing is cached)"},
	}
}

// certificates are those of the listeners that have TLS.
func (p process) certificates() (out []admin.Certificate) {
	c := p.cfg.Config
	if in := c.Internode; in.TLS.On() {
		out = append(out, certificatesIn("clustering", in.Listen.Port, in.TLS.CertFile, false)...)
		out = append(out, certificatesIn("clustering", in.Listen.Port, in.TLS.CACertFile, true)...)
	}
	for _, l := range c.SSLListeners {
		out = append(out, certificatesIn("amqp/ssl", l.Port, c.ClientTLS.CertFile, false)...)
		out = append(out, certificatesIn("amqp/ssl", l.Port, c.ClientTLS.CACertFile, true)...)
	}
	return out
}

// certificatesIn reads a file. One that cannot be read or understood is a certificate without a subject, which is not valid.
func certificatesIn(protocol string, port uint16, file string, authority bool) (out []admin.Certificate) {
	if file == "" {
		return nil
	}
	plain := admin.Certificate{Protocol: protocol, Port: port, File: file, Authority: authority}
	rest, err := os.ReadFile(file)
	if err != nil {
		return []admin.Certificate{plain}
	}
	for {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return out
		}
		if block.Type != "CERTIFICATE" {
			continue // such as a key: it is nobody's business
		}
		one := plain
		one.PEM = string(pem.EncodeToMemory(block))
		if c, err := x509.ParseCertificate(block.Bytes); err == nil {
			one.Subject, one.Issuer, one.NotBefore, one.NotAfter = c.Subject.String(), c.Issuer.String(), c.NotBefore, c.NotAfter
		}
		out = append(out, one)
	}
}

// threads is the processor time of each thread of the process.
func threads() (out []admin.CPUTime) {
	const ticks = 100 // per second, of the figures in /proc (USER_HZ)
	files, _ := filepath.Glob("/proc/self/task/*/stat")
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			continue // it ended
		}
		_, after, _ := strings.Cut(string(b), ") ")
		fields := strings.Fields(after)
		if len(fields) < 13 {
			continue
		}
		user, err1 := strconv.ParseUint(fields[11], 10, 64)
		system, err2 := strconv.ParseUint(fields[12], 10, 64)
		if err1 == nil && err2 == nil {
			name := filepath.Base(filepath.Dir(file))
			out = append(out, admin.CPUTime{Name: name, User: float64(user) / ticks, System: float64(system) / ticks})
		}
	}
	return out
}

// maxStacks bounds the text of the goroutines' stacks.
const maxStacks = 16 << 20

// suspicious are the states in which nothing waits for long in good order: for a lock, for memory. Waiting for a message is none.
var suspicious = regexp.MustCompile(`^goroutine \d+.* \[(semacquire|sync\.\w+\.\w+|GC assist wait|runnable)[^,\]]*, (\d+ minutes)`)

// stuck are goroutines that have waited for a minute or more where none should.
func stuck() (out []admin.Goroutines) {
	text := make([]byte, maxStacks)
	text = text[:runtime.Stack(text, true)]
	places := map[string]int{}
	for one := range strings.SplitSeq(string(text), "\n\n") {
		found := suspicious.FindStringSubmatch(one)
		// Who waits for a group of goroutines to end waits as long as they live.
		if found == nil || strings.HasPrefix(found[1], "sync.WaitGroup") || strings.Contains(one, "sync.(*WaitGroup).Wait") {
			continue
		}
		_, stack, _ := strings.Cut(one, "\n")
		if i, ok := places[stack]; ok {
			out[i].Count++
			continue
		}
		places[stack] = len(out)
		lines := strings.Split(strings.ReplaceAll(stack, "\t", "    "), "\n")
		out = append(out, admin.Goroutines{Count: 1, State: found[1], Since: found[2], Stack: lines[:min(len(lines), 40)]})
	}
	return out
}
