// Package integration holds the tests over real processes and the tests of the house rules.
//
// A test here starts bin/warren as an operator would (package cluster is the harness), talks to it with a public AMQP
// client and with bin/rabbitmqctl, kills what the test's name says, and looks at what clients and operators would see.
// The house rules (import edges, sizes of files and functions, wording) are in house_test.go.
package integration
