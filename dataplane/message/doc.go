// Package message defines what travels through a queue: one AMQP message as every node of the cluster holds it, and its
// compact versioned encoding for the ring and the disk (Append, Decode; written by hand with package wire, no copy at the
// reader).
package message
