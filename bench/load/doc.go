// Package load makes a broker work: a [Publisher] with a confirm window and, if wanted, a fixed rate, and a [Consumer] with
// manual acknowledgements, at full speed or paced. Both write into the books of package ledger and keep latencies.
//
// Latencies are corrected for coordinated omission: at a fixed rate a message's clock starts when it was due, not when the
// publisher got round to sending it; without a rate it starts when it is sent.
//
// Start at [Start]: it runs the publishers and consumers of a [Plan] as a [Group].
package load
