package broker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"

	"warren/dataplane/amqp"
	"warren/dataplane/backingqueue"
	"warren/dataplane/exchange"
	"warren/dataplane/message"
	"warren/dataplane/origin"
	"warren/dataplane/queue/protocol"
	"warren/metadata/state"
)

// backend is what the AMQP server of a life serves.
type backend struct{ life *life }

// Authenticate implements amqp.Backend.
func (b backend) Authenticate(_ context.Context, c amqp.Credentials) (amqp.User, error) {
	user, err := b.authenticate(c)
	b.life.node.logins.count(c, err)
	name := "user.authentication.success"
	if err != nil {
		name = "user.authentication.failure"
	}
	b.life.node.happenings.tell(name, "name", c.Username, "peer", addressText(c.Remote))
	return user, err
}

func (b backend) authenticate(c amqp.Credentials) (amqp.User, error) {
	var user *state.User
	b.life.node.meta.View(func(s *state.State) { user, _ = s.User(c.Username) })
	certified := c.Mechanism == "EXTERNAL"
	if user == nil || !certified && !user.CheckPassword(c.Password) {
		return amqp.User{}, amqp.Errorf(amqp.AccessRefused, "user '%s' is not known or the password is wrong", c.Username)
	}
	if slices.Contains(b.life.node.cfg.LoopbackUsers, user.Name) && !isLoopback(c.Remote) {
		return amqp.User{}, amqp.Errorf(amqp.AccessRefused, "user '%s' can only connect via localhost", user.Name)
	}
	return amqp.User{Name: user.Name, Impersonator: slices.Contains(user.Tags, "impersonator")}, nil
}

