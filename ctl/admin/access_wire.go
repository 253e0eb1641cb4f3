package admin

import (
	"context"

	"github.com/vmihailenco/msgpack/v5"
)

// The requests of Access, both ends.
const (
	cmdAddUser               = "add_user"
	cmdDeleteUser            = "delete_user"
	cmdChangePassword        = "change_password"
	cmdClearPassword         = "clear_password"
	cmdSetUserTags           = "set_user_tags"
	cmdAuthenticate          = "authenticate_user"
	cmdSetPermissions        = "set_permissions"
	cmdSetTopicPermissions   = "set_topic_permissions"
	cmdClearPermissions      = "clear_permissions"
	cmdClearTopicPermissions = "clear_topic_permissions"
	cmdListPermissions       = "list_permissions"
	cmdListTopicPermissions  = "list_topic_permissions"
	cmdPutVHost              = "put_vhost"
	cmdSetVHostTags          = "set_vhost_tags"
	cmdDeleteVHost           = "delete_vhost"
	cmdSetVHostLimits        = "set_vhost_limits"
	cmdSetUserLimits         = "set_user_limits"
	cmdClearUserLimits       = "clear_user_limits"
	cmdListVHostLimits       = "list_vhost_limits"
	cmdListUserLimits        = "list_user_limits"
	cmdSetGlobal             = "set_global_parameter"
	cmdClearGlobal           = "clear_global_parameter"
	cmdListGlobals           = "list_global_parameters"
	cmdRing                  = "ring"
	cmdEnvironment           = "environment"
	cmdExport                = "export_definitions"
	cmdImport                = "import_definitions"
)

// plain makes a handler of a method without an answer.
func plain[A any](call func(Node, context.Context, A) error) handler {
	return none(func(ctx context.Context, n Node, a A) error { return call(n, ctx, a) })
}

// byName makes a handler of a method about one thing.
func byName(call func(Node, context.Context, string) error) handler {
	return none(func(ctx context.Context, n Node, a named) error { return call(n, ctx, a.Name) })
}

// listed makes a handler of a method that lists.
func listed[A, R any](call func(Node, context.Context, A) ([]R, error)) handler {
	return many(func(ctx context.Context, n Node, a A) ([]R, error) { return call(n, ctx, a) })
}

func accessHandlers() map[string]handler {
	return map[string]handler{
		cmdAddUser:               plain(Node.AddUser),
		cmdDeleteUser:            byName(Node.DeleteUser),
		cmdChangePassword:        plain(Node.ChangePassword),
		cmdClearPassword:         byName(Node.ClearPassword),
		cmdSetUserTags:           plain(Node.SetUserTags),
		cmdAuthenticate:          plain(Node.Authenticate),
		cmdSetPermissions:        plain(Node.SetPermissions),
		cmdSetTopicPermissions:   plain(Node.SetTopicPermissions),
		cmdClearPermissions:      plain(Node.ClearPermissions),
		cmdClearTopicPermissions: plain(Node.ClearTopicPermissions),
		cmdListPermissions:       listed(Node.ListPermissions),
		cmdListTopicPermissions:  listed(Node.ListTopicPermissions),
		cmdPutVHost:              plain(Node.PutVHost),
		cmdSetVHostTags:          plain(Node.SetVHostTags),
		cmdDeleteVHost:           byName(Node.DeleteVHost),
		cmdSetVHostLimits:        plain(Node.SetVHostLimits),
		cmdSetUserLimits:         plain(Node.SetUserLimits),
		cmdClearUserLimits: none(func(ctx context.Context, n Node, l LimitsInfo) error {
			return n.ClearUserLimits(ctx, l.Owner, l.Definition)
		}),
		cmdListVHostLimits: listed(Node.ListVHostLimits),
		cmdListUserLimits:  listed(Node.ListUserLimits),
		cmdSetGlobal:       plain(Node.SetGlobalParameter),
		cmdClearGlobal:     byName(Node.ClearGlobalParameter),
		cmdListGlobals: many(func(ctx context.Context, n Node, _ nothing) ([]ParameterInfo, error) {
			return n.ListGlobalParameters(ctx)
		}),
		cmdRing: one(func(ctx context.Context, n Node, a named) (RingInfo, error) { return n.Ring(ctx, a.VHost, a.Name) }),
		cmdEnvironment: many(func(ctx context.Context, n Node, _ nothing) ([]ParameterInfo, error) {
			return n.Environment(ctx)
		}),
		cmdExport: func(ctx context.Context, node Node, _ msgpack.RawMessage, row func(any) error) error {
			return node.ExportDefinitions(ctx, func(d Definition) error { return row(d) })
		},
		cmdImport: plain(Node.ImportDefinitions),
	}
}

// AddUser implements Node.
func (c *Client) AddUser(ctx context.Context, u Credentials) error { return c.ask(ctx, cmdAddUser, u) }

// DeleteUser implements Node.
func (c *Client) DeleteUser(ctx context.Context, name string) error {
	return c.ask(ctx, cmdDeleteUser, named{Name: name})
}

