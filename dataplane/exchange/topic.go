package exchange

import "strings"

// trie holds the binding keys of a topic exchange, one level per word. "*" stands for one word, "#" for any number of
// words, none included (AMQP 0-9-1 section 3.1.3.3).
type trie struct{ root node }

type node struct {
	children map[string]*node
	targets  targets
	// hash: the node is a "#"; nested: and another "#" is above it, so that it can be reached more than once.
	hash, nested bool
}

func (t *trie) add(key string, to target) {
	n, below := &t.root, false
	for _, w := range words(key) {
		next := n.children[w]
		if next == nil {
			if n.children == nil {
				n.children = make(map[string]*node)
			}
			next = &node{hash: w == "#", nested: w == "#" && below}
			n.children[w] = next
		}
		n, below = next, below || next.hash
	}
	n.targets.add(to)
}

// words are those of a key; an empty one has none, as with RabbitMQ.
func words(key string) []string {
	if key == "" {
		return nil
	}
	return strings.Split(key, ".")
}

// remove takes one binding away, and the nodes that nothing else needs.
func (t *trie) remove(key string, to target) {
	path := []*node{&t.root}
	words := words(key)
	for _, w := range words {
		next := path[len(path)-1].children[w]
		if next == nil {
			return
		}
		path = append(path, next)
	}
	path[len(path)-1].targets.remove(to)
	for i := len(words); i > 0 && path[i].empty(); i-- {
		delete(path[i-1].children, words[i-1])
	}
}

func (n *node) empty() bool { return len(n.children) == 0 && n.targets.len() == 0 }

// matcher walks a trie along the words of a key, at all nodes at once that the words so far lead to. A "#" that was reached
// stays. A node is never held twice, so the work is at most nodes times words, whatever the patterns.
type matcher struct {
	at     []*node // reached by exactly the words so far
	next   []*node
	hashes []*node // reached "#"
	nested map[*node]struct{}
}

// match leaves what matches in m.at and m.hashes.
func (m *matcher) match(t *trie, key string) {
	m.at, m.hashes = append(m.at[:0], &t.root), m.hashes[:0]
	clear(m.nested)
	m.reach(&t.root)
	for more := key != ""; more && len(m.at)+len(m.hashes) > 0; {
		var word string
		word, key, more = strings.Cut(key, ".")
		m.next = m.next[:0]
		for _, n := range m.at {
			m.step(n, word)
		}
		for _, n := range m.hashes {
			m.step(n, word)
		}
		m.at, m.next = m.next, m.at
		for _, n := range m.at {
			m.reach(n)
		}
	}
}

// step goes from n over one word.
func (m *matcher) step(n *node, word string) {
	if len(n.children) == 0 {
		return
	}
	if c := n.children[word]; c != nil && word != "#" && word != "*" {
		m.next = append(m.next, c)
	}
	if c := n.children["*"]; c != nil {
		m.next = append(m.next, c)
	}
}

// reach adds the "#" that n leads to without a word.
func (m *matcher) reach(n *node) {
	for h := n.children["#"]; h != nil; h = h.children["#"] {
		if h.nested {
			if _, ok := m.nested[h]; ok {
				return
			}
			if m.nested == nil {
				m.nested = make(map[*node]struct{})
			}
			m.nested[h] = struct{}{}
		}
		m.hashes = append(m.hashes, h)
	}
}
