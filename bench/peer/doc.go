// Package peer puts brokers to the test on an equal footing: a [Cluster] is Warren's local cluster, RabbitMQ's (through the
// script that starts a throw-away one) or any that is named by its URIs and a command. The measurements see its nodes'
// addresses and processes, set policies, look at queues, synchronise them, and kill, stop and start nodes.
//
// Start at [Warren], [RabbitMQ] and [Named].
package peer
