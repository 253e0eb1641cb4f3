// Package fakebroker is an AMQP 0-9-1 broker in the test's process that serves one queue from memory and breaks its word as a
// test orders it to: it loses messages it has confirmed, confirms what was never published or twice, refuses, or delivers
// twice. It is how the tests know that a measurement notices. Start at [Start] and [Faults].
package fakebroker
