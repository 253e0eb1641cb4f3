package command

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"
)

// recoverCommand is "warren recover": what an operator does when a majority is lost for good.
func recoverCommand(env Env, run RunServer) *cli.Command {
	return &cli.Command{
		Name:  "recover",
		Usage: "make a stopped node a cluster of its own, after the others were lost with their disks",
		Description: "What the lost nodes confirmed and this one does not have is lost. It is refused while another member answers, " +
			"and unless the nodes named with --lost leave no majority. The lost nodes must never start again on their old disks.",
		Flags: append(nodeFlags(), &cli.StringSliceFlag{Name: "lost", Usage: "`NODE` that is lost for good; repeat it for each"}),
		Action: func(cc *cli.Context) error {
			s, err := serverSettings(cc, env)
			if err != nil {
				return err
			}
			s.Recover = &Recovery{Lost: cc.StringSlice("lost")}
			if err := run(cc.Context, s); err != nil {
				return &exitError{exitUnavailable, "Error: " + err.Error()}
			}
			print(env.Stdout, fmt.Sprintf("%s is now a cluster of its own, without %s. Start it; then let new nodes join it.\n",
				s.Node, strings.Join(s.Recover.Gone, ", ")))
			return nil
		},
	}
}

// Recovery asks a RunServer for the recovery of a node that does not run (broker.Recover) instead of running it.
type Recovery struct {
	Lost []string // named by the operator
	Gone []string // the members that were given up; set by the RunServer
}
