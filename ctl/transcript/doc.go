// Package transcript reads recorded sessions of RabbitMQ's command line tools, and compares what two tools print.
//
// A session is a text file (Read); Normal takes out of an output what is allowed to differ, by the rules in compare.go, each
// with its reason. It is used by the tests of ctl/command, by integration tests that replay sessions against a cluster, and by
// the comparison with a live RabbitMQ cluster.
package transcript
