package store

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// DefaultBudget is 40 % of the memory of the machine, or of the control group if that has less (RabbitMQ's
// vm_memory_high_watermark.relative), in bytes.
func DefaultBudget() int64 { return MemoryTotal() / 5 * 2 }

// MemoryTotal is the memory of the machine, or of the control group if that has less, in bytes.
func MemoryTotal() int64 {
	total := int64(1 << 30)
	var si unix.Sysinfo_t
	if err := unix.Sysinfo(&si); err == nil {
		total = int64(si.Totalram) * int64(si.Unit)
	}
	for _, f := range []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		b, err := os.ReadFile(f)
		if err != nil {
			continue
		}
		if n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64); err == nil && n > 0 {
			total = min(total, n)
		}
	}
	return total
}
