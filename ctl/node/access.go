package node

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"warren/ctl/admin"
	"warren/metadata/policy"
	"warren/metadata/state"
)

// propose has one command executed.
func (a *adapter) propose(ctx context.Context, cmd state.Command) error {
	_, err := a.n.Propose(ctx, cmd)
	return accessRefusal(err)
}

// accessRefusal is refusal, with the names of users and vhosts alone as texts.
func accessRefusal(err error) error {
	var refused *state.Error
	if errors.As(err, &refused) && refused.Code == state.CodeNotFound {
		switch refused.Kind {
		case state.KindUser:
			return &admin.Error{Code: admin.CodeNoSuchUser, Text: refused.Name}
		case state.KindVhost:
			return noVhost(refused.Name)
		}
	}
	return refusal(err)
}

// hash salts and hashes a password; an empty one is a password too, with which nobody may log in.
func hash(password string) ([]byte, error) {
	var salt [4]byte
	if _, err := rand.Read(salt[:]); err != nil {
		return nil, fmt.Errorf("draw a salt: %w", err)
	}
	return state.HashPassword(salt, password), nil
}

// AddUser implements admin.Node.
func (a *adapter) AddUser(ctx context.Context, u admin.Credentials) error {
	h, err := hash(u.Password)
	if err != nil {
		return err
	}
	return a.propose(ctx, &state.PutUser{User: state.User{Name: u.Name, PasswordHash: h}, Create: true})
}

// DeleteUser implements admin.Node.
func (a *adapter) DeleteUser(ctx context.Context, name string) error {
	return a.propose(ctx, &state.DeleteUser{Name: name})
}

// ChangePassword implements admin.Node.
func (a *adapter) ChangePassword(ctx context.Context, u admin.Credentials) error {
	h, err := hash(u.Password)
	if err != nil {
		return err
	}
	return a.propose(ctx, &state.SetUserPassword{Name: u.Name, PasswordHash: h})
}

// ClearPassword implements admin.Node.
func (a *adapter) ClearPassword(ctx context.Context, name string) error {
	return a.propose(ctx, &state.SetUserPassword{Name: name})
}

// SetUserTags implements admin.Node.
func (a *adapter) SetUserTags(ctx context.Context, u admin.UserInfo) error {
	return a.propose(ctx, &state.SetUserTags{Name: u.Name, Tags: u.Tags})
}

// Authenticate implements admin.Node.
func (a *adapter) Authenticate(_ context.Context, c admin.Credentials) error {
	var user *state.User
	a.n.View(func(s *state.State) { user, _ = s.User(c.Name) })
	if user == nil || c.Password == "" || !user.CheckPassword(c.Password) {
		return admin.Errorf(admin.CodeDenied, "user '%s' - invalid credentials", c.Name)
	}
	return nil
}

// checkPatterns refuses the first pattern that does not compile.
func checkPatterns(patterns ...string) error {
	for _, p := range patterns {
		if text, offset, bad := policy.PatternFault(p); bad {
			return admin.Errorf(admin.CodePattern, "%s\n%s\n%d", p, text, offset)
		}
	}
	return nil
}

// SetPermissions implements admin.Node.
func (a *adapter) SetPermissions(ctx context.Context, p admin.PermissionInfo) error {
	if err := checkPatterns(p.Configure, p.Write, p.Read); err != nil {
		return err
	}
	return a.propose(ctx, &state.SetPermission{Permission: state.Permission{
		User: p.User, Vhost: p.VHost, Configure: p.Configure, Write: p.Write, Read: p.Read,
	}})
}

// SetTopicPermissions implements admin.Node.
func (a *adapter) SetTopicPermissions(ctx context.Context, p admin.PermissionInfo) error {
	if err := checkPatterns(p.Write, p.Read); err != nil {
		return err
	}
	return a.propose(ctx, &state.SetTopicPermission{Permission: state.TopicPermission{
		User: p.User, Vhost: p.VHost, Exchange: p.Exchange, Write: p.Write, Read: p.Read,
	}})
}

// ClearPermissions implements admin.Node.
func (a *adapter) ClearPermissions(ctx context.Context, p admin.PermissionInfo) error {
	return a.propose(ctx, &state.ClearPermission{User: p.User, Vhost: p.VHost})
}

