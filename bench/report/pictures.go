package report

import (
	"errors"
	"fmt"
	"image/color"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"

	"warren/bench/measure"
)

const (
	pictureWidth  = 9 * vg.Inch
	pictureHeight = 4.5 * vg.Inch
	barThickness  = 18
)

// picture is a plot and the name of its files, without the ending.
type picture struct {
	name string
	plot *plot.Plot
}

// Pictures draws what the results give pictures for, each as SVG and PNG, into a directory, and gives the names of the PNGs.
func Pictures(dir string, results []*measure.Result) ([]string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make the directory of the pictures: %w", err)
	}
	var all []picture
	for _, draw := range []func([]Row) ([]picture, error){bars, overTime, stalls} {
		ps, err := draw(Rows(results))
		if err != nil {
			return nil, fmt.Errorf("draw: %w", err)
		}
		all = append(all, ps...)
	}
	var names []string
	for _, p := range all {
		for _, ending := range []string{"svg", "png"} {
			file := filepath.Join(dir, p.name+"."+ending)
			if err := p.plot.Save(pictureWidth, pictureHeight, file); err != nil {
				return nil, fmt.Errorf("write %s: %w", file, err)
			}
		}
		names = append(names, p.name+".png")
	}
	return names, nil
}

var notInNames = regexp.MustCompile(`[^a-z0-9]+`)

func fileName(s string) string {
	return strings.Trim(notInNames.ReplaceAllString(strings.ToLower(s), "-"), "-")
}

// bars are throughput and CPU microseconds per message, a pair of pictures for each work.
func bars(rows []Row) ([]picture, error) {
	var out []picture
	seen := map[string]bool{}
	for _, r := range rows {
		if r.Runs[0].Measurement != "throughput" || seen[r.Work] {
			continue
		}
		seen[r.Work] = true
		for _, f := range []struct {
			name, title string
			value       func(*measure.Result) float64
		}{
			{"throughput", "confirmed messages per second", func(r *measure.Result) float64 { return r.ConfirmedPerSec }},
			{"cpu", "CPU of all nodes per message, µs", func(r *measure.Result) float64 { return r.CPU }},
		} {
			p, err := barChart(rows, r.Work, f.title, f.value)
			if err != nil {
				return nil, err
			}
			out = append(out, picture{fileName(f.name + " " + strings.TrimPrefix(r.Work, "throughput ")), p})
		}
	}
	return out, nil
}

func barChart(rows []Row, work, title string, value func(*measure.Result) float64) (*plot.Plot, error) {
	p := plot.New()
	p.Title.Text, p.Y.Label.Text, p.Y.Min = work, title, 0
	var values plotter.Values
	var names []string
	for _, r := range rows {
		if r.Work != work {
			continue
		}
		mid, _, _ := median(r.Runs, value)
		values = append(values, mid)
		names = append(names, fmt.Sprintf("%s: %s", r.Label, short(mid)))
	}
	b, err := plotter.NewBarChart(values, vg.Points(barThickness*3))
	if err != nil {
		return nil, err
	}
	b.Color, b.LineStyle.Width = plotutil.Color(2), 0
	p.Add(b)
	p.NominalX(names...)
	return p, nil
}

// short is a figure without more digits than it is worth.
func short(v float64) string {
	if v >= 100 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.1f", v)
}

// overTime is latency over time with the synchronisation shaded, or around a failure, from the first run of each row.
func overTime(rows []Row) ([]picture, error) {
	var out []picture
	for _, row := range rows {
		r := row.Runs[0]
		name := fileName(row.Label + " " + row.Work)
		switch {
		case r.Sync != nil:
			for _, side := range []struct {
				name string
				b    measure.Beside
			}{{"queue", r.Sync.Queue}, {"neighbour", r.Sync.Neighbour}} {
				p, err := timeline(row.Label+": "+row.Work+" ("+side.name+")", side.b.ConfirmSeries, side.b.DeliverSeries, r.Sync)
				if err != nil {
					return nil, err
				}
				out = append(out, picture{name + "-" + side.name, p})
			}
		case r.Failover != nil:
			p, err := timeline(row.Label+": "+row.Work, r.ConfirmSeries, r.DeliverSeries, nil)
			if err != nil {
				return nil, err
			}
			out = append(out, picture{name, p})
		}
	}
	return out, nil
}

func timeline(title string, confirms, deliveries []measure.Point, s *measure.Sync) (*plot.Plot, error) {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, "seconds", "worst latency of 10 ms, ms"
	p.Y.Scale, p.Y.Tick.Marker, p.Legend.Top = plot.LogScale{}, plot.LogTicks{Prec: -1}, true
	least, most := 0.1, 10.0
	for _, pt := range append(append([]measure.Point{}, confirms...), deliveries...) {
		most = max(most, pt.MS)
	}
	if s != nil {
		shade, err := plotter.NewPolygon(plotter.XYs{{X: s.BeganAt, Y: least}, {X: s.EndedAt, Y: least}, {X: s.EndedAt, Y: most}, {X: s.BeganAt, Y: most}})
		if err != nil {
			return nil, err
		}
		shade.Color, shade.LineStyle.Width = color.RGBA{220, 220, 160, 255}, 0
		p.Add(shade)
		p.Legend.Add("synchronising", shade)
	}
	for i, l := range []struct {
		name   string
		points []measure.Point
	}{{"confirm", confirms}, {"delivery", deliveries}} {
		if len(l.points) == 0 {
			continue
		}
		var xy plotter.XYs
		for _, pt := range l.points {
			xy = append(xy, plotter.XY{X: pt.At, Y: max(pt.MS, least)})
		}
		line, err := plotter.NewLine(xy)
		if err != nil {
			return nil, err
		}
		line.Color = plotutil.Color(i)
		p.Add(line)
		p.Legend.Add(l.name, line)
	}
	p.Y.Min, p.Y.Max = least, most
	return p, nil
}

