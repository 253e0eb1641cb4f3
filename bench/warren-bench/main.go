// Command warren-bench measures clusters of AMQP 0-9-1 brokers; package bench/command is its command line.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"warren/bench/command"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := command.Run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
