// Package config reads rabbitmq.conf: its syntax, and the keys that Warren understands, into one typed Config.
//
// Start with Parse, which is pure: text in, a Config or the complete list of what is wrong with the text out. A key has
// RabbitMQ's name wherever RabbitMQ has the key; ours begin with "warren.". A key that nobody knows is an error that names
// file and line, because a misspelt key that is silently ignored is found out in an outage. A key that RabbitMQ knows and
// that has no meaning here is a Warning, so that a file of RabbitMQ's can be used as it is; one that says who may connect, or
// what they may do, and that cannot be kept here is an error.
//
// The table of keys is in keys.go, one line a key, that of RabbitMQ's other keys in foreign.go; the syntax is in syntax.go.
package config
