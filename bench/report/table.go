package report

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"warren/bench/measure"
)

// WriteJSON writes a result as one line.
func WriteJSON(w io.Writer, r *measure.Result) error {
	b, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("write a result: %w", err)
	}
	if _, err := w.Write(append(b, '\n')); err != nil {
		return fmt.Errorf("write a result: %w", err)
	}
	return nil
}

// ReadJSON reads the results that WriteJSON wrote.
func ReadJSON(r io.Reader) ([]*measure.Result, error) {
	var out []*measure.Result
	for dec := json.NewDecoder(r); dec.More(); {
		var one measure.Result
		if err := dec.Decode(&one); err != nil {
			return nil, fmt.Errorf("read result %d: %w", len(out)+1, err)
		}
		out = append(out, &one)
	}
	return out, nil
}

// Row is all runs of the same work on the same target.
type Row struct {
	Label string // peer and queue
	Work  string // what distinguishes it from other work of the same measurement
	Runs  []*measure.Result
}

// Rows puts the runs of the same work together, in the order of their first appearance.
func Rows(results []*measure.Result) []Row {
	var rows []Row
	for _, r := range results {
		label, work := strings.TrimSpace(fmt.Sprintf("%s %s", r.Peer, r.Queue)), work(r)
		i := slices.IndexFunc(rows, func(o Row) bool { return o.Label == label && o.Work == work })
		if i < 0 {
			i = len(rows)
			rows = append(rows, Row{Label: label, Work: work})
		}
		rows[i].Runs = append(rows[i].Runs, r)
	}
	return rows
}

// work says in short what was done, in the flags' words.
func work(r *measure.Result) string {
	p := r.Params
	switch r.Measurement {
	case "ring":
		return r.Ring.Name
	case "rolling":
		return fmt.Sprintf("rolling restart, %.0f/s × %d B", p.Rate, p.Size)
	case "failover":
		out := fmt.Sprintf("failover %s, %.0f/s × %d B", p.Failure, p.Rate, p.Size)
		if p.Victim != "" {
			out += ", Raft " + p.Victim
		}
		return out
	case "sync":
		out := fmt.Sprintf("sync %d × %d B", p.Depth, p.Size)
		if p.BatchSize > 0 {
			out += fmt.Sprintf(", batch %d", p.BatchSize)
		}
		return strings.TrimSuffix(out+", "+p.Strategy, ", ")
	}
	out := fmt.Sprintf("%s %d×(-x %d -y %d) -c %d -s %d", r.Measurement, p.Queues, p.Publishers, p.Consumers, p.Window, p.Size)
	if p.Rate > 0 {
		out += fmt.Sprintf(" --rate %.0f", p.Rate)
	}
	return out
}

// column is a figure of a result.
type column struct {
	title  string
	format string
	value  func(*measure.Result) float64
}

func loadColumns() []column {
	return []column{
		{"confirmed/s", "%.0f", func(r *measure.Result) float64 { return r.ConfirmedPerSec }},
		{"delivered/s", "%.0f", func(r *measure.Result) float64 { return r.DeliveredPerSec }},
		{"confirm p50 ms", "%.2f", func(r *measure.Result) float64 { return r.Confirm.P50 }},
		{"p99", "%.2f", func(r *measure.Result) float64 { return r.Confirm.P99 }},
		{"max", "%.1f", func(r *measure.Result) float64 { return r.Confirm.Max }},
		{"end to end p50", "%.2f", func(r *measure.Result) float64 { return r.EndToEnd.P50 }},
		{"p99", "%.2f", func(r *measure.Result) float64 { return r.EndToEnd.P99 }},
		{"nodes µs/msg", "%.1f", func(r *measure.Result) float64 { return r.CPU }},
		{"client µs/msg", "%.1f", func(r *measure.Result) float64 { return r.ClientCPU }},
		{"nodes MB", "%.0f", func(r *measure.Result) float64 { return r.MB }},
		{"generator late ms", "%.1f", func(r *measure.Result) float64 { return r.GeneratorLate }},
	}
}

func failoverColumns() []column {
	return []column{
		{"first confirm ms", "%.0f", func(r *measure.Result) float64 { return r.Failover.FirstConfirm }},
		{"first delivery ms", "%.0f", func(r *measure.Result) float64 { return r.Failover.FirstDelivery }},
		{"longest confirm ms", "%.0f", func(r *measure.Result) float64 { return r.Confirm.Max }},
		{"longest end to end ms", "%.0f", func(r *measure.Result) float64 { return r.EndToEnd.Max }},
		{"lost", "%.0f", func(r *measure.Result) float64 { return float64(r.Failover.Lost) }},
		{"refused", "%.0f", func(r *measure.Result) float64 { return float64(r.Counts.Nacked) }},
		{"doubled", "%.0f", func(r *measure.Result) float64 { return float64(r.Failover.Doubled) }},
		{"of these unmarked", "%.0f", func(r *measure.Result) float64 { return float64(r.Failover.Unmarked) }},
		{"the Raft leader too", "%.0f", func(r *measure.Result) float64 { return one(r.Failover.Led) }},
	}
}

