package state

import (
	"cmp"
	"crypto/md5"
	"crypto/sha256"
	"crypto/sha512"
	"slices"
)

// Read access. Every method below may be called while no Apply runs (the owner's lock); what it returns is immutable and
// may be kept.

// Index is the Raft index of the newest command applied.
func (s *State) Index() uint64 { return s.index }

// ClusterID is the cluster's unique name; "" before InitCluster.
func (s *State) ClusterID() string { return s.clusterID }

// ClusterName is the name that users see.
func (s *State) ClusterName() string { return s.clusterName }

// Queue finds a queue by its name.
func (s *State) Queue(vhost, name string) (*Queue, bool) {
	id, ok := s.queueNames.get(key(vhost, name))
	if !ok {
		return nil, false
	}
	return s.queues.get(id)
}

// QueueByID finds a queue by its ID.
func (s *State) QueueByID(id uint64) (*Queue, bool) { return s.queues.get(id) }

// Queues are all queues by ascending ID.
func (s *State) Queues() []*Queue { return s.queues.all() }

// VhostQueues are a vhost's queues by ascending name.
func (s *State) VhostQueues(vhost string) []*Queue {
	ids := under(&s.queueNames, key(vhost))
	out := make([]*Queue, 0, len(ids))
	for _, id := range ids {
		if q, ok := s.queues.get(id); ok {
			out = append(out, q)
		}
	}
	return out
}

// Exchange finds an exchange by its name; "" is the default one.
func (s *State) Exchange(vhost, name string) (*Exchange, bool) {
	return s.exchanges.get(key(vhost, name))
}

// Exchanges are a vhost's exchanges by ascending name.
func (s *State) Exchanges(vhost string) []*Exchange { return under(&s.exchanges, key(vhost)) }

// Bindings are a vhost's bindings by source, kind, destination and routing key. The default exchange's are not among them.
func (s *State) Bindings(vhost string) []*Binding { return under(&s.bindings, key(vhost)) }

// BindingsFrom are the bindings that lead from an exchange.
func (s *State) BindingsFrom(vhost, exchange string) []*Binding {
	return under(&s.bindings, key(vhost, exchange))
}

// BindingsTo are the bindings that lead to a queue or an exchange.
func (s *State) BindingsTo(vhost string, kind Kind, name string) []*Binding {
	return under(&s.bindingsTo, key(vhost, string(kind), name))
}

// Node finds a node by its name.
func (s *State) Node(name string) (*Node, bool) { return s.nodes.get(name) }

// Nodes are all nodes by ascending name.
func (s *State) Nodes() []*Node { return s.nodes.all() }

// Vhost finds a virtual host.
func (s *State) Vhost(name string) (*Vhost, bool) { return s.vhosts.get(name) }

// Vhosts are all virtual hosts by ascending name.
func (s *State) Vhosts() []*Vhost { return s.vhosts.all() }

// User finds a user.
func (s *State) User(name string) (*User, bool) { return s.users.get(name) }

// Users are all users by ascending name.
func (s *State) Users() []*User { return s.users.all() }

// Permission finds a user's permissions in a vhost; without any, the user may not enter it.
func (s *State) Permission(user, vhost string) (*Permission, bool) {
	return s.permissions.get(key(vhost, user))
}

// Permissions are all permissions in a vhost by ascending user.
func (s *State) Permissions(vhost string) []*Permission { return under(&s.permissions, key(vhost)) }

// Policy finds a policy or an operator policy.
func (s *State) Policy(vhost, name string, operator bool) (*Policy, bool) {
	return s.policyTable(operator).get(key(vhost, name))
}

// Policies are a vhost's policies or operator policies by ascending priority, then name, as list_policies shows them.
func (s *State) Policies(vhost string, operator bool) []*Policy {
	ps := under(s.policyTable(operator), key(vhost))
	slices.SortStableFunc(ps, func(a, b *Policy) int { return cmp.Compare(a.Priority, b.Priority) })
	return ps
}

func (s *State) policyTable(operator bool) *table[string, *Policy] {
	if operator {
		return &s.operators
	}
	return &s.policies
}

// HashPassword is RabbitMQ's rabbit_password_hashing_sha256: the salt followed by SHA-256(salt + password). The salt has four
// random bytes.
func HashPassword(salt [4]byte, password string) []byte {
	sum := sha256.Sum256(append(salt[:], password...))
	return append(salt[:], sum[:]...)
}

// CheckPassword says whether the password fits; never if the user has none, nor if it is empty, as in RabbitMQ: users whom a certificate
// names are given an empty one. It does not take the time of the comparison into account: the hash is salted.
func (u *User) CheckPassword(password string) bool {
	const salt = 4
	if len(u.PasswordHash) < salt || password == "" {
		return false
	}
	salted := append(slices.Clone(u.PasswordHash[:salt]), password...)
	var sum []byte
	switch u.HashingAlgorithm() {
	case HashSHA256:
		h := sha256.Sum256(salted)
		sum = h[:]
	case HashSHA512:
		h := sha512.Sum512(salted)
		sum = h[:]
	case HashMD5:
		h := md5.Sum(salted)
		sum = h[:]
	default:
		return false
	}
	return slices.Equal(u.PasswordHash[salt:], sum)
}

// RabbitMQ's names of the ways to hash a password.
const (
	HashSHA256 = "rabbit_password_hashing_sha256"
	HashSHA512 = "rabbit_password_hashing_sha512"
	HashMD5    = "rabbit_password_hashing_md5" // of users that were made before RabbitMQ 3.6
)

// HashingAlgorithm is how the password was hashed, "" if there is no password or its hash has no known length.
func (u *User) HashingAlgorithm() string {
	switch len(u.PasswordHash) - 4 {
	case sha256.Size:
		return HashSHA256
	case sha512.Size:
		return HashSHA512
	case md5.Size:
		return HashMD5
	}
	return ""
}
