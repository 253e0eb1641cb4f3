package admin

import "context"

// Access is what operators do about users, virtual hosts, limits, parameters and definitions. Each change returns when every
// node that can be reached has applied it.
type Access interface {
	// AddUser creates a user with a password. Error: CodeAlreadyExists.
	AddUser(ctx context.Context, u Credentials) error
	// DeleteUser, ChangePassword, ClearPassword and SetUserTags: CodeNoSuchUser.
	DeleteUser(ctx context.Context, name string) error
	ChangePassword(ctx context.Context, u Credentials) error
	ClearPassword(ctx context.Context, name string) error
	SetUserTags(ctx context.Context, u UserInfo) error
	// Authenticate says whether the password is the user's. Error: CodeDenied, also for a user that does not exist.
	Authenticate(ctx context.Context, u Credentials) error

	// SetPermissions and SetTopicPermissions: CodeNoSuchVHost, CodeNoSuchUser, CodePattern with the pattern's fault.
	SetPermissions(ctx context.Context, p PermissionInfo) error
	SetTopicPermissions(ctx context.Context, p PermissionInfo) error
	// ClearPermissions and ClearTopicPermissions (of p.Exchange, or with p.All of all exchanges) succeed where there are
	// none. Errors: CodeNoSuchVHost, CodeNoSuchUser.
	ClearPermissions(ctx context.Context, p PermissionInfo) error
	ClearTopicPermissions(ctx context.Context, p PermissionInfo) error
	// ListPermissions and ListTopicPermissions. Errors: CodeNoSuchVHost, CodeNoSuchUser.
	ListPermissions(ctx context.Context, q AccessQuery) ([]PermissionInfo, error)
	ListTopicPermissions(ctx context.Context, q AccessQuery) ([]PermissionInfo, error)

	// PutVHost creates a virtual host, or changes nothing if there is one. Error: CodeValidation (a queue type).
	PutVHost(ctx context.Context, v VHostInfo) error
	// SetVHostTags and DeleteVHost (with everything in it, and its connections): CodeNoSuchVHost.
	SetVHostTags(ctx context.Context, v VHostInfo) error
	DeleteVHost(ctx context.Context, name string) error

	// SetVHostLimits replaces all limits of a vhost; no definition removes them. Errors: CodeNoSuchVHost, CodeBadJSON,
	// CodeValidation, and CodeNotFound when there is nothing to remove.
	SetVHostLimits(ctx context.Context, l LimitsInfo) error
	// SetUserLimits changes the limits that the definition names. Errors: CodeNoSuchUser, CodeBadJSON, CodeValidation.
	SetUserLimits(ctx context.Context, l LimitsInfo) error
	// ClearUserLimits removes one limit, or all for the name "all". Error: CodeNoSuchUser.
	ClearUserLimits(ctx context.Context, user, limit string) error
	// ListVHostLimits and ListUserLimits list those that have limits; one vhost or user that was asked for always.
	ListVHostLimits(ctx context.Context, q AccessQuery) ([]LimitsInfo, error)
	ListUserLimits(ctx context.Context, q AccessQuery) ([]LimitsInfo, error)

	// SetGlobalParameter sets a parameter; the value is JSON. Error: CodeBadJSON.
	SetGlobalParameter(ctx context.Context, p ParameterInfo) error
	// ClearGlobalParameter: CodeNotFound.
	ClearGlobalParameter(ctx context.Context, name string) error
	ListGlobalParameters(ctx context.Context) ([]ParameterInfo, error)

	// Environment is this node's configuration in effect: keys of rabbitmq.conf with their values, passwords hidden.
	Environment(ctx context.Context) ([]ParameterInfo, error)

	// Ring describes a queue's members. Errors: CodeNoSuchVHost, CodeNotFound.
	Ring(ctx context.Context, vhost, queue string) (RingInfo, error)

	// ExportDefinitions calls row for each object of the cluster that outlives a restart, section by section.
	ExportDefinitions(ctx context.Context, row func(Definition) error) error
	// ImportDefinitions makes what the definitions say, where it is not so yet, one section after the other in the order
	// given. What was made before a definition that is refused stays. Errors: those of the single changes.
	ImportDefinitions(ctx context.Context, all []Definition) error
}

// Credentials are a user's name and password.
type Credentials struct {
	Name     string `msgpack:"name"`
	Password string `msgpack:"password"`
}

// PermissionInfo is what a user may do in a virtual host, or, with Exchange, with a topic exchange's routing keys.
type PermissionInfo struct {
	User      string `msgpack:"user"`
	VHost     string `msgpack:"vhost"`
	Exchange  string `msgpack:"exchange"`
	Configure string `msgpack:"configure"`
	Write     string `msgpack:"write"`
	Read      string `msgpack:"read"`
	All       bool   `msgpack:"all"` // see ClearTopicPermissions
}