// ClearTopicPermissions implements admin.Node.
func (a *adapter) ClearTopicPermissions(ctx context.Context, p admin.PermissionInfo) error {
	return a.propose(ctx, &state.ClearTopicPermission{User: p.User, Vhost: p.VHost, Exchange: p.Exchange, All: p.All})
}

// exists checks the user or vhost that a query names.
func exists(s *state.State, q admin.AccessQuery) error {
	if _, ok := s.User(q.User); q.ByUser && !ok {
		return &admin.Error{Code: admin.CodeNoSuchUser, Text: q.User}
	}
	if _, ok := s.Vhost(q.VHost); q.ByHost && !ok {
		return noVhost(q.VHost)
	}
	return nil
}

func selects(q admin.AccessQuery, user, vhost string) bool {
	return (!q.ByUser || q.User == user) && (!q.ByHost || q.VHost == vhost)
}

// ListPermissions implements admin.Node.
func (a *adapter) ListPermissions(_ context.Context, q admin.AccessQuery) (out []admin.PermissionInfo, err error) {
	a.n.View(func(s *state.State) {
		if err = exists(s, q); err != nil {
			return
		}
		for _, p := range s.AllPermissions() {
			if selects(q, p.User, p.Vhost) {
				out = append(out, admin.PermissionInfo{User: p.User, VHost: p.Vhost, Configure: p.Configure, Write: p.Write, Read: p.Read})
			}
		}
	})
	return out, err
}

// ListTopicPermissions implements admin.Node.
func (a *adapter) ListTopicPermissions(_ context.Context, q admin.AccessQuery) (out []admin.PermissionInfo, err error) {
	a.n.View(func(s *state.State) {
		if err = exists(s, q); err != nil {
			return
		}
		for _, p := range s.TopicPermissions() {
			if selects(q, p.User, p.Vhost) {
				out = append(out, admin.PermissionInfo{User: p.User, VHost: p.Vhost, Exchange: p.Exchange, Write: p.Write, Read: p.Read})
			}
		}
	})
	return out, err
}

// PutVHost implements admin.Node.
func (a *adapter) PutVHost(ctx context.Context, v admin.VHostInfo) error {
	if !slices.Contains([]string{"", "classic", "quorum", "stream"}, v.DefaultQueueType) {
		return admin.Errorf(admin.CodeRefused, "invalid_queue_type")
	}
	if a.hasVhost(v.Name) {
		return nil
	}
	return a.propose(ctx, &state.PutVhost{
		Name: v.Name, Description: v.Description, Tags: v.Tags, DefaultQueueType: v.DefaultQueueType,
	})
}

// SetVHostTags implements admin.Node.
func (a *adapter) SetVHostTags(ctx context.Context, v admin.VHostInfo) error {
	var now *state.Vhost
	a.n.View(func(s *state.State) { now, _ = s.Vhost(v.Name) })
	if now == nil {
		return noVhost(v.Name)
	}
	return a.propose(ctx, &state.PutVhost{
		Name: now.Name, Description: now.Description, Tags: v.Tags, DefaultQueueType: now.DefaultQueueType,
	})
}

// DeleteVHost implements admin.Node.
func (a *adapter) DeleteVHost(ctx context.Context, name string) error {
	return a.propose(ctx, &state.DeleteVhost{Name: name})
}

// limits reads a definition of limits.
func limits(text, what string, known ...string) ([]state.Limit, error) {
	values, err := policy.ParseLimits(text, what, known...)
	if errors.Is(err, policy.ErrJSON) {
		return nil, admin.Errorf(admin.CodeBadJSON, "%v", err)
	} else if err != nil {
		return nil, refusal(err)
	}
	out := make([]state.Limit, len(values))
	for i, v := range values {
		out[i] = state.Limit{Name: v.Name, Value: v.Value}
	}
	return out, nil
}

// SetVHostLimits implements admin.Node.
func (a *adapter) SetVHostLimits(ctx context.Context, l admin.LimitsInfo) error {
	if l.Definition == "" {
		var now *state.Limits
		a.n.View(func(s *state.State) { now = s.VhostLimits(l.Owner) })
		if now == nil {
			return admin.Errorf(admin.CodeNotFound, "limits of vhost %s", l.Owner)
		}
		return a.propose(ctx, &state.SetVhostLimits{Vhost: l.Owner})
	}
	all, err := limits(l.Definition, "limits", state.LimitConnections, state.LimitQueues)
	if err != nil {
		return err
	}
	return a.propose(ctx, &state.SetVhostLimits{Vhost: l.Owner, Limits: all})
}

