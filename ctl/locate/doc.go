// Package locate finds a node by its name, and the cookie that proves who may talk to it.
//
// A running node leaves a file in the user's runtime directory (Register, Entry); a tool that is told "-n rabbit@host"
// looks there first (Find), and dials host:25672 otherwise. Entries whose process is gone are ignored and removed. Both sides
// of a connection know the same cookie: EnsureCookie makes one at a node's first start, ReadCookie reads it for a tool.
//
// Names: NodeName and DefaultNodeName make the full name of a node out of what the user typed. Processes: Process tells a
// process from a later one with the same number.
package locate
