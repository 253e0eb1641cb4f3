package command

import (
	"context"
	"fmt"
	"strings"

	"warren/ctl/admin"
	"warren/ctl/format"
)

// The cluster as one node sees it.

func clusterStatusCommand() command {
	return command{
		name: "cluster_status", tools: []string{toolCtl, toolDiagnostics}, group: "Cluster",
		summary: "Shows the cluster's members, which of them run, their versions, alarms and listeners",
		usage:   "[--timeout <timeout>]",
		guides:  []string{"clustering", "cluster-formation", "monitoring"},
		check:   documentFormat,
		banner:  func(c *call) []string { return []string{fmt.Sprintf("Cluster status of node %s ...", c.node)} },
		run: withClient(func(ctx context.Context, c *call, node Client) error {
			s, err := node.ClusterStatus(ctx)
			if err != nil {
				return err
			}
			if c.format == format.FormatJSON {
				return c.document(clusterDocument(s))
			}
			print(c.env.Stdout, clusterText(s))
			return nil
		}),
	}
}

// members are the names of the nodes that keep is true for.
func members(s admin.ClusterStatus, keep func(admin.NodeInfo) bool) []string {
	var names []string
	for _, n := range s.Nodes {
		if keep(n) {
			names = append(names, n.Name)
		}
	}
	return names
}

func running(n admin.NodeInfo) bool { return n.Running() }

// alarmTexts are the alarms' own lines, which name their nodes.
func alarmTexts(alarms []admin.NodeText) (lines []string) {
	for _, a := range alarms {
		lines = append(lines, a.Text)
	}
	return lines
}

func maintenance(n admin.NodeInfo) string {
	if n.Status == "draining" {
		return "marked for maintenance"
	}
	return "not under maintenance"
}

func clusterText(cluster admin.ClusterStatus) string {
	s := &sections{}
	s.title("Basics")
	s.line("Cluster name: %s", cluster.ClusterName)
	if !cluster.HasLeader {
		s.line("Metadata: no leader; nothing can be declared or promoted until a majority of the voters can reach each other")
	}
	if without := members(cluster, func(n admin.NodeInfo) bool { return !n.Voter }); len(without) > 0 && len(without) < len(cluster.Nodes) {
		s.line("Without a vote on the metadata: %s", strings.Join(without, ", "))
	}
	if cluster.Paused != "" {
		s.line("This node is paused: %s", cluster.Paused)
	}
	s.title("Disk Nodes")
	s.lines(members(cluster, func(n admin.NodeInfo) bool { return !n.Witness }))
	if witnesses := members(cluster, func(n admin.NodeInfo) bool { return n.Witness }); len(witnesses) > 0 {
		s.title("Witness Nodes")
		s.lines(witnesses)
	}
	s.title("Running Nodes")
	s.lines(members(cluster, running))
	s.title("Versions")
	for _, n := range cluster.Nodes {
		if n.Running() {
			s.line("%s: Warren %s", n.Name, n.Version)
		}
	}
	s.title("Maintenance status")
	for _, n := range cluster.Nodes {
		s.line("Node: %s, status: %s", n.Name, maintenance(n))
	}
	s.title("Alarms")
	s.lines(alarmTexts(cluster.Alarms))
	s.title("Network Partitions")
	s.lines(nodeTexts(cluster.Unreachable, "Node "+cluster.Node+" cannot communicate with %s (%s)"))
	s.title("Listeners")
	for _, l := range cluster.Listeners {
		s.line("Node: %s, interface: %s, port: %d, protocol: %s, purpose: %s", l.Node, l.Interface, l.Port, l.Protocol, l.Purpose)
	}
	s.title("Feature flags")
	flags := make([]string, len(cluster.FeatureFlags))
	for i, f := range cluster.FeatureFlags {
		flags[i] = fmt.Sprintf("Flag: %s, state: %s", f.Name, f.State)
	}
	s.lines(flags)
	return s.b.String()
}

func nodeTexts(all []admin.NodeText, form string) []string {
	texts := make([]string, len(all))
	for i, t := range all {
		texts[i] = fmt.Sprintf(form, t.Node, t.Text)
	}
	return texts
}

func clusterDocument(s admin.ClusterStatus) map[string]any {
	versions, status, listeners := map[string]any{}, map[string]any{}, map[string]any{}
	for _, n := range s.Nodes {
		status[n.Name] = maintenance(n)
		if n.Running() {
			versions[n.Name] = map[string]any{"rabbitmq_name": "Warren", "rabbitmq_version": n.Version}
		}
		var own []admin.Listener
		for _, l := range s.Listeners {
			if l.Node == n.Name {
				own = append(own, l)
			}
		}
		listeners[n.Name] = listenerDocuments(own)
	}
	leader := ""
	for _, n := range s.Nodes {
		if n.Leader {
			leader = n.Name
		}
	}
	partitions := map[string]any{}
	if len(s.Unreachable) > 0 {
		list := format.List{}
		for _, t := range s.Unreachable {
			list = append(list, t.Node)
		}
		partitions[s.Node] = list
	}
	return map[string]any{
		"alarms":             textList(alarmTexts(s.Alarms)),
		"cluster_name":       s.ClusterName,
		"disk_nodes":         textList(members(s, func(n admin.NodeInfo) bool { return !n.Witness })),
		"feature_flags":      flagDocuments(s.FeatureFlags),
		"metadata_leader":    leader,
		"metadata_voters":    textList(members(s, func(n admin.NodeInfo) bool { return n.Voter })),
		"listeners":          listeners,
		"maintenance_status": status,
		"partitions":         partitions,
		"paused":             s.Paused,
		"ram_nodes":          format.List{},
		"running_nodes":      textList(members(s, running)),
		"versions":           versions,
		"witness_nodes":      textList(members(s, func(n admin.NodeInfo) bool { return n.Witness })),
	}
}

func flagDocuments(all []admin.FeatureFlag) format.List {
	list := make(format.List, len(all))
	for i, f := range all {
		list[i] = map[string]any{
			"name": f.Name, "state": f.State, "stability": f.Stability, "desc": f.Description, "doc_url": "", "provided_by": "warren",
		}
	}
	return list
}
