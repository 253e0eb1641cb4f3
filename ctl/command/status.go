package command

import (
	"context"
	"fmt"
	"math"
	"strings"

	"warren/ctl/admin"
	"warren/ctl/format"
)

// The node's account of itself.

func statusCommand() command {
	return command{
		name: "status", tools: []string{toolCtl, toolDiagnostics}, group: "Observability",
		summary: "Shows a node's version, uptime, memory, alarms, files, totals and listeners",
		usage:   "[--unit <unit>] [--timeout <timeout>]",
		details: []string{
			"--unit <bytes | mb | gb>", "unit of the memory figures",
			"--formatter <json>", "alternative formatter (JSON)",
		},
		guides: []string{"monitoring"},
		flags:  []flag{{"unit", 0, flagText}},
		check: func(c *call) error {
			if err := checkUnit(c); err != nil {
				return err
			}
			return documentFormat(c)
		},
		banner: func(c *call) []string { return []string{fmt.Sprintf("Status of node %s ...", c.node)} },
		run: withClient(func(ctx context.Context, c *call, node Client) error {
			s, err := node.Status(ctx)
			if err != nil {
				return err
			}
			if c.format == format.FormatJSON {
				return c.document(statusDocument(s))
			}
			unit := "gb"
			if u, ok := c.text["unit"]; ok {
				unit = u
			}
			print(c.env.Stdout, statusText(s, unit))
			return nil
		}),
	}
}

// documentFormat refuses the formats that only lists have.
func documentFormat(c *call) error {
	if c.format == format.FormatCSV || c.format == format.FormatPretty || c.format == format.FormatErlang {
		return &exitError{exitSoftware, fmt.Sprintf("Error: the formatter %s is for lists; %s has table and json", c.format, c.command.name)}
	}
	return nil
}

// unitSize is the number of bytes in a unit, or 0.
func unitSize(unit string) float64 {
	switch unit {
	case "bytes":
		return 1
	case "mb":
		return 1e6
	case "gb":
		return 1e9
	}
	return 0
}

// inUnit writes an amount as RabbitMQ does: four decimals at most, at least one.
func inUnit(n uint64, unit string) string {
	if unit == "bytes" {
		return fmt.Sprintf("%d bytes", n)
	}
	return fixedText(float64(n)/unitSize(unit), 1e4) + " " + unit
}

func fixedText(f, scale float64) string {
	return format.Text(math.Round(f*scale) / scale)
}

// sections writes titles in bold and lines below them.
type sections struct{ b strings.Builder }

func (s *sections) title(text string) {
	if s.b.Len() > 0 {
		s.b.WriteByte('\n')
	}
	s.b.WriteString(format.Bold(text) + "\n\n")
}

func (s *sections) line(f string, args ...any) { fmt.Fprintf(&s.b, f+"\n", args...) }

// lines writes all, or "(none)".
func (s *sections) lines(all []string) {
	if len(all) == 0 {
		s.line("(none)")
	}
	for _, l := range all {
		s.line("%s", l)
	}
}

func (s *sections) bullets(all []string) {
	if len(all) == 0 {
		s.line("(none)")
	}
	for _, l := range all {
		s.line(" * %s", l)
	}
}

func statusText(n admin.NodeStatus, unit string) string {
	s := &sections{}
	s.title("Runtime")
	s.line("OS PID: %d", n.PID)
	s.line("OS: %s", n.OS)
	s.line("Uptime (seconds): %d", int64(n.Uptime.Seconds()))
	s.line("Is under maintenance?: %t", n.Maintenance)
	s.line("Warren version: %s", n.Version)
	s.line("Node name: %s", n.Name)
	s.line("State: %s", n.State)
	s.line("Go version: %s", n.GoVersion)
	s.line("Goroutines: %d", n.Goroutines)
	s.title("Data directory")
	s.line("Node data directory: %s", n.DataDir)
	s.line("Raft data directory: %s", n.RaftDir)
	s.title("Config files")
	s.bullets(n.ConfigFiles)
	s.title("Log file(s)")
	s.bullets(n.LogFiles)
	s.title("Alarms")
	s.lines(n.Alarms)
	statusResources(s, n, unit)
	s.title("Totals")
	s.line("Connection count: %d", n.Connections)
	s.line("Queue count: %d", n.Queues)
	s.line("Virtual host count: %d", n.VHosts)
	s.title("Listeners")
	for _, l := range n.Listeners {
		s.line("Interface: %s, port: %d, protocol: %s, purpose: %s", l.Interface, l.Port, l.Protocol, l.Purpose)
	}
	return s.b.String()
}

