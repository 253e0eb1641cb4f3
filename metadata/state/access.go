package state

// Read access. Every method may be called by readers while no Apply runs (the owner's lock); what they return is immutable
// and may be kept.
//
//	(*State) Queue(vhost, name string) (*Queue, bool)
//	(*State) QueueByID(id uint64) (*Queue, bool)
//	(*State) Queues() []*Queue                        // ascending ID
//	(*State) VhostQueues(vhost string) []*Queue       // ascending name
//	(*State) Exchange(vhost, name string) (*Exchange, bool)
//	(*State) Exchanges(vhost string) []*Exchange      // ascending name
//	(*State) Bindings(vhost string) []*Binding        // ascending source, kind, destination, routing key
//	(*State) Node(name string) (*Node, bool)
//	(*State) Nodes() []*Node                          // ascending name
//	(*State) Vhost(name string) (*Vhost, bool)
//	(*State) Vhosts() []*Vhost
//	(*State) User(name string) (*User, bool)
//	(*State) Users() []*User
//	(*State) Permission(user, vhost string) (*Permission, bool)
//	(*State) Permissions(vhost string) []*Permission
//	(*State) Policies(vhost string, operator bool) []*Policy  // ascending priority, then name
//	(*State) ClusterID() string
//	(*State) ClusterName() string
