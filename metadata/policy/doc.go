// Package policy is what Warren knows of RabbitMQ's policies: parsing and validating a definition with RabbitMQ's own
// texts (Parse, Check), matching names (Matcher), choosing the policy that applies (Choose), merging it with an operator
// policy (Merge), and reading the result (Definition).
//
// It is pure: no clock, no I/O, no lock. Regular expressions backtrack, because users' ha policies use look-ahead such
// as ^(?!amq\.).*; a match is therefore limited in time, and may only be made before a command is proposed, never inside
// the state machine (design page metadata.md, State).
package policy