// SetUserLimits implements admin.Node.
func (a *adapter) SetUserLimits(ctx context.Context, l admin.LimitsInfo) error {
	all, err := limits(l.Definition, "user-limits", state.LimitConnections, state.LimitChannels)
	if err != nil {
		return err
	}
	return a.propose(ctx, &state.SetUserLimits{User: l.Owner, Limits: all})
}

// ClearUserLimits implements admin.Node.
func (a *adapter) ClearUserLimits(ctx context.Context, user, limit string) error {
	return a.propose(ctx, &state.SetUserLimits{User: user, Clear: []string{limit}, All: limit == "all"})
}

// limitsJSON is {} for none.
func limitsJSON(l *state.Limits) string {
	var b strings.Builder
	b.WriteByte('{')
	if l != nil {
		for i, one := range l.Limits {
			if i > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, "%q:%d", one.Name, one.Value)
		}
	}
	b.WriteByte('}')
	return b.String()
}

func allLimits(all []*state.Limits) (out []admin.LimitsInfo) {
	for _, l := range all {
		out = append(out, admin.LimitsInfo{Owner: l.Owner, Definition: limitsJSON(l)})
	}
	return out
}

// ListVHostLimits implements admin.Node.
func (a *adapter) ListVHostLimits(_ context.Context, q admin.AccessQuery) (out []admin.LimitsInfo, err error) {
	a.n.View(func(s *state.State) {
		err = exists(s, q)
		switch {
		case err != nil:
		case !q.ByHost:
			out = allLimits(s.AllVhostLimits())
		case s.VhostLimits(q.VHost) != nil:
			out = allLimits([]*state.Limits{s.VhostLimits(q.VHost)})
		}
	})
	return out, err
}

// ListUserLimits implements admin.Node.
func (a *adapter) ListUserLimits(_ context.Context, q admin.AccessQuery) (out []admin.LimitsInfo, err error) {
	a.n.View(func(s *state.State) {
		err = exists(s, q)
		switch {
		case err != nil:
		case !q.ByUser:
			out = allLimits(s.AllUserLimits())
		default:
			out = []admin.LimitsInfo{{Owner: q.User, Definition: limitsJSON(s.UserLimits(q.User))}}
		}
	})
	return out, err
}

// globalCommand is the command that sets a global parameter.
func globalCommand(name, value string) (state.Command, error) {
	value, err := policy.CompactJSON(value)
	if err != nil {
		return nil, admin.Errorf(admin.CodeBadJSON, "%v", err)
	}
	cmd := &state.SetGlobalParameter{Name: name, Value: value}
	if name == state.ClusterNameParameter && json.Unmarshal([]byte(value), &cmd.Text) != nil {
		return nil, admin.Errorf(admin.CodeValidation, "cluster_name should be binary, actually was %s", value)
	}
	return cmd, nil
}

// SetGlobalParameter implements admin.Node.
func (a *adapter) SetGlobalParameter(ctx context.Context, p admin.ParameterInfo) error {
	cmd, err := globalCommand(p.Name, p.Value)
	if err != nil {
		return err
	}
	return a.propose(ctx, cmd)
}

// ClearGlobalParameter implements admin.Node.
func (a *adapter) ClearGlobalParameter(ctx context.Context, name string) error {
	return a.propose(ctx, &state.ClearGlobalParameter{Name: name})
}

// ListGlobalParameters implements admin.Node: the cluster's identity is shown as RabbitMQ does, besides those that were set.
func (a *adapter) ListGlobalParameters(context.Context) (out []admin.ParameterInfo, _ error) {
	a.n.View(func(s *state.State) {
		for _, g := range s.Globals() {
			out = append(out, admin.ParameterInfo{Name: g.Name, Value: g.Value})
		}
		out = append(out, admin.ParameterInfo{Name: "internal_cluster_id", Value: fmt.Sprintf("%q", "warren-cluster-id-"+s.ClusterID())})
	})
	return out, nil
}
