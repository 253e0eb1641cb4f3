package broker

import (
	"context"
	"maps"
	"slices"
	"sync"

	"warren/dataplane/amqp"
	"warren/metadata/state"
)

// Limits of virtual hosts and users on connections and channels. They hold for the cluster: a node that lets a client in asks the
// others what they have. A node that does not answer in time counts as having nothing, as it cannot serve for long either;
// clients that come through two nodes at the same moment are both counted before either is let in.

// sessions are the connections of this life that have opened a vhost, or are about to.
type sessions struct {
	mu  sync.Mutex
	all map[*session]struct{}
}

func (t *sessions) add(s *session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.all == nil {
		t.all = map[*session]struct{}{}
	}
	t.all[s] = struct{}{}
}

func (t *sessions) remove(s *session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.all, s)
}

func (t *sessions) list() []*session {
	t.mu.Lock()
	defer t.mu.Unlock()
	list := make([]*session, 0, len(t.all))
	for s := range t.all {
		list = append(list, s)
	}
	return list
}

// countQuestion asks how many connections and channels a user and a vhost have on a node.
type countQuestion struct {
	User  string `msgpack:"u"`
	Vhost string `msgpack:"v"`
}

type clientCounts struct {
	OfVhost  int64 `msgpack:"v"` // connections
	OfUser   int64 `msgpack:"u"` // connections
	Channels int64 `msgpack:"c"` // of the user
}

func (n *Node) countLocal(q countQuestion) (c clientCounts) {
	l := n.currentLife()
	if l == nil {
		return c
	}
	for _, s := range l.open.list() {
		if s.info.VHost == q.Vhost {
			c.OfVhost++
		}
		if s.info.User.Name == q.User {
			c.OfUser++
			c.Channels += int64(s.channelCount())
		}
	}
	return c
}

// countEverywhere asks all nodes that can be reached.
func (l *life) countEverywhere(ctx context.Context, q countQuestion) (sum clientCounts) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, node := range l.node.upNodes() {
		wg.Go(func() {
			var c clientCounts
			var err error
			switch {
			case node == l.self.Name:
				c = l.node.countLocal(q)
			case !l.node.detector.Reachable(node):
				return
			default:
				c, err = ask[clientCounts](ctx, l.node, node, callCountClients, q)
			}
			if err != nil {
				l.log.Warn("a node did not say how many clients it has", "peer", node, "error", err)
			}
			mu.Lock()
			defer mu.Unlock()
			sum.OfVhost += c.OfVhost
			sum.OfUser += c.OfUser
			sum.Channels += c.Channels
		})
	}
	wg.Wait()
	return sum
}

// admit counts a new session, and refuses it if a limit of its vhost or user is reached.
func (l *life) admit(ctx context.Context, s *session) error {
	var ofVhost, ofUser int64
	var hasVhost, hasUser bool
	l.node.meta.View(func(st *state.State) {
		ofVhost, hasVhost = st.VhostLimits(s.info.VHost).Get(state.LimitConnections)
		ofUser, hasUser = st.UserLimits(s.info.User.Name).Get(state.LimitConnections)
	})
	l.open.add(s)
	if !hasVhost && !hasUser {
		return nil
	}
	c := l.countEverywhere(ctx, countQuestion{User: s.info.User.Name, Vhost: s.info.VHost})
	var err error
	switch {
	case hasVhost && c.OfVhost > ofVhost:
		err = amqp.Errorf(amqp.NotAllowed, "access to vhost '%s' refused for user '%s': connection limit (%d) is reached",
			s.info.VHost, s.info.User.Name, ofVhost)
	case hasUser && c.OfUser > ofUser:
		err = amqp.Errorf(amqp.NotAllowed, "connection refused for user '%s': user connection limit (%d) is reached",
			s.info.User.Name, ofUser)
	}
	if err != nil {
		l.open.remove(s)
	}
	return err
}

// admitChannel refuses a channel beyond its user's limit; the channel is counted already.
func (l *life) admitChannel(ctx context.Context, s *session) error {
	var limit int64
	var limited bool
	user := s.info.User.Name
	l.node.meta.View(func(st *state.State) { limit, limited = st.UserLimits(user).Get(state.LimitChannels) })
	if !limited {
		return nil
	}
	if c := l.countEverywhere(ctx, countQuestion{User: user, Vhost: s.info.VHost}); c.Channels > limit {
		return amqp.Errorf(amqp.NotAllowed, "number of channels opened for user '%s' has reached the maximum allowed user limit of (%d)",
			user, limit)
	}
	return nil
}

// openedChannel and closedChannel keep the session's list of channels.
func (s *session) openedChannel(c *channel) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.channels == nil {
		s.channels = map[uint64]*channel{}
	}
	s.channels[c.info.ID] = c
}

func (s *session) closedChannel(c *channel) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.channels, c.info.ID)
}

func (s *session) channelCount() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.channels)
}

// consuming are the consumers of a channel by their tags.
func (s *session) consuming(channel uint64) (out []ConsumerInfo) {
	s.mu.Lock()
	c := s.channels[channel]
	s.mu.Unlock()
	if c == nil {
		return nil
	}
	c.mu.Lock()
	places := maps.Clone(c.consumers)
	for _, info := range c.shown {
		out = append(out, info)
	}
	c.mu.Unlock()
	for i := range out {
		if a := places[out[i].Tag].at; a != nil {
			a.mu.Lock()
			out[i].ID = a.core.ConsumerID(c.key, out[i].Tag)
			a.mu.Unlock()
		}
	}
	slices.SortFunc(out, func(a, b ConsumerInfo) int {
		if a.Tag < b.Tag {
			return -1
		}
		return 1
	})
	return out
}

// showConsumer and hideConsumer keep the channel's list of consumers.
func (c *channel) showConsumer(r amqp.Consume, args []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.shown == nil {
		c.shown = map[string]ConsumerInfo{}
	}
	c.shown[r.Tag] = ConsumerInfo{Queue: r.Queue, Tag: r.Tag, NoAck: r.NoAck, Prefetch: r.Prefetch, Arguments: args}
}

func (c *channel) hideConsumer(tag string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.shown, tag)
}
