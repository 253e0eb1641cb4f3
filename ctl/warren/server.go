package main

import (
	"warren/ctl/command"
	"warren/ctl/node"
)

// runServer gives the function that runs a node.
func runServer() command.RunServer { return node.Run }
