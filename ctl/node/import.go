package node

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	"warren/ctl/admin"
	"warren/dataplane/amqp"
	"warren/metadata/policy"
	"warren/metadata/state"
)

// ImportDefinitions implements admin.Node: the commands of one section go to the metadata many at a time, and a section waits for
// the one before it.
func (a *adapter) ImportDefinitions(ctx context.Context, all []admin.Definition) error {
	for start := 0; start < len(all); {
		end := start
		var first, second []state.Command // a user's limits come after the user
		for ; end < len(all) && all[end].Section == all[start].Section; end++ {
			some, err := a.commandsOf(all[end])
			if err != nil {
				return accessRefusal(err)
			}
			if len(some) > 0 {
				first, second = append(first, some[0]), append(second, some[1:]...)
			}
		}
		var err error
		if all[start].Section == admin.SectionPolicies || all[start].Section == admin.SectionParameters {
			err = a.inTurn(ctx, first) // each has every name of its vhost matched again
		} else if err = a.n.ProposeAll(ctx, first); err == nil {
			err = a.n.ProposeAll(ctx, second)
		}
		if err != nil {
			return accessRefusal(err)
		}
		start = end
	}
	return nil
}

func (a *adapter) inTurn(ctx context.Context, cmds []state.Command) error {
	for _, cmd := range cmds {
		if _, err := a.n.Propose(ctx, cmd); err != nil {
			return err
		}
	}
	return nil
}

// read decodes a definition.
func read[T any](d admin.Definition) (T, error) {
	var v T
	if err := json.Unmarshal([]byte(d.JSON), &v); err != nil {
		return v, admin.Errorf(admin.CodeValidation, "%s: %v in %s", d.Section, err, d.JSON)
	}
	return v, nil
}

func one(cmd state.Command, err error) ([]state.Command, error) {
	if err != nil {
		return nil, err
	}
	return []state.Command{cmd}, nil
}

// checkVHost refuses what lies in a virtual host and names none, as in a file that RabbitMQ exported of a single one.
func checkVHost(d admin.Definition) error {
	switch d.Section {
	case admin.SectionPermissions, admin.SectionTopicPermissions, admin.SectionParameters, admin.SectionPolicies,
		admin.SectionQueues, admin.SectionExchanges, admin.SectionBindings:
	default:
		return nil
	}
	v, err := read[struct{ VHost *string }](d)
	if err == nil && v.VHost == nil {
		err = admin.Errorf(admin.CodeValidation, "%s: no vhost in %s. A file that was exported of a single virtual host names none: "+
			"export the definitions of the whole cluster, or add a \"vhost\" to each", d.Section, d.JSON)
	}
	return err
}

// commandsOf are the commands that make what a definition says.
func (a *adapter) commandsOf(d admin.Definition) ([]state.Command, error) {
	if err := checkVHost(d); err != nil {
		return nil, err
	}
	switch d.Section {
	case admin.SectionUsers:
		return importUser(d)
	case admin.SectionVHosts:
		v, err := read[vhostJSON](d)
		return one(&state.PutVhost{Name: v.Name, Description: v.Metadata.Description, Tags: v.Metadata.Tags,
			DefaultQueueType: v.Metadata.DefaultQueueType}, err)
	case admin.SectionPermissions:
		p, err := read[permissionJSON](d)
		if err == nil {
			err = checkPatterns(p.Configure, p.Write, p.Read)
		}
		return one(&state.SetPermission{Permission: state.Permission{
			User: p.User, Vhost: p.Vhost, Configure: p.Configure, Write: p.Write, Read: p.Read,
		}}, err)
	case admin.SectionTopicPermissions:
		p, err := read[topicPermissionJSON](d)
		if err == nil {
			err = checkPatterns(p.Write, p.Read)
		}
		return one(&state.SetTopicPermission{Permission: state.TopicPermission{
			User: p.User, Vhost: p.Vhost, Exchange: p.Exchange, Write: p.Write, Read: p.Read,
		}}, err)
	case admin.SectionParameters:
		return a.importParameter(d)
	case admin.SectionGlobals:
		return importGlobal(d)
	case admin.SectionPolicies:
		p, err := read[policyJSON](d)
		if err != nil {
			return nil, err
		}
		return one(a.policyCommand(p, false))
	}
	return a.topologyCommands(d)
}