func isLoopback(addr net.Addr) bool {
	tcp, ok := addr.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

// Open implements amqp.Backend.
func (b backend) Open(ctx context.Context, c amqp.ConnectionInfo) (amqp.Session, error) {
	var allowed, exists bool
	b.life.node.meta.View(func(s *state.State) {
		_, exists = s.Vhost(c.VHost)
		_, allowed = s.Permission(c.User.Name, c.VHost)
	})
	switch {
	case !exists:
		return nil, amqp.Errorf(amqp.NotAllowed, "vhost %s not found", c.VHost)
	case !allowed:
		return nil, amqp.Errorf(amqp.NotAllowed, "access to vhost '%s' refused for user '%s'", c.VHost, c.User.Name)
	}
	s := &session{life: b.life, info: c, conn: b.life.connections.Add(1), access: newAccess(b.life, c.User.Name, c.VHost)}
	if err := b.life.admit(ctx, s); err != nil {
		return nil, err
	}
	s.tell("connection.created")
	return s, nil
}

// tell tells those who watch the node of something that concerns the connection.
func (s *session) tell(name string, fields ...any) {
	s.life.node.happenings.tell(name, append([]any{"user", s.info.User.Name, "vhost", s.info.VHost, "peer", addressText(s.info.Remote)}, fields...)...)
}

// session is one client connection's use of one vhost.
type session struct {
	life   *life
	info   amqp.ConnectionInfo
	conn   uint64 // unique in the life, over the servers that a pause may separate
	access *access

	mu        sync.Mutex
	exclusive []*state.Queue // declared by this connection
	channels  map[uint64]*channel
}

func (s *session) owner() state.Owner {
	return state.Owner{Node: s.life.self.Name, Incarnation: s.life.self.Incarnation, Connection: s.conn}
}

// OpenChannel implements amqp.Session.
func (s *session) OpenChannel(ctx context.Context, c amqp.ChannelInfo, sink amqp.Sink) (amqp.ChannelBackend, error) {
	ch := newChannel(s, c, sink, origin.Channel{Connection: s.conn, Channel: c.ID})
	s.openedChannel(ch)
	if err := s.life.admitChannel(ctx, s); err != nil {
		s.closedChannel(ch)
		return nil, err
	}
	s.tell("channel.created", "number", int64(c.Number))
	return ch, nil
}

// UpdateSecret implements amqp.Session: passwords do not expire, so there is nothing to renew.
func (s *session) UpdateSecret(context.Context, string, string) error { return nil }

// Close implements amqp.Session: the connection's exclusive queues go with it.
func (s *session) Close(ctx context.Context) {
	defer s.life.open.remove(s)
	defer s.tell("connection.closed")
	s.mu.Lock()
	queues := s.exclusive
	s.exclusive = nil
	s.mu.Unlock()
	for _, q := range queues {
		_, err := s.life.propose(ctx, &state.DeleteQueue{Vhost: q.Vhost, Name: q.Name, ID: q.ID, Owner: s.owner()})
		if err != nil && !errors.Is(err, state.ErrNotFound) {
			s.life.log.Warn("an exclusive queue could not be deleted with its connection",
				"vhost", q.Vhost, "queue", q.Name, "error", err)
		}
	}
}

// queue finds a queue that this connection may use.
func (s *session) queue(name string) (*state.Queue, error) {
	q, ok := s.life.routes.queue(s.info.VHost, name)
	switch {
	case !ok:
		return nil, noQueue(name, s.info.VHost)
	case q.Exclusive && q.Owner != s.owner():
		return nil, locked(name, s.info.VHost)
	}
	return q, nil
}

func noQueue(name, vhost string) error {
	return amqp.Errorf(amqp.NotFound, "no queue '%s' in vhost '%s'", name, vhost)
}

func locked(name, vhost string) error {
	e := &state.Error{Code: state.CodeLocked, Kind: state.KindQueue, Name: name, Vhost: vhost}
	return amqp.Errorf(amqp.ResourceLocked, "%s", e.Error())
}

// down is RabbitMQ's answer for a queue whose master's node is down and that nobody may take over.
func down(q *state.Queue) error {
	e := &state.Error{Code: state.CodeQueueDown, Kind: state.KindQueue, Name: q.Name, Vhost: q.Vhost, Have: q.Master}
	return amqp.Errorf(amqp.NotFound, "%s", e.Error())
}

// route finds where a message goes; the result is good until the next call for the same channel.
func (s *session) route(c *channel, m *message.Message) ([]*attachment, error) {
	if err := s.access.exchange("write", m.Exchange); err != nil {
		return nil, err
	}
	if err := s.access.topic("write", m.Exchange, m.RoutingKey); err != nil {
		return nil, err
	}
	if m.Exchange != "" && s.life.routes.isInternal(s.info.VHost, m.Exchange) {
		return nil, amqp.Errorf(amqp.AccessRefused, "cannot publish to internal exchange '%s' in vhost '%s'", m.Exchange, s.info.VHost)
	}
	c.targets = c.targets[:0]
	err := s.life.routes.route(s.info.VHost, m, &c.scratch, func(q *state.Queue) {
		c.targets = append(c.targets, s.life.attachment(backingqueue.ID(q.ID)))
	})
	if err != nil {
		return nil, s.unroutable(m, err)
	}
	for _, a := range c.targets {
		c.used[a] = true
	}
	return c.targets, nil
}

func (s *session) unroutable(m *message.Message, err error) error {
	var unknown *exchange.UnknownExchangeError
	if errors.As(err, &unknown) {
		return amqp.Errorf(amqp.NotFound, "no exchange '%s' in vhost '%s'", m.Exchange, s.info.VHost)
	}
	var e *amqp.Error
	if errors.As(err, &e) {
		return e
	}
	return fmt.Errorf("route a message to exchange %q: %w", m.Exchange, err)
}

func exchangeName(name string) string {
	if name == "" {
		return "amq.default"
	}
	return name
}

// refusal translates a refused proposal for a client.
func refusal(err error) error {
	var e *state.Error
	if !errors.As(err, &e) {
		return err
	}
	switch e.Code {
	case state.CodeNotFound, state.CodeQueueDown:
		return amqp.Errorf(amqp.NotFound, "%s", e.Error())
	case state.CodeInequivalent, state.CodeInUse, state.CodeInvalid, state.CodeExists, state.CodePattern, state.CodeLimit:
		return amqp.Errorf(amqp.PreconditionFailed, "%s", e.Error())
	case state.CodeLocked:
		return amqp.Errorf(amqp.ResourceLocked, "%s", e.Error())
	}
	return err
}

// callError translates what a queue's master answered.
func callError(q *state.Queue, err error) error {
	where := fmt.Sprintf("queue '%s' in vhost '%s'", q.Name, q.Vhost)
	switch {
	case errors.Is(err, protocol.ErrExclusiveConsumer):
		return amqp.Errorf(amqp.AccessRefused, "%s in exclusive use", where)
	case errors.Is(err, protocol.ErrInUse):
		return amqp.Errorf(amqp.PreconditionFailed, "%s in use", where)
	case errors.Is(err, protocol.ErrNotEmpty):
		return amqp.Errorf(amqp.PreconditionFailed, "%s not empty", where)
	case errors.Is(err, protocol.ErrDown):
		return down(q)
	case errors.Is(err, protocol.ErrDeleted), errors.Is(err, origin.ErrClosed):
		return noQueue(q.Name, q.Vhost)
	}
	return err
}

// binding makes a metadata binding of the client's.
func (s *session) binding(b amqp.Binding, kind state.Kind) (state.Binding, error) {
	args, err := amqp.AppendTable(nil, b.Arguments)
	if err != nil {
		return state.Binding{}, amqp.Errorf(amqp.SyntaxError, "arguments of a binding: %v", err)
	}
	return state.Binding{
		Vhost: s.info.VHost, Source: b.Source, Kind: kind, Destination: b.Destination, RoutingKey: b.RoutingKey, Arguments: args,
	}, nil
}
