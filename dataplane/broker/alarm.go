package broker

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"warren/dataplane/backingqueue/store"
	"warren/dataplane/broker/config"
	"warren/dataplane/link"
)

// alarm is a set of resources that a node is short of. It crosses the links as one byte.
type alarm byte

const (
	alarmMemory alarm = 1 << iota
	alarmDisk
)

// bodiesShare is the part of the memory limit that bodies may take before they are paged out: the index, connections and
// what the garbage collector needs to work take the rest.
const bodiesShare = 0.4

// collectShare is the part of the memory limit from which on the garbage collector works harder.
const collectShare = 0.8

// collectLeast is the least memory limit, in bytes, that the garbage collector strives for.
const collectLeast = 32 << 20

// collectPercent is how much may be allocated, in per cent of what is alive, before the garbage is collected, below that share and
// unless GOGC says otherwise. Little is alive in a node whose queues are short: twice Go's default saves a twentieth of the processor
// time for some 10 MB.
const collectPercent = 200

// How often the resources are looked at; the disk more often when it fills.
const (
	alarmInterval = time.Second
	alarmHurry    = 100 * time.Millisecond
)

// reason is what connection.blocked says (RabbitMQ's words).
func (a alarm) reason() string {
	var low []string
	if a&alarmMemory != 0 {
		low = append(low, "memory")
	}
	if a&alarmDisk != 0 {
		low = append(low, "disk")
	}
	return "low on " + strings.Join(low, " & ")
}

// names are how lists call the alarms ("Memory alarm on node …").
func (a alarm) names() (names []string) {
	if a&alarmMemory != 0 {
		names = append(names, "Memory")
	}
	if a&alarmDisk != 0 {
		names = append(names, "Free disk space")
	}
	return names
}

// alarms knows which nodes are short of something. While any is, publishers are blocked on every node, as with RabbitMQ;
// consumers go on, so that what is short can come back.
type alarms struct {
	n *Node

	mu           sync.Mutex
	byNode       map[string]alarm
	memory, disk config.Limit // what counts as short: as configured, until an operator says otherwise

	measuring sync.Mutex // one at a time; before mu

	flood chan struct{} // bodies came faster than they are paged out
}

func newAlarms(n *Node) *alarms {
	return &alarms{n: n, byNode: map[string]alarm{}, flood: make(chan struct{}, 1), memory: n.cfg.MemoryLimit, disk: n.cfg.DiskFree}
}

// bytesOf is what a limit comes to on this machine.
func bytesOf(l config.Limit) uint64 {
	if l.Absolute > 0 {
		return l.Absolute
	}
	return uint64(float64(store.MemoryTotal()) * l.Relative)
}

func (n *Node) memoryLimit() uint64   { memory, _ := n.Limits(); return bytesOf(memory) }
func (n *Node) diskFreeLimit() uint64 { _, disk := n.Limits(); return bytesOf(disk) }

// Limits are the memory and the free disk space at which this node's alarms are raised.
func (n *Node) Limits() (memory, diskFree config.Limit) {
	n.alarms.mu.Lock()
	defer n.alarms.mu.Unlock()
	return n.alarms.memory, n.alarms.disk
}

// SetMemoryLimit sets the memory above which this node blocks publishers, until it restarts; the share that bodies may take
// follows. A limit of nothing blocks them at once.
func (n *Node) SetMemoryLimit(l config.Limit) {
	n.alarms.setLimit(&n.alarms.memory, l)
	n.store.SetBudget(int64(bodiesShare * float64(bytesOf(l))))
	n.log.Info("the memory limit was set by an operator", "bytes", bytesOf(l))
}

// SetDiskFreeLimit sets the free disk space below which this node blocks publishers, until it restarts.
func (n *Node) SetDiskFreeLimit(l config.Limit) {
	n.alarms.setLimit(&n.alarms.disk, l)
	n.log.Info("the limit of free disk space was set by an operator", "bytes", bytesOf(l))
}

func (a *alarms) setLimit(to *config.Limit, l config.Limit) {
	a.mu.Lock()
	*to = l
	a.mu.Unlock()
	a.limitCollector()
	a.measure()
}

func (a *alarms) limitCollector() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(collectPercent)
	}
	debug.SetMemoryLimit(collectorLimit(a.n.memoryLimit()))
}

// collectorLimit is the memory from which on the collector works harder. A limit below what a node needs without messages, 0 above
// all, is there to block publishers: the collector could not reach it however hard it worked.
func collectorLimit(memoryLimit uint64) int64 {
	if memoryLimit < collectLeast {
		return math.MaxInt64
	}
	return int64(collectShare * float64(memoryLimit))
}

// watch looks at this node's resources until ctx ends.
func (a *alarms) watch(ctx context.Context) {
	a.limitCollector()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-a.flood:
		}
		if hurry := a.measure(); hurry {
			timer.Reset(alarmHurry)
		} else {
			timer.Reset(alarmInterval)
		}
	}
}

// flooded is the store's OnFlood: a look in a second would be too late.
func (a *alarms) flooded() {
	select {
	case a.flood <- struct{}{}:
	default:
	}
}

