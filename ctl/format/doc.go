// Package format writes what an operator's tool prints: rows as table, pretty_table, json or csv, and single documents, in
// the forms of RabbitMQ's command line tools.
//
// Start with NewRows: it takes a format and columns and writes rows as they come. Values are nil (absent), string, bool, int64,
// uint64, float64, PID, Atom, List, Tuple, Map and Table (AMQP arguments); value.go has their form in each format.
package format
