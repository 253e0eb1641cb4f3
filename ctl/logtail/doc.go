// Package logtail keeps the end of a process's log in memory, so that an operator can read it where the log itself goes to
// standard error and out of reach.
//
// Start with Tail: an io.Writer that a log handler writes to, one line a write; Last and Follow give the lines back.
package logtail