// measure looks at this node's resources and says what it is short of; hurry says that a limit is near.
func (a *alarms) measure() (hurry bool) {
	a.measuring.Lock()
	defer a.measuring.Unlock()
	now, hurry := a.look()
	a.set(a.n.cfg.Node, now)
	return hurry
}

func (a *alarms) look() (now alarm, hurry bool) {
	limit := a.n.memoryLimit()
	used, err := residentMemory()
	if err == nil && used > limit {
		// Memory that is free but was not given back yet is no shortage.
		debug.FreeOSMemory()
		used, err = residentMemory()
	}
	switch {
	case err != nil:
		a.n.log.Warn("the memory in use cannot be measured", "error", err)
	case used > limit:
		now |= alarmMemory
	default:
		hurry = used > limit/4*3
	}
	if a.n.store.Flooded() {
		now, hurry = now|alarmMemory, true
	}
	usage, err := a.n.store.Usage()
	if err != nil {
		a.n.log.Warn("the free disk space cannot be measured", "error", err)
		return now, hurry
	}
	free := a.n.diskFreeLimit()
	if usage.Free < free {
		now |= alarmDisk
	}
	return now, hurry || usage.Free < 8*free
}

// residentMemory is what this process has in RAM, in bytes.
func residentMemory() (uint64, error) {
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0, err
	}
	fields := bytes.Fields(b)
	if len(fields) < 2 {
		return 0, fmt.Errorf("/proc/self/statm holds %q", b)
	}
	pages, err := strconv.ParseUint(string(fields[1]), 10, 64)
	return pages * uint64(os.Getpagesize()), err
}

// set takes what a node says of itself.
func (a *alarms) set(node string, now alarm) {
	a.mu.Lock()
	before := a.byNode[node]
	if now == 0 {
		delete(a.byNode, node)
	} else {
		a.byNode[node] = now
	}
	a.mu.Unlock()
	if before == now {
		return
	}
	for _, change := range []struct {
		name string
		of   alarm
	}{{"alarm.set", now &^ before}, {"alarm.cleared", before &^ now}} {
		for _, resource := range change.of.names() {
			a.n.happenings.tell(change.name, "node", node, "resource", resource)
		}
	}
	if now != 0 {
		a.n.log.Warn("resource alarm: publishers are blocked on all nodes", "peer", node, "reason", now.reason())
	} else {
		a.n.log.Info("resource alarm is over", "peer", node)
	}
	if node == a.n.cfg.Node {
		for _, p := range a.n.links.Connected() {
			a.tell(p.ID)
		}
	}
	if l := a.n.currentLife(); l != nil {
		l.spawn(l.followAlarms)
	}
}

// tell says to a peer what this node is short of; it is told at each change, and when a link comes up. A link that cannot take it
// is about to end, and the next one begins with it.
func (a *alarms) tell(to link.PeerID) {
	a.mu.Lock()
	own := a.byNode[a.n.cfg.Node]
	a.mu.Unlock()
	_ = a.n.links.SendTo(to, frameAlarm, []byte{byte(own)})
}

func (a *alarms) told(from link.PeerID, body []byte) {
	if len(body) != 1 {
		a.n.log.Warn("an alarm of a peer cannot be read", "peer", from.Node)
		return
	}
	a.set(from.Node, alarm(body[0]))
}

// all is the union of the nodes' alarms.
func (a *alarms) all() (sum alarm) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, one := range a.byNode {
		sum |= one
	}
	return sum
}

// followAlarms blocks or releases this node's publishers.
func (l *life) followAlarms() {
	l.clientsMu.Lock()
	defer l.clientsMu.Unlock()
	if l.clients == nil {
		return
	}
	if now := l.node.alarms.all(); now != 0 {
		l.clients.server.Block(now.reason())
	} else {
		l.clients.server.Unblock()
	}
}

// Alarm is a resource that a node is short of: Memory or Free disk space.
type Alarm struct{ Node, Resource string }

// Alarms are the alarms in effect that this node knows of, by node.
func (n *Node) Alarms() []Alarm {
	n.alarms.mu.Lock()
	defer n.alarms.mu.Unlock()
	var out []Alarm
	for _, node := range slices.Sorted(maps.Keys(n.alarms.byNode)) {
		for _, name := range n.alarms.byNode[node].names() {
			out = append(out, Alarm{node, name})
		}
	}
	return out
}

// Resources are this node's limits and use, in bytes.
type Resources struct {
	Memory, MemoryLimit     uint64
	DiskFree, DiskFreeLimit uint64
	Bodies, Index           int64 // of the store
}

// Resources measures now.
func (n *Node) Resources() (Resources, error) {
	memory, err := residentMemory()
	if err != nil {
		return Resources{}, fmt.Errorf("measure the memory in use: %w", err)
	}
	u, err := n.store.Usage()
	if err != nil {
		return Resources{}, fmt.Errorf("measure the store: %w", err)
	}
	return Resources{
		Memory: memory, MemoryLimit: n.memoryLimit(), DiskFree: u.Free, DiskFreeLimit: n.diskFreeLimit(),
		Bodies: u.Bodies, Index: u.Index,
	}, nil
}
