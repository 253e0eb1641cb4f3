package command

import (
	"slices"
	"strings"

	"warren/ctl/admin"
	"warren/ctl/format"
)

// column is one column that a list offers of rows of type R. figure: its value may not be known for a row.
type column[R any] struct {
	name   string
	value  func(R) any
	figure bool
}

func fixed[R any](name string, value func(R) any) column[R] {
	return column[R]{name: name, value: value}
}

func figure[R any](name string, value func(R) any) column[R] {
	return column[R]{name: name, value: value, figure: true}
}

// columnNames are the names of a list's columns, for its help.
func columnNames[R any](table []column[R]) string {
	names := make([]string, len(table))
	for i, c := range table {
		names[i] = c.name
	}
	slices.Sort(names)
	return "must be one of " + strings.Join(names, ", ")
}

// choose finds the columns that a command line asks for, or those named by standard.
func choose[R any](table []column[R], args, standard []string) ([]column[R], error) {
	names := columns(args)
	if len(names) == 0 {
		names = standard
	}
	var chosen []column[R]
	var unknown []string
	for _, name := range names {
		i := slices.IndexFunc(table, func(c column[R]) bool { return c.name == name })
		if i < 0 {
			unknown = append(unknown, name)
			continue
		}
		chosen = append(chosen, table[i])
	}
	if len(unknown) > 0 {
		slices.Sort(unknown)
		return nil, badArguments("Info key(s) %s are not supported", strings.Join(unknown, ","))
	}
	return chosen, nil
}

// headers are the names of columns, values those of one row.
func headers[R any](chosen []column[R]) []string {
	names := make([]string, len(chosen))
	for i, c := range chosen {
		names[i] = c.name
	}
	return names
}

func values[R any](chosen []column[R], row R) []any {
	all := make([]any, len(chosen))
	for i, c := range chosen {
		all[i] = c.value(row)
	}
	return all
}

// printRows prints a list of which all rows are known.
func printRows[R any](c *call, chosen []column[R], all []R, whole bool) error {
	rows := c.rows(headers(chosen), whole)
	for _, row := range all {
		if err := rows.Row(values(chosen, row)); err != nil {
			return err
		}
	}
	return rows.Close()
}

// checkColumns makes a check function of a table of columns.
func checkColumns[R any](table []column[R]) func(*call) error {
	return func(c *call) error {
		_, err := choose(table, c.args, nil)
		return err
	}
}

// Values of the admin protocol in the form that format takes.

func pidValue(p admin.PID) any {
	if p == (admin.PID{}) {
		return nil
	}
	return format.PID(p)
}

func pidList(all []admin.PID) format.List {
	list := make(format.List, len(all))
	for i, p := range all {
		list[i] = format.PID(p)
	}
	return list
}

func argumentTable(args []admin.Argument) format.Table {
	table := make(format.Table, len(args))
	for i, a := range args {
		table[i] = format.Argument{Name: a.Name, Kind: string(a.Value.Kind), Value: fieldValue(a.Value)}
	}
	return table
}

func fieldValue(v admin.Value) any {
	switch v.Kind {
	case admin.KindBool:
		return v.Bool
	case admin.KindFloat, admin.KindDouble:
		return v.Float
	case admin.KindTable:
		return argumentTable(v.Table)
	case admin.KindArray:
		list := make(format.List, len(v.List))
		for i, e := range v.List {
			list[i] = fieldValue(e)
		}
		return list
	case admin.KindLongStr, admin.KindBinary:
		return v.Text
	case admin.KindVoid:
		return nil
	}
	return v.Int
}

func textList(all []string) format.List {
	list := make(format.List, len(all))
	for i, s := range all {
		list[i] = s
	}
	return list
}