// stalls is the longest wait for a confirm against the queue's depth, a line for each target, body, strategy and batch size.
func stalls(rows []Row) ([]picture, error) {
	lines := map[string]plotter.XYs{}
	var names []string
	for _, row := range rows {
		r := row.Runs[0]
		if r.Sync == nil {
			continue
		}
		name := row.Label + strings.TrimPrefix(row.Work, fmt.Sprintf("sync %d", r.Params.Depth))
		if _, ok := lines[name]; !ok {
			names = append(names, name)
		}
		mid, _, _ := median(row.Runs, func(r *measure.Result) float64 { return r.Sync.Queue.ConfirmDuring.Max })
		lines[name] = append(lines[name], plotter.XY{X: float64(r.Params.Depth), Y: max(mid, 0.1)})
	}
	if len(names) == 0 {
		return nil, nil
	}
	p := plot.New()
	p.Title.Text = "longest wait for a confirm while the queue is synchronised"
	p.X.Label.Text, p.Y.Label.Text = "messages in the queue", "ms"
	p.Y.Scale, p.Y.Tick.Marker, p.Legend.Top, p.Legend.Left = plot.LogScale{}, plot.LogTicks{Prec: -1}, true, true
	p.X.Min = 0
	for i, name := range names {
		line, marks, err := plotter.NewLinePoints(lines[name])
		if err != nil {
			return nil, err
		}
		line.Color, marks.Color, marks.Shape = plotutil.Color(i), plotutil.Color(i), plotutil.Shape(i)
		p.Add(line, marks)
		p.Legend.Add(name, line, marks)
	}
	p.X.Max *= 1.1 // so that the marks of the deepest queue stand clear of the edge
	return []picture{{"sync-stall-against-depth", p}}, nil
}

// heading says where, when and on what the figures were seen.
func heading(w io.Writer, results []*measure.Result) error {
	var versions, machines []string
	var first, last time.Time
	for _, r := range results {
		if v := strings.TrimSpace(r.Peer + " " + r.Version); r.Version != "" && !slices.Contains(versions, v) {
			versions = append(versions, v)
		}
		if r.Machine != "" && !slices.Contains(machines, r.Machine) {
			machines = append(machines, r.Machine)
		}
		if first.IsZero() || r.Start.Before(first) {
			first = r.Start
		}
		if r.Start.After(last) {
			last = r.Start
		}
	}
	_, err := fmt.Fprintf(w, `# Whole clusters, beside RabbitMQ's

Written by warren-bench from its results: %d runs, from %s to %s (UTC), of %s on %s. The nodes of each cluster and
the client are on that one machine; where targets are compared they took turns. Messages are persistent unless it says otherwise,
mirrored queues have a copy on every node (`+"`ha-mode: all`"+`), every publish is confirmed, and every run checks that all that was
confirmed arrived. A synchronisation is proved by killing the master and counting what a mirror has.
`, len(results), first.UTC().Format("2006-01-02 15:04"), last.UTC().Format("15:04"), strings.Join(versions, " and "), strings.Join(machines, "; "))
	if err != nil {
		return fmt.Errorf("write the heading: %w", err)
	}
	return nil
}

// Document writes a page in Markdown: the aims and what was reached, the tables, the commands, and the pictures, which it draws
// into dir. failures are what it says about measurements that gave no result.
func Document(w io.Writer, dir string, results []*measure.Result, failures []string) error {
	names, err := Pictures(dir, results)
	if err != nil {
		return err
	}
	if err := heading(w, results); err != nil {
		return err
	}
	if err := Headline(w, results); err != nil {
		return err
	}
	if err := Markdown(w, results); err != nil {
		return err
	}
	var out strings.Builder
	if len(failures) > 0 {
		out.WriteString("\nWhat failed, and is missing above or has fewer runs:\n\n```\n" + strings.Join(failures, "\n") + "\n```\n")
	}
	out.WriteString("\nCommands:\n\n```\n")
	seen := map[string]bool{}
	for _, r := range results {
		line := fmt.Sprintf("%s   # %s %s; %s", r.Command, r.Peer, r.Version, r.Machine)
		if !seen[line] {
			seen[line] = true
			out.WriteString(line + "\n")
		}
	}
	out.WriteString("```\n")
	for _, n := range names {
		fmt.Fprintf(&out, "\n![%s](%s)\n", strings.TrimSuffix(n, ".png"), filepath.ToSlash(filepath.Join(filepath.Base(dir), n)))
	}
	_, err = io.WriteString(w, out.String())
	return errors.Join(err)
}
