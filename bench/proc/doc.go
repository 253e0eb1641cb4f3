// Package proc reads what processes use from Linux' /proc: CPU time and resident memory. Start at [Watch].
package proc
