package exchange

// Scratch is the working memory of Route, so that routing allocates nothing once it is warm. One user at a time; the zero
// value is ready.
type Scratch struct {
	queues  []string
	seen    map[string]struct{} // of queues, once they are many
	visited []string            // exchanges
	headers map[string]any
	asked   bool
	pending []string // exchanges to go through
	matcher matcher
}

// smallSet is up to how many queues a linear search for duplicates is quicker than a map.
const smallSet = 16

// Route gives the queues that the message goes to, each once, in an order that follows from the table's changes: by the bindings, through exchanges bound
// to exchanges (each is visited once, so cycles end), and, for an exchange that routes nowhere, through its alternate
// exchange. The result is good until the next use of s. UnknownExchangeError: the message's exchange is not there; other
// exchanges that are missing on the way lead nowhere.
func (t *Table) Route(s *Scratch, m Message) ([]string, error) {
	s.reset()
	if !t.Has(m.Exchange) {
		return nil, &UnknownExchangeError{m.Exchange}
	}
	s.visit(m.Exchange)
	for len(s.pending) > 0 {
		name := s.pending[len(s.pending)-1]
		s.pending = s.pending[:len(s.pending)-1]
		if name == "" {
			s.add(m.Key)
			for _, key := range m.More {
				s.add(key)
			}
			continue
		}
		e := t.exchanges[name]
		if e == nil {
			continue
		}
		if !e.route(s, &m) && e.alternate != "" {
			s.visit(e.alternate)
		}
	}
	return s.queues, nil
}

func (s *Scratch) reset() {
	s.queues, s.visited, s.pending = s.queues[:0], s.visited[:0], s.pending[:0]
	clear(s.seen)
	s.headers, s.asked = nil, false
}

// visit has an exchange gone through, unless it was already.
func (s *Scratch) visit(name string) {
	for _, v := range s.visited {
		if v == name {
			return
		}
	}
	s.visited = append(s.visited, name)
	s.pending = append(s.pending, name)
}

func (s *Scratch) add(queue string) {
	if len(s.queues) < smallSet {
		for _, q := range s.queues {
			if q == queue {
				return
			}
		}
		s.queues = append(s.queues, queue)
		return
	}
	if len(s.seen) == 0 {
		if s.seen == nil {
			s.seen = make(map[string]struct{})
		}
		for _, q := range s.queues {
			s.seen[q] = struct{}{}
		}
	}
	if _, ok := s.seen[queue]; !ok {
		s.seen[queue] = struct{}{}
		s.queues = append(s.queues, queue)
	}
}

func (s *Scratch) addTarget(to target) {
	if to.toExchange {
		s.visit(to.name)
	} else {
		s.add(to.name)
	}
}

// addTargets reports whether there are any.
func (s *Scratch) addTargets(ts *targets) bool {
	for i := range ts.list {
		s.addTarget(ts.list[i].target)
	}
	return len(ts.list) > 0
}

// route adds where e's bindings lead and reports whether any matched.
func (e *entry) route(s *Scratch, m *Message) bool {
	switch e.Type {
	case Fanout:
		return s.addTargets(&e.all)
	case ConsistentHash:
		return e.routeHash(s, m)
	case Headers:
		return e.routeHeaders(s, m)
	}
	found := e.routeKey(s, m.Key)
	for _, key := range m.More {
		found = e.routeKey(s, key) || found
	}
	return found
}

func (e *entry) routeKey(s *Scratch, key string) bool {
	if e.Type == Direct {
		to := e.direct[key]
		return to != nil && s.addTargets(to)
	}
	s.matcher.match(&e.topic, key)
	found := false
	for _, n := range s.matcher.at {
		found = s.addTargets(&n.targets) || found
	}
	for _, n := range s.matcher.hashes {
		found = s.addTargets(&n.targets) || found
	}
	return found
}

func (e *entry) routeHeaders(s *Scratch, m *Message) bool {
	if !s.asked && m.Headers != nil && len(e.rules) > 0 {
		s.headers = m.Headers()
	}
	s.asked = s.asked || len(e.rules) > 0
	found := false
	for i := range e.rules {
		if e.rules[i].matches(s.headers) {
			found = true
			s.addTarget(e.rules[i].to)
		}
	}
	return found
}
