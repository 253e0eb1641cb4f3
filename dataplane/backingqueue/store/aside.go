package store

import (
	"fmt"

	"warren/dataplane/backingqueue"
)

// SetAside implements backingqueue.Store.
func (s *Store) SetAside(id backingqueue.ID) (string, error) {
	return "", fmt.Errorf("set queue %d aside: %w", id, backingqueue.ErrNotFound)
}
