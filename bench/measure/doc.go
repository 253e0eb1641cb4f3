// Package measure holds the measurements: throughput, latency, failover and synchronisation of a queue, each the same for every
// cluster. A measurement gives a [Result], or an error when the broker did not do what the figures would claim: a confirmed
// message that was lost, fewer confirms than counted, a queue that is not synchronised though the broker said so.
//
// Start at [Target], [Params] and [Throughput].
package measure