func (a *adapter) topologyCommands(d admin.Definition) ([]state.Command, error) {
	switch d.Section {
	case admin.SectionQueues:
		q, err := read[queueJSON](d)
		if err != nil {
			return nil, err
		}
		cmd, err := a.queueCommand(q)
		if cmd == nil {
			return nil, err
		}
		return one(cmd, err)
	case admin.SectionExchanges:
		x, err := read[exchangeJSON](d)
		if err != nil {
			return nil, err
		}
		args, err := tableOf(x.Arguments)
		if err != nil || a.hasExchange(x.Vhost, x.Name) {
			return nil, err
		}
		return one(a.n.ExchangeCommand(x.Vhost, amqp.ExchangeDeclare{
			Name: x.Name, Type: x.Type, Durable: x.Durable, AutoDelete: x.AutoDelete, Internal: x.Internal, Arguments: args,
		}))
	case admin.SectionBindings:
		b, err := read[bindingJSON](d)
		if err != nil {
			return nil, err
		}
		args, err := tableOf(b.Arguments)
		if err != nil || a.dangling(b) {
			return nil, err
		}
		return one(a.n.BindCommand(b.Vhost, amqp.Binding{
			Source: b.Source, Destination: b.Destination, RoutingKey: b.RoutingKey, Arguments: args,
		}, state.Kind(b.DestinationType)))
	}
	return nil, nil // a section of another product's file, which RabbitMQ passes over too
}

func (a *adapter) queueCommand(q queueJSON) (state.Command, error) {
	if !a.hasVhost(q.Vhost) {
		return nil, noVhost(q.Vhost)
	}
	args, err := tableOf(q.Arguments)
	if err != nil {
		return nil, err
	}
	if _, err := a.queue(q.Vhost, q.Name); err == nil {
		return nil, nil // a queue that is there stays as it is
	}
	if _, given := args["x-queue-type"]; !given && q.Type == "quorum" && a.cfg.Config.QuorumAsMirrored {
		args = maps.Clone(args)
		if args == nil {
			args = amqp.Table{}
		}
		args["x-queue-type"] = q.Type
	} else if !given && q.Type != "" && q.Type != "classic" {
		return nil, admin.Errorf(admin.CodeRefused, "queue '%s' in vhost '%s' is of type %s; Warren has classic queues only", q.Name, q.Vhost, q.Type)
	}
	return a.n.QueueCommand(q.Vhost, amqp.QueueDeclare{Name: q.Name, Durable: q.Durable, AutoDelete: q.AutoDelete, Arguments: args})
}

func (a *adapter) hasExchange(vhost, name string) (ok bool) {
	a.n.View(func(s *state.State) { _, ok = s.Exchange(vhost, name) })
	return ok
}

// dangling says whether an end of a binding is not there: RabbitMQ's files have bindings of objects that it does not export.
func (a *adapter) dangling(b bindingJSON) bool {
	missing := !a.hasExchange(b.Vhost, b.Source)
	if b.DestinationType == string(state.KindExchange) {
		missing = missing || !a.hasExchange(b.Vhost, b.Destination)
	} else if _, err := a.queue(b.Vhost, b.Destination); err != nil {
		missing = true
	}
	if missing {
		a.cfg.Log.Warn("a binding of a definitions file leads from or to something that is not there; it is left out",
			"vhost", b.Vhost, "exchange", b.Source, "destination", b.Destination)
	}
	return missing
}

