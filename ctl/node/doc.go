// Package node runs a broker.Node as "warren server" and answers operators' tools for it: it translates between what the
// admin protocol asks (ctl/admin) and what a node knows (dataplane/broker).
package node
