// Command warren is the one binary of Warren: node, operator's tools and local cluster, by subcommand or by the name that it
// is called by. All of it is in package command.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"warren/ctl/command"
)

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	return command.Main(ctx, os.Args, command.SystemEnv(), runServer())
}
