// Package localcluster runs a cluster of real processes on this machine, for trying out and for tests.
//
// Start with Open and Cluster. Everything lives below one directory:
//
//	DIR/cluster.json          how many nodes, and the port offset
//	DIR/.cookie               the cookie of all nodes
//	DIR/rabbitI/data          node I's data directory
//	DIR/rabbitI/rabbitmq.conf its configuration, written anew at each start
//	DIR/rabbitI/extra.conf    what a user wants added to it
//	DIR/rabbitI/log           its standard output and error
//	DIR/rabbitI/pid           its process: number, and start time on the second line
//
// Node I is rabbitI@localhost and listens on 127.0.0.1 alone: AMQP on 5672+K+I-1 and inter-node on 25672+K+I-1, K being
// the port offset. A process is only ever signalled after number and start time of the pid file were found to be its own.
package localcluster
