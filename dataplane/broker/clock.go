package broker

import (
	"time"

	"golang.org/x/sys/unix"
)

// bootTime is the clock of the leases: it goes on while the process is stopped and while the machine sleeps, which
// time.Now's monotonic reading does not (metadata.md, never two masters).
func bootTime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		// The clock has been there since Linux 2.6.39; without it no lease can be reckoned.
		panic("read CLOCK_BOOTTIME: " + err.Error())
	}
	return time.Duration(ts.Nano())
}
