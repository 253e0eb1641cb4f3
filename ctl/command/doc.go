// Package command is everything that the binary warren does on a command line.
//
// Start with Main: it looks at the name it was called by, and at the first argument. As rabbitmqctl, rabbitmq-queues,
// rabbitmq-diagnostics or rabbitmq-upgrade (or "warren ctl …" and so on) it is an operator's tool: tool.go runs one command
// of the table in commands.go, each of which is defined in the file of its family (policies.go, queues.go, …). As "warren
// server" it is a node (server.go), as "warren cluster" a local cluster of nodes (cluster.go, package localcluster).
//
// Each command of RabbitMQ's tools is there (testdata/commands-3.10.8.txt); those about what is not, are in absent.go and quorum.go.
//
// What the tools print, where, and with what exit status follows RabbitMQ's command line tools, recorded from 3.10. To add a
// command: write a command value in the file of its family, and name it in commands.go. Its run function gets a *call: the
// parsed arguments, a connection to the node and the formats of output. It returns an *exitError, or an error of the admin
// protocol, which exit.go turns into text and exit status.
package command