// one is 1 for true: the median of the runs is 1 if most were so.
func one(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func ringColumns() []column {
	unit := func(title, format, unit string) column {
		return column{title, format, func(r *measure.Result) float64 { return r.Ring.Figures[unit] }}
	}
	return []column{
		unit("messages/s", "%.0f", "msg/s"), unit("MB/s", "%.0f", "MB/s"), unit("CPU µs/msg", "%.2f", "cpu-µs/msg"),
		unit("sent B/msg", "%.0f", "sent-B/msg"), unit("p50 ms", "%.2f", "p50-ms"), unit("p99 ms", "%.2f", "p99-ms"),
	}
}

func syncColumns() []column {
	return []column{
		{"seconds", "%.2f", func(r *measure.Result) float64 { return r.Sync.Seconds }},
		{"listed after", "%.2f", func(r *measure.Result) float64 { return r.Sync.Listed }},
		{"messages/s", "%.0f", func(r *measure.Result) float64 { return r.Sync.PerSec }},
		{"MB/s", "%.0f", func(r *measure.Result) float64 { return r.Sync.MBPerSec }},
		{"confirm max ms before", "%.0f", func(r *measure.Result) float64 { return r.Sync.Queue.ConfirmBefore.Max }},
		{"during", "%.0f", func(r *measure.Result) float64 { return r.Sync.Queue.ConfirmDuring.Max }},
		{"delivery max ms before", "%.0f", func(r *measure.Result) float64 { return r.Sync.Queue.DeliverBefore.Max }},
		{"during", "%.0f", func(r *measure.Result) float64 { return r.Sync.Queue.DeliverDuring.Max }},
		{"neighbour's confirm before", "%.0f", func(r *measure.Result) float64 { return r.Sync.Neighbour.ConfirmBefore.Max }},
		{"during", "%.0f", func(r *measure.Result) float64 { return r.Sync.Neighbour.ConfirmDuring.Max }},
		{"delivery before", "%.0f", func(r *measure.Result) float64 { return r.Sync.Neighbour.DeliverBefore.Max }},
		{"during", "%.0f", func(r *measure.Result) float64 { return r.Sync.Neighbour.DeliverDuring.Max }},
		{"confirmed/s before", "%.0f", func(r *measure.Result) float64 { return r.Sync.Queue.ConfirmedBefore }},
		{"during", "%.0f", func(r *measure.Result) float64 { return r.Sync.Queue.ConfirmedDuring }},
		{"CPU s", "%.1f", func(r *measure.Result) float64 { return r.Sync.CPUSeconds }},
		{"nodes MB", "%.0f", func(r *measure.Result) float64 { return r.Sync.MB }},
	}
}

func columnsFor(measurement string) []column {
	switch measurement {
	case "failover", "rolling":
		return failoverColumns()
	case "sync":
		return syncColumns()
	case "ring":
		return ringColumns()
	default:
		return loadColumns()
	}
}

// median is the middle value of the runs, with their least and greatest.
func median(runs []*measure.Result, value func(*measure.Result) float64) (mid, least, most float64) {
	var v []float64
	for _, r := range runs {
		v = append(v, value(r))
	}
	slices.Sort(v)
	n := len(v)
	return (v[(n-1)/2] + v[n/2]) / 2, v[0], v[n-1]
}

// Table writes the results, a table for each measurement, in plain text.
func Table(w io.Writer, results []*measure.Result) error {
	return tables(results, func(measurement string, header []string, lines [][]string) error {
		tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintln(tw, strings.Join(header, "\t"))
		for _, l := range lines {
			fmt.Fprintln(tw, strings.Join(l, "\t"))
		}
		fmt.Fprintln(tw)
		return tw.Flush()
	})
}

// Markdown writes the same tables in Markdown.
func Markdown(w io.Writer, results []*measure.Result) error {
	return tables(results, func(measurement string, header []string, lines [][]string) error {
		out := fmt.Sprintf("\n### %s\n\n| %s |\n|%s\n", measurement, strings.Join(header, " | "), strings.Repeat(" --- |", len(header)))
		for _, l := range lines {
			out += "| " + strings.Join(l, " | ") + " |\n"
		}
		_, err := io.WriteString(w, out)
		return err
	})
}

func tables(results []*measure.Result, write func(measurement string, header []string, lines [][]string) error) error {
	rows := Rows(results)
	for _, m := range []string{"throughput", "latency", "failover", "rolling", "sync", "ring"} {
		columns := columnsFor(m)
		header := []string{"target", "work", "runs"}
		for _, c := range columns {
			header = append(header, c.title)
		}
		var lines [][]string
		for _, row := range rows {
			if row.Runs[0].Measurement == m {
				lines = append(lines, line(row, columns))
			}
		}
		if len(lines) == 0 {
			continue
		}
		if err := write(m, header, lines); err != nil {
			return fmt.Errorf("write the table of %s: %w", m, err)
		}
	}
	return nil
}

func line(row Row, columns []column) []string {
	l := []string{row.Label, row.Work, fmt.Sprint(len(row.Runs))}
	for _, c := range columns {
		mid, least, most := median(row.Runs, c.value)
		cell := fmt.Sprintf(c.format, mid)
		if len(row.Runs) > 1 && least != most {
			cell += fmt.Sprintf(" ("+c.format+"–"+c.format+")", least, most)
		}
		l = append(l, cell)
	}
	return l
}
