package broker

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"

	"warren/dataplane/link"
	"warren/metadata/state"
)

// Watermark is how much of its master's stream of operations a member of a queue has received, and has made safe.
// Window is how many bytes of the most that it may, Limit, a member has in hand: the master, those that not all have received; a
// mirror, those that it has not passed on and made safe. Limit is 0 where a node of an older version does not say.
type Watermark struct {
	Received  uint64
	Persisted uint64
	// Missing is how many messages that are older than its joining a mirror lacks, More that it may lack others.
	Missing       int
	More          bool
	Window, Limit int64
}

// Watermarks asks the members of a queue's view how far they are. A member that does not answer in time is missing.
func (n *Node) Watermarks(ctx context.Context, q *state.Queue) map[string]Watermark {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	out := map[string]Watermark{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	body := binary.AppendUvarint(nil, q.ID)
	for _, m := range q.View() {
		wg.Go(func() {
			r, err := n.watermarkOf(ctx, m.Node, body)
			if err != nil {
				n.log.Debug("a member did not say how far it is", "peer", m.Node, "queue", q.Name, "error", err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			out[m.Node] = Watermark{r.Received, r.Persisted, r.Missing, r.More, r.Window, r.Limit}
		})
	}
	wg.Wait()
	return out
}

func (n *Node) watermarkOf(ctx context.Context, node string, body []byte) (r report, err error) {
	var b []byte
	if node == n.cfg.Node {
		b, err = n.localWatermarks(ctx, body)
	} else {
		b, err = n.links.Call(ctx, node, callWatermarks, body)
	}
	if err == nil {
		err = link.Unmarshal(b, &r)
	}
	if err != nil {
		return r, fmt.Errorf("ask %s how far its copy is: %w", node, err)
	}
	return r, nil
}
