package broker

import (
	"fmt"
	"log/slog"
	"sync"

	"warren/dataplane/amqp"
	"warren/dataplane/exchange"
	"warren/dataplane/message"
	"warren/metadata/state"
)

// routes is what publishing needs of the metadata: the exchanges and bindings of each vhost, and the queues by name. It
// follows the metadata change by change.
type routes struct {
	log *slog.Logger

	mu     sync.RWMutex
	vhosts map[string]*vhostRoutes
}

type vhostRoutes struct {
	table *exchange.Table
	// internal are the exchanges that clients may not publish to.
	internal map[string]bool
	queues   map[string]*state.Queue
}

func newRoutes(log *slog.Logger) *routes { return &routes{log: log, vhosts: map[string]*vhostRoutes{}} }

// reload takes the whole state.
func (r *routes) reload(s *state.State) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.vhosts = map[string]*vhostRoutes{}
	for _, v := range s.Vhosts() {
		for _, x := range s.Exchanges(v.Name) {
			r.declare(x)
		}
		for _, b := range s.Bindings(v.Name) {
			r.bind(b)
		}
		for _, q := range s.VhostQueues(v.Name) {
			r.vhost(q.Vhost).queues[q.Name] = q
		}
	}
}

// apply takes one change.
func (r *routes) apply(c state.Change) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch c.Kind {
	case state.QueueCreated, state.QueueChanged:
		r.vhost(c.Queue.Vhost).queues[c.Queue.Name] = c.Queue
	case state.QueueDeleted:
		// A queue of the same name may have been created after it in the same batch.
		queues := r.vhost(c.OldQueue.Vhost).queues
		if now := queues[c.OldQueue.Name]; now != nil && now.ID == c.OldQueue.ID {
			delete(queues, c.OldQueue.Name)
		}
	case state.ExchangeCreated, state.ExchangeChanged:
		r.declare(c.Exchange)
	case state.ExchangeDeleted:
		r.vhost(c.Exchange.Vhost).table.Delete(c.Exchange.Name)
		delete(r.vhost(c.Exchange.Vhost).internal, c.Exchange.Name)
	case state.BindingAdded:
		r.bind(c.Binding)
	case state.BindingRemoved:
		if b, ok := r.binding(c.Binding); ok {
			r.vhost(c.Binding.Vhost).table.Unbind(b)
		}
	case state.VhostDeleted:
		delete(r.vhosts, c.Vhost)
	}
}

func (r *routes) vhost(name string) *vhostRoutes {
	v := r.vhosts[name]
	if v == nil {
		v = &vhostRoutes{table: exchange.NewTable(), queues: map[string]*state.Queue{}, internal: map[string]bool{}}
		r.vhosts[name] = v
	}
	return v
}

func (r *routes) declare(x *state.Exchange) {
	if delete(r.vhost(x.Vhost).internal, x.Name); x.Internal {
		r.vhost(x.Vhost).internal[x.Name] = true
	}
	args, err := arguments(x.Arguments)
	if err == nil && x.Name != "" {
		err = r.vhost(x.Vhost).table.Declare(exchange.Exchange{Name: x.Name, Type: x.Type, Args: args})
	}
	if err != nil {
		r.log.Error("an exchange cannot be routed through", "vhost", x.Vhost, "exchange", x.Name, "error", err)
	}
}

func (r *routes) bind(b *state.Binding) {
	if eb, ok := r.binding(b); ok {
		if err := r.vhost(b.Vhost).table.Bind(eb); err != nil {
			r.log.Error("a binding cannot be routed through", "vhost", b.Vhost, "exchange", b.Source, "error", err)
		}
	}
}

func (r *routes) binding(b *state.Binding) (exchange.Binding, bool) {
	args, err := arguments(b.Arguments)
	if err != nil {
		r.log.Error("a binding's arguments cannot be read", "vhost", b.Vhost, "exchange", b.Source, "error", err)
		return exchange.Binding{}, false
	}
	return exchange.Binding{
		Source: b.Source, Destination: b.Destination, ToExchange: b.Kind == state.KindExchange, Key: b.RoutingKey, Args: args,
	}, true
}

// arguments decodes a field table as declare and bind keep it.
func arguments(b []byte) (amqp.Table, error) {
	if len(b) == 0 {
		return nil, nil
	}
	t, err := amqp.DecodeTable(b)
	if err != nil {
		return nil, fmt.Errorf("arguments kept in the metadata: %w", err)
	}
	return t, nil
}

func (r *routes) queue(vhost, name string) (*state.Queue, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	v := r.vhosts[vhost]
	if v == nil {
		return nil, false
	}
	q, ok := v.queues[name]
	return q, ok
}

func (r *routes) hasExchange(vhost, name string) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	v := r.vhosts[vhost]
	return v != nil && v.table.Has(name)
}

// isInternal: clients may not publish to the exchange.
func (r *routes) isInternal(vhost, name string) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	v := r.vhosts[vhost]
	return v != nil && v.internal[name]
}

// route calls take for each queue that the message goes to.
func (r *routes) route(vhost string, m *message.Message, s *exchange.Scratch, take func(*state.Queue)) error {
	r.mu.RLock()
	defer r.mu.RUnlock()
	v := r.vhosts[vhost]
	if v == nil {
		return &exchange.UnknownExchangeError{Name: m.Exchange}
	}
	cc, bcc, err := amqp.ExtraKeys(m.Properties)
	if err != nil {
		return err
	}
	if m.Exchange == "" && len(cc)+len(bcc) == 0 {
		if q := v.queues[m.RoutingKey]; q != nil {
			take(q)
		}
		return nil
	}
	return v.routeBound(m, append(cc, bcc...), s, take)
}

// routeBound goes through exchanges and bindings.
func (v *vhostRoutes) routeBound(m *message.Message, more []string, s *exchange.Scratch, take func(*state.Queue)) error {
	var broken error
	names, err := v.table.Route(s, exchange.Message{Exchange: m.Exchange, Key: m.RoutingKey, More: more, Headers: func() map[string]any {
		t, err := amqp.HeadersOf(m.Properties)
		broken = err
		return t
	}, Property: func(name string) string { return hashedProperty(m, name) }})
	if err = firstError(err, broken); err != nil {
		return err
	}
	for _, name := range names {
		if q := v.queues[name]; q != nil {
			take(q)
		}
	}
	return nil
}

// hashedProperty is a property that consistent-hash exchanges may look at.
func hashedProperty(m *message.Message, name string) string {
	p, err := amqp.DecodeProperties(m.Properties)
	switch {
	case err != nil:
		return ""
	case name == "message_id":
		return p.MessageID
	case name == "correlation_id":
		return p.CorrelationID
	case name == "timestamp":
		return fmt.Sprint(p.Timestamp)
	}
	return ""
}

// exchangeType is the type of an exchange, "" if it is not there.
func (r *routes) exchangeType(vhost, name string) string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if v := r.vhosts[vhost]; v != nil {
		return v.table.Type(name)
	}
	return ""
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
