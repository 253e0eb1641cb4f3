package broker

import (
	"fmt"

	"warren/dataplane/broker/config"
	"warren/metadata/state"
)

// witnessText is why a witness has no listener for clients.
const witnessText = "this node is a witness: it votes, carries no queues, and serves no clients"

// clientListeners are where the node serves clients; a witness does so nowhere.
func (c Config) clientListeners() []config.Listener {
	if c.Witness {
		return nil
	}
	return c.Listeners
}

// clientTLSListeners are those over TLS.
func (c Config) clientTLSListeners() []config.Listener {
	if c.Witness {
		return nil
	}
	return c.SSLListeners
}

// checkWitness refuses to make a witness of a node that has a place in a queue: what it holds, perhaps alone, could not be had
// any more.
func (n *Node) checkWitness() error {
	if !n.cfg.Witness {
		return nil
	}
	places := 0
	n.meta.View(func(s *state.State) {
		for _, q := range s.Queues() {
			if _, ok := q.Member(n.cfg.Node); ok {
				places++
			}
		}
	})
	if places == 0 {
		n.log.Info(witnessText)
		return nil
	}
	return &UnwelcomeError{fmt.Sprintf("warren.witness: %s has copies of %d queues, so it cannot become a witness. Start it without the key, "+
		"see that the queues have synchronised mirrors elsewhere, stop it, run forget_cluster_node %s on another node, move its data "+
		"directory %s away, and start it as a witness", n.cfg.Node, places, n.cfg.Node, n.cfg.DataDir)}
}