// ChangePassword implements Node.
func (c *Client) ChangePassword(ctx context.Context, u Credentials) error {
	return c.ask(ctx, cmdChangePassword, u)
}

// ClearPassword implements Node.
func (c *Client) ClearPassword(ctx context.Context, name string) error {
	return c.ask(ctx, cmdClearPassword, named{Name: name})
}

// SetUserTags implements Node.
func (c *Client) SetUserTags(ctx context.Context, u UserInfo) error {
	return c.ask(ctx, cmdSetUserTags, u)
}

// Authenticate implements Node.
func (c *Client) Authenticate(ctx context.Context, u Credentials) error {
	return c.ask(ctx, cmdAuthenticate, u)
}

// SetPermissions implements Node.
func (c *Client) SetPermissions(ctx context.Context, p PermissionInfo) error {
	return c.ask(ctx, cmdSetPermissions, p)
}

// SetTopicPermissions implements Node.
func (c *Client) SetTopicPermissions(ctx context.Context, p PermissionInfo) error {
	return c.ask(ctx, cmdSetTopicPermissions, p)
}

// ClearPermissions implements Node.
func (c *Client) ClearPermissions(ctx context.Context, p PermissionInfo) error {
	return c.ask(ctx, cmdClearPermissions, p)
}

// ClearTopicPermissions implements Node.
func (c *Client) ClearTopicPermissions(ctx context.Context, p PermissionInfo) error {
	return c.ask(ctx, cmdClearTopicPermissions, p)
}

// ListPermissions implements Node.
func (c *Client) ListPermissions(ctx context.Context, q AccessQuery) ([]PermissionInfo, error) {
	return list[PermissionInfo](ctx, c, cmdListPermissions, q)
}

// ListTopicPermissions implements Node.
func (c *Client) ListTopicPermissions(ctx context.Context, q AccessQuery) ([]PermissionInfo, error) {
	return list[PermissionInfo](ctx, c, cmdListTopicPermissions, q)
}

// PutVHost implements Node.
func (c *Client) PutVHost(ctx context.Context, v VHostInfo) error { return c.ask(ctx, cmdPutVHost, v) }

// SetVHostTags implements Node.
func (c *Client) SetVHostTags(ctx context.Context, v VHostInfo) error {
	return c.ask(ctx, cmdSetVHostTags, v)
}

// DeleteVHost implements Node.
func (c *Client) DeleteVHost(ctx context.Context, name string) error {
	return c.ask(ctx, cmdDeleteVHost, named{Name: name})
}

// SetVHostLimits implements Node.
func (c *Client) SetVHostLimits(ctx context.Context, l LimitsInfo) error {
	return c.ask(ctx, cmdSetVHostLimits, l)
}

// SetUserLimits implements Node.
func (c *Client) SetUserLimits(ctx context.Context, l LimitsInfo) error {
	return c.ask(ctx, cmdSetUserLimits, l)
}

// ClearUserLimits implements Node.
func (c *Client) ClearUserLimits(ctx context.Context, user, limit string) error {
	return c.ask(ctx, cmdClearUserLimits, LimitsInfo{Owner: user, Definition: limit})
}

// ListVHostLimits implements Node.
func (c *Client) ListVHostLimits(ctx context.Context, q AccessQuery) ([]LimitsInfo, error) {
	return list[LimitsInfo](ctx, c, cmdListVHostLimits, q)
}

// ListUserLimits implements Node.
func (c *Client) ListUserLimits(ctx context.Context, q AccessQuery) ([]LimitsInfo, error) {
	return list[LimitsInfo](ctx, c, cmdListUserLimits, q)
}

// SetGlobalParameter implements Node.
func (c *Client) SetGlobalParameter(ctx context.Context, p ParameterInfo) error {
	return c.ask(ctx, cmdSetGlobal, p)
}

// ClearGlobalParameter implements Node.
func (c *Client) ClearGlobalParameter(ctx context.Context, name string) error {
	return c.ask(ctx, cmdClearGlobal, named{Name: name})
}

// ListGlobalParameters implements Node.
func (c *Client) ListGlobalParameters(ctx context.Context) ([]ParameterInfo, error) {
	return list[ParameterInfo](ctx, c, cmdListGlobals, nothing{})
}

// Ring implements Node.
func (c *Client) Ring(ctx context.Context, vhost, queue string) (RingInfo, error) {
	return single[RingInfo](ctx, c, cmdRing, named{vhost, queue})
}

// Environment implements Node.
func (c *Client) Environment(ctx context.Context) ([]ParameterInfo, error) {
	return list[ParameterInfo](ctx, c, cmdEnvironment, nothing{})
}

// ExportDefinitions implements Node: rows are given as they arrive.
func (c *Client) ExportDefinitions(ctx context.Context, row func(Definition) error) error {
	return streamed(ctx, c, cmdExport, nothing{}, row)
}

// ImportDefinitions implements Node.
func (c *Client) ImportDefinitions(ctx context.Context, all []Definition) error {
	return c.ask(ctx, cmdImport, all)
}
