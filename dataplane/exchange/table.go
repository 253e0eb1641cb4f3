package exchange

// Table holds the exchanges and bindings of one vhost. The default exchange "" is always there and routes to the queue of the
// key's name; whether such a queue exists is the caller's to know. Not safe for changes alongside other calls (see the
// package's documentation).
type Table struct {
	exchanges map[string]*entry
}

type bindingID struct {
	to   target
	key  string
	args string
}

// entry is one exchange with what its type needs for routing.
type entry struct {
	Exchange
	alternate string
	bindings  map[bindingID]Binding

	all    targets             // fanout
	direct map[string]*targets // direct
	topic  trie                // topic
	rules  []headersRule       // headers
	circle []place             // x-consistent-hash
}

// NewTable makes a table that holds the default exchange only.
func NewTable() *Table { return &Table{exchanges: make(map[string]*entry)} }

// Declare adds an exchange; if one of the name is there, its arguments are replaced and its bindings stay, provided that
// the type is the same (else it begins anew). It fails with UnknownTypeError.
func (t *Table) Declare(x Exchange) error {
	if !ValidType(x.Type) {
		return &UnknownTypeError{x.Type}
	}
	e := t.exchanges[x.Name]
	if e == nil || e.Type != x.Type {
		e = &entry{bindings: make(map[bindingID]Binding), direct: make(map[string]*targets)}
		t.exchanges[x.Name] = e
	}
	e.Exchange = x
	e.alternate, _ = x.Args["alternate-exchange"].(string)
	return nil
}

// Delete drops an exchange with the bindings of which it is the source. Bindings that lead to it are the caller's to
// unbind; until then they lead nowhere.
func (t *Table) Delete(name string) { delete(t.exchanges, name) }

// Has tells whether the exchange is there; the default exchange always is.
func (t *Table) Has(name string) bool { return name == "" || t.exchanges[name] != nil }

// Bind adds a binding; one that is there already stays as it is. The source must be there (UnknownExchangeError); the
// destination need not.
func (t *Table) Bind(b Binding) error {
	e := t.exchanges[b.Source]
	if e == nil {
		return &UnknownExchangeError{b.Source}
	}
	id := bindingID{b.target(), b.Key, identity(b.Args)}
	if _, ok := e.bindings[id]; ok {
		return nil
	}
	e.bindings[id] = b
	switch e.Type {
	case Fanout:
		e.all.add(id.to)
	case Direct:
		if e.direct[b.Key] == nil {
			e.direct[b.Key] = &targets{}
		}
		e.direct[b.Key].add(id.to)
	case Topic:
		e.topic.add(b.Key, id.to)
	case ConsistentHash:
		e.addPlaces(b, id.to)
	case Headers:
		e.rules = append(e.rules, newHeadersRule(b, id.key+"\x00"+id.args))
	}
	return nil
}

// Unbind takes a binding away and tells whether it was there.
func (t *Table) Unbind(b Binding) bool {
	e := t.exchanges[b.Source]
	if e == nil {
		return false
	}
	id := bindingID{b.target(), b.Key, identity(b.Args)}
	if _, ok := e.bindings[id]; !ok {
		return false
	}
	delete(e.bindings, id)
	switch e.Type {
	case Fanout:
		e.all.remove(id.to)
	case Direct:
		to := e.direct[b.Key]
		if to.remove(id.to); to.len() == 0 {
			delete(e.direct, b.Key)
		}
	case Topic:
		e.topic.remove(b.Key, id.to)
	case ConsistentHash:
		e.removePlaces(id.to)
	case Headers:
		for i := range e.rules {
			if e.rules[i].to == id.to && e.rules[i].id == id.key+"\x00"+id.args {
				e.rules = append(e.rules[:i], e.rules[i+1:]...)
				break
			}
		}
	}
	return true
}

// Type is the exchange's type, "" if it is not there.
func (t *Table) Type(name string) string {
	if e := t.exchanges[name]; e != nil {
		return e.Exchange.Type
	}
	return ""
}

// Bindings is how many bindings have the exchange as their source.
func (t *Table) Bindings(exchange string) int {
	if e := t.exchanges[exchange]; e != nil {
		return len(e.bindings)
	}
	return 0
}