func statusResources(s *sections, n admin.NodeStatus, unit string) {
	s.title("Memory")
	s.line("Total memory used: %s", inUnit(n.MemoryTotal, unit))
	if n.MemoryLimit > 0 {
		s.line("Memory high watermark setting: %s, computed to: %s", n.MemoryLimitSetting, inUnit(n.MemoryLimit, unit))
	}
	if len(n.MemoryBreakdown) > 0 {
		s.line("")
	}
	for _, share := range n.MemoryBreakdown {
		percent := 0.0
		if n.MemoryTotal > 0 {
			percent = 100 * float64(share.Bytes) / float64(n.MemoryTotal)
		}
		s.line("%s: %s (%s %%)", share.Name, inUnit(share.Bytes, unit), fixedText(percent, 100))
	}
	s.title("File Descriptors")
	s.line("Total: %d, limit: %d", n.FilesUsed, n.FilesLimit)
	s.line("Sockets: %d, limit: %d", n.SocketsUsed, n.SocketsLimit)
	s.title("Free Disk Space")
	s.line("Low free disk space watermark: %s", inUnit(n.DiskFreeLimit, unit))
	s.line("Free disk space: %s", inUnit(n.DiskFree, unit))
}

// statusDocument has RabbitMQ's keys where there is something to say, and ours.
func statusDocument(n admin.NodeStatus) map[string]any {
	memory := map[string]any{"total": map[string]any{"rss": n.MemoryTotal}, "strategy": "rss"}
	for _, share := range n.MemoryBreakdown {
		memory[share.Name] = share.Bytes
	}
	return map[string]any{
		"alarms":                           textList(n.Alarms),
		"config_files":                     textList(n.ConfigFiles),
		"data_directory":                   n.DataDir,
		"disk_free":                        n.DiskFree,
		"disk_free_limit":                  n.DiskFreeLimit,
		"file_descriptors":                 fileDescriptors(n),
		"go_version":                       n.GoVersion,
		"goroutines":                       n.Goroutines,
		"is_under_maintenance":             n.Maintenance,
		"listeners":                        listenerDocuments(n.Listeners),
		"log_files":                        textList(n.LogFiles),
		"memory":                           memory,
		"node":                             n.Name,
		"os":                               n.OS,
		"pid":                              n.PID,
		"product_name":                     "Warren",
		"product_version":                  n.Version,
		"raft_data_directory":              n.RaftDir,
		"state":                            n.State,
		"totals":                           map[string]any{"connection_count": n.Connections, "queue_count": n.Queues, "virtual_host_count": n.VHosts},
		"uptime":                           int64(n.Uptime.Seconds()),
		"vm_memory_high_watermark_limit":   n.MemoryLimit,
		"vm_memory_high_watermark_setting": n.MemoryLimitSetting,
		"vm_memory_calculation_strategy":   "rss",
		"warren_version":                   n.Version,
	}
}

func fileDescriptors(n admin.NodeStatus) map[string]any {
	return map[string]any{
		"sockets_limit": n.SocketsLimit, "sockets_used": n.SocketsUsed, "total_limit": n.FilesLimit, "total_used": n.FilesUsed,
	}
}

func listenerDocuments(all []admin.Listener) format.List {
	list := make(format.List, len(all))
	for i, l := range all {
		list[i] = map[string]any{"interface": l.Interface, "node": l.Node, "port": l.Port, "protocol": l.Protocol, "purpose": l.Purpose}
	}
	return list
}