func importUser(d admin.Definition) ([]state.Command, error) {
	u, err := read[userJSON](d)
	if err != nil {
		return nil, err
	}
	user := state.User{Name: u.Name, Tags: u.Tags}
	switch {
	case u.Hash != "":
		if user.PasswordHash, err = base64.StdEncoding.DecodeString(u.Hash); err != nil {
			return nil, admin.Errorf(admin.CodeValidation, "password_hash of user %s is not base64: %v", u.Name, err)
		}
		if a := user.HashingAlgorithm(); a == "" || u.Algorithm != "" && u.Algorithm != a {
			return nil, admin.Errorf(admin.CodeValidation, "password_hash of user %s has %d bytes, which no hash by %s has",
				u.Name, len(user.PasswordHash), u.Algorithm)
		}
	case u.Password != nil && *u.Password != "":
		if user.PasswordHash, err = hash(*u.Password); err != nil {
			return nil, err
		}
	}
	cmds := []state.Command{&state.PutUser{User: user}}
	if len(u.Limits) > 0 {
		set := &state.SetUserLimits{User: u.Name}
		for name, value := range u.Limits {
			if name != state.LimitConnections && name != state.LimitChannels {
				return nil, admin.Errorf(admin.CodeValidation, "Unrecognised term %s in user-limits of user %s", name, u.Name)
			}
			set.Limits = append(set.Limits, state.Limit{Name: name, Value: value})
		}
		cmds = append(cmds, set)
	}
	return cmds, nil
}

func importGlobal(d admin.Definition) ([]state.Command, error) {
	p, err := read[parameterJSON](d)
	if err != nil {
		return nil, err
	}
	if p.Name == "internal_cluster_id" {
		return nil, nil // this cluster has its own
	}
	return one(globalCommand(p.Name, string(p.Value)))
}

// importParameter takes the runtime parameters that mean something here: limits of vhosts and operator policies.
func (a *adapter) importParameter(d admin.Definition) ([]state.Command, error) {
	p, err := read[parameterJSON](d)
	if err != nil {
		return nil, err
	}
	switch p.Component {
	case componentLimits:
		all, err := limits(string(p.Value), "limits", state.LimitConnections, state.LimitQueues)
		return one(&state.SetVhostLimits{Vhost: p.Vhost, Limits: all}, err)
	case componentOperator:
		value, err := read[policyJSON](admin.Definition{Section: d.Section, JSON: string(p.Value)})
		if err != nil {
			return nil, err
		}
		value.Name, value.Vhost, value.Definition = p.Name, p.Vhost, objectOf(value.Definition)
		return one(a.policyCommand(value, true))
	}
	return nil, admin.Errorf(admin.CodeValidation, "component %s not found", p.Component)
}

// objectOf reads a definition that may be a list of pairs: so RabbitMQ 3.10 writes those of operator policies.
func objectOf(text json.RawMessage) json.RawMessage {
	var pairs [][2]json.RawMessage
	if json.Unmarshal(text, &pairs) != nil {
		return text
	}
	object := map[string]json.RawMessage{}
	for _, p := range pairs {
		var key string
		if json.Unmarshal(p[0], &key) != nil {
			return text
		}
		object[key] = p[1]
	}
	out, err := json.Marshal(object)
	if err != nil {
		return text
	}
	return out
}

// policyCommand checks a policy of a file; a fault is told with the policy's name, as RabbitMQ does.
func (a *adapter) policyCommand(p policyJSON, operator bool) (state.Command, error) {
	definition, err := policy.Parse(string(p.Definition), operator)
	applyTo := policy.ApplyTo(p.ApplyTo)
	if applyTo == "" {
		applyTo = policy.ApplyToAll
	}
	if err == nil {
		err = policy.Check(p.Pattern, applyTo)
	}
	var invalid *policy.ValidationError
	switch {
	case errors.As(err, &invalid):
		return nil, admin.Errorf(admin.CodeValidation, "%s\n (%s/%s)", invalid.Text, p.Vhost, p.Name)
	case err != nil:
		return nil, fmt.Errorf("policy %s of vhost %s: %w", p.Name, p.Vhost, err)
	case !a.hasVhost(p.Vhost):
		return nil, noVhost(p.Vhost)
	}
	return &state.SetPolicy{Operator: operator, Policy: state.Policy{
		Vhost: p.Vhost, Name: p.Name, Pattern: p.Pattern, ApplyTo: applyTo, Priority: p.Priority, Definition: definition,
	}}, nil
}
