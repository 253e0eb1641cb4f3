package cluster

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// Network stands between the nodes of a cluster: each reaches the others through it, so that links can be cut, in one direction
// too. What is sent over a cut link waits, as it does with TCP, until the link is healed or an end gives the connection up; a
// connection that is begun meanwhile is not answered. Tools and clients reach every node always.
//
// A node that was killed still seems to accept connections: nothing here tells a crash from silence.
type Network struct {
	c     *Cluster
	ports []net.Listener // of node i at i-1
	done  sync.WaitGroup

	mu     sync.Mutex
	change *sync.Cond
	cut    map[[2]int]bool // from, to
	rate   map[[2]int]int  // bytes per second
	free   map[[2]int]time.Time
	sent   map[[2]int]int64
	closed bool
	conns  map[net.Conn]bool
}

// StartCut is StartConfigured with a Network between the nodes.
func StartCut(t testing.TB, n int, lines string) (*Cluster, *Network) {
	t.Helper()
	c := Prepare(t, n)
	w := &Network{c: c, cut: map[[2]int]bool{}, rate: map[[2]int]int{}, free: map[[2]int]time.Time{}, sent: map[[2]int]int64{}, conns: map[net.Conn]bool{}}
	w.change = sync.NewCond(&w.mu)
	t.Cleanup(w.close)
	for i := 1; i <= n; i++ {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatalf("listen for %s: %v", c.Name(i), err)
		}
		w.ports = append(w.ports, ln)
		w.done.Go(func() { w.serve(i, ln) })
	}
	for i := 1; i <= n; i++ {
		mine := lines + "\nwarren.internode.address = " + w.ports[i-1].Addr().String() + "\n"
		for j := 1; j <= n; j++ {
			mine += fmt.Sprintf("warren.cluster_formation.address.%d = %s\n", j, w.ports[j-1].Addr())
		}
		c.Configure(i, mine)
	}
	c.startAll(c.bin)
	return c, w
}

// Cut lets nothing more through from one node to another.
func (w *Network) Cut(from, to int) { w.set(true, [2]int{from, to}) }

// Isolate cuts one node off from all others, in both directions.
func (w *Network) Isolate(node int) {
	var pairs [][2]int
	for o := 1; o <= w.c.Nodes; o++ {
		if o != node {
			pairs = append(pairs, [2]int{node, o}, [2]int{o, node})
		}
	}
	w.set(true, pairs...)
}

// Part cuts the link between two nodes in both directions.
func (w *Network) Part(a, b int) { w.set(true, [2]int{a, b}, [2]int{b, a}) }

// Carried is how many bytes have gone from one node to another since the start.
func (w *Network) Carried(from, to int) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sent[[2]int{from, to}]
}

// Slow lets so many bytes per second through from one node to another, over all its connections.
func (w *Network) Slow(from, to, rate int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rate[[2]int{from, to}] = rate
}

// pace waits until n more bytes may go over a link. What it waits is short: a read's bytes at the link's rate.
func (w *Network) pace(from, to, n int) {
	link := [2]int{from, to}
	w.mu.Lock()
	rate := w.rate[link]
	if rate == 0 {
		w.mu.Unlock()
		return
	}
	due := w.free[link]
	if now := time.Now(); due.Before(now) {
		due = now
	}
	due = due.Add(time.Duration(n) * time.Second / time.Duration(rate))
	w.free[link] = due
	w.mu.Unlock()
	<-time.After(time.Until(due))
}

// Heal lets everything through again, at full speed.
func (w *Network) Heal() {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.cut)
	clear(w.rate)
	w.change.Broadcast()
}

func (w *Network) set(cut bool, pairs ...[2]int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range pairs {
		w.cut[p] = cut
	}
}

// await waits until n bytes that come from one node get through to another; false: the network is gone.
func (w *Network) await(from, to, n int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.cut[[2]int{from, to}] && !w.closed {
		w.change.Wait()
	}
	w.sent[[2]int{from, to}] += int64(n)
	return !w.closed
}

func (w *Network) hold(c net.Conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		_ = c.Close()
		return false
	}
	w.conns[c] = true
	return true
}

func (w *Network) drop(c net.Conn) {
	_ = c.Close()
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.conns, c)
}

func (w *Network) close() {
	w.mu.Lock()
	w.closed = true
	for c := range w.conns {
		_ = c.Close()
	}
	w.change.Broadcast()
	w.mu.Unlock()
	for _, ln := range w.ports {
		_ = ln.Close()
	}
	w.done.Wait()
}

func (w *Network) serve(to int, ln net.Listener) {
	for {
		in, err := ln.Accept()
		if err != nil {
			return
		}
		if w.hold(in) {
			w.done.Go(func() { w.carry(in, to) })
		}
	}
}

// carry joins a connection that was made to a node with one to its real address.
func (w *Network) carry(in net.Conn, to int) {
	defer w.drop(in)
	from := w.sender(in)
	if !w.await(from, to, 0) {
		return
	}
	out, err := net.Dial("tcp", w.c.InternodeAddress(to))
	if err != nil {
		return
	}
	if !w.hold(out) {
		return
	}
	defer w.drop(out)
	var both sync.WaitGroup
	both.Go(func() { w.pump(in, out, from, to) })
	both.Go(func() { w.pump(out, in, to, from) })
	both.Wait()
}

// pump carries what comes from one end to the other. The end of a connection, too, gets through only where data does.
func (w *Network) pump(src, dst net.Conn, from, to int) {
	b := make([]byte, 64<<10)
	for {
		n, err := src.Read(b)
		if !w.await(from, to, n) {
			return
		}
		w.pace(from, to, n)
		if n > 0 {
			if _, werr := dst.Write(b[:n]); werr != nil {
				_ = src.Close()
				return
			}
		}
		if err == nil {
			continue
		}
		if half, ok := dst.(*net.TCPConn); ok && errors.Is(err, io.EOF) {
			_ = half.CloseWrite()
			return
		}
		_ = dst.Close()
		return
	}
}

// sender is the node whose process made a connection; 0: something else.
func (w *Network) sender(c net.Conn) int {
	inode := ""
	for range 3 { // a table that is read while it changes may miss one
		if inode = socketOf(c.RemoteAddr(), c.LocalAddr()); inode != "" {
			break
		}
	}
	if inode == "" {
		return 0
	}
	for i := 1; i <= w.c.Nodes; i++ {
		pid, err := w.c.pid(i)
		if err != nil {
			continue
		}
		fds, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
		if err != nil {
			continue
		}
		for _, fd := range fds {
			if to, err := os.Readlink(fd); err == nil && to == "socket:["+inode+"]" {
				return i
			}
		}
	}
	return 0
}

// socketOf finds the inode of this machine's socket with those addresses.
func socketOf(local, remote net.Addr) string {
	table, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		return ""
	}
	l, r := procAddress(local), procAddress(remote)
	for line := range strings.Lines(string(table)) {
		if f := strings.Fields(line); len(f) > 9 && f[1] == l && f[2] == r {
			return f[9]
		}
	}
	return ""
}

// procAddress is an IPv4 address as /proc/net/tcp has it: the address's bytes backwards, then the port.
func procAddress(a net.Addr) string {
	tcp, ok := a.(*net.TCPAddr)
	if !ok || tcp.IP.To4() == nil {
		return ""
	}
	ip := tcp.IP.To4()
	return fmt.Sprintf("%02X%02X%02X%02X:%04X", ip[3], ip[2], ip[1], ip[0], tcp.Port)
}
