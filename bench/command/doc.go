// Package command is the command line of warren-bench: flags, which clusters to start, the order of the runs, and where the
// results go. Start at [Run].
//
// Exit status: 0; 1 when a measurement failed, and that includes a broker that lost a message or broke its word; 64 for
// wrong usage.
package command