// AccessQuery asks for one user or one virtual host, or with neither for all.
type AccessQuery struct {
	User   string `msgpack:"user"`
	VHost  string `msgpack:"vhost"`
	ByUser bool   `msgpack:"by_user"`
	ByHost bool   `msgpack:"by_host"`
}

// LimitsInfo are the limits of a virtual host or a user, as a JSON object of numbers with sorted keys.
type LimitsInfo struct {
	Owner      string `msgpack:"owner"`
	Definition string `msgpack:"definition"`
}

// ParameterInfo is a runtime parameter; Value is JSON.
type ParameterInfo struct {
	Name  string `msgpack:"name"`
	Value string `msgpack:"value"`
}

// Definition is one object of a definitions file: JSON as RabbitMQ's tools write it in that section.
type Definition struct {
	Section string `msgpack:"section"`
	JSON    string `msgpack:"json"`
}

// Sections of a definitions file, in the order in which an import must go.
const (
	SectionUsers            = "users"
	SectionVHosts           = "vhosts"
	SectionPermissions      = "permissions"
	SectionTopicPermissions = "topic_permissions"
	SectionParameters       = "parameters"
	SectionGlobals          = "global_parameters"
	SectionPolicies         = "policies"
	SectionQueues           = "queues"
	SectionExchanges        = "exchanges"
	SectionBindings         = "bindings"
)

// RingInfo is a queue's ring: its members, and what the metadata would decide if its master's node went down now.
type RingInfo struct {
	Policy     string       `msgpack:"policy" json:"policy"` // name; empty: none
	Mode       string       `msgpack:"mode" json:"mode"`     // ha-mode; empty: not mirrored
	Count      int          `msgpack:"count" json:"count"`   // exactly
	Nodes      []string     `msgpack:"nodes" json:"nodes"`   // nodes
	Status     string       `msgpack:"status" json:"status"` // running, down
	Master     string       `msgpack:"master" json:"master"` // of a queue that is down, the last one
	Epoch      uint64       `msgpack:"epoch" json:"epoch"`
	View       uint64       `msgpack:"view" json:"view"`
	Members    []RingMember `msgpack:"members" json:"members"` // in the order of the ring, then those outside of it
	OnFailure  Successor    `msgpack:"on_failure" json:"on_failure"`
	OnShutdown Successor    `msgpack:"on_shutdown" json:"on_shutdown"`
	// Recoverers are the nodes that may go on with a queue that is down.
	Recoverers []string `msgpack:"recoverers" json:"recoverers"`
	// LossEpoch is the term that began with the last promotion that cost messages, 0: none did. Lost and LostMore as in QueueInfo, if
	// LossKnown: the master answered.
	LossEpoch uint64 `msgpack:"loss_epoch" json:"loss_epoch"`
	LossKnown bool   `msgpack:"loss_known" json:"loss_known"`
	Lost      uint64 `msgpack:"lost" json:"lost"`
	LostMore  bool   `msgpack:"lost_more" json:"lost_more"`
}

// RingMember is one node's place in a queue. Received and Persisted count operations of the master's stream in its
// present term, if it Answered.
type RingMember struct {
	Node         string `msgpack:"node" json:"node"`
	NodeStatus   string `msgpack:"node_status" json:"node_status"` // running, draining, stopped, down
	State        string `msgpack:"state" json:"state"`             // up, away, joining
	Synchronised bool   `msgpack:"synchronised" json:"synchronised"`
	Age          uint64 `msgpack:"age" json:"age"`           // when it entered; lower is older
	Replaces     string `msgpack:"replaces" json:"replaces"` // the node it stands in for
	Answered     bool   `msgpack:"answered" json:"answered"`
	Received     uint64 `msgpack:"received" json:"received"`
	Persisted    uint64 `msgpack:"persisted" json:"persisted"`
	// Missing is how many messages that are older than its joining a mirror lacks that is not synchronised, More that it may lack
	// others.
	Missing     int   `msgpack:"missing" json:"missing"`
	More        bool  `msgpack:"more" json:"more"`
	Window      int64 `msgpack:"window" json:"window"` // bytes that it has in hand, of WindowLimit; see broker.Watermark
	WindowLimit int64 `msgpack:"window_limit" json:"window_limit"`
}

// Successor is who would be promoted: nobody if Node is empty. Loss: it is not synchronised.
type Successor struct {
	Node string `msgpack:"node" json:"node"`
	Loss bool   `msgpack:"loss" json:"loss"`
}
