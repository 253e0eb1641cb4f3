package main

import "warren/ctl/command"

// runServer gives the function that runs a node; nil: this program has tools only.
func runServer() command.RunServer { return nil }
