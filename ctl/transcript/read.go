package transcript

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Command is one command line of a session and what it printed.
type Command struct {
	File           string
	Line           int // of the command in its file, from 1
	Node           string
	Text           string // as typed, without what comes before a pipe
	Stdin          string
	Stdout, Stderr string
	Status         int
}

// Read reads a session:
//
//	$ [rmq1] rabbitmqctl list_users       node that the tool talks to, and the command line
//	--- stdout
//	…                                     as printed; an ESC byte is written <ESC>
//	--- stderr: empty
//	--- exit 0
//
// A command may be fed: printf 'TEXT' | rabbitmqctl …, where TEXT may go over several lines. Everything else is commentary.
func Read(file string) ([]Command, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read a session: %w", err)
	}
	var all []Command
	var c *Command
	var into *string
	lines := strings.Split(string(content), "\n")
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		switch {
		case strings.HasPrefix(line, "$ ["):
			at := i
			for strings.Contains(line, "] printf '") && !strings.Contains(line, "' | ") && i+1 < len(lines) {
				i++
				line += "\n" + lines[i]
			}
			node, text, _ := strings.Cut(strings.TrimPrefix(line, "$ ["), "] ")
			all = append(all, Command{File: file, Line: at + 1, Node: node, Text: text})
			c, into = &all[len(all)-1], nil
			if fed, ok := strings.CutPrefix(text, "printf '"); ok {
				c.Stdin, c.Text, _ = strings.Cut(fed, "' | ")
			}
		case c == nil:
		case line == "--- stdout":
			into = &c.Stdout
		case line == "--- stderr":
			into = &c.Stderr
		case strings.HasPrefix(line, "--- exit "):
			status, _, _ := strings.Cut(strings.TrimPrefix(line, "--- exit "), " ")
			if c.Status, err = strconv.Atoi(status); err != nil {
				return nil, fmt.Errorf("%s:%d: exit status: %w", file, i+1, err)
			}
			c, into = nil, nil
		case strings.HasPrefix(line, "--- "):
			into = nil
		case into != nil:
			*into += strings.ReplaceAll(line, "<ESC>", "\x1b") + "\n"
		}
	}
	return all, nil
}

// Words splits a command line as a shell would: quotes, no substitutions.
func Words(line string) []string {
	var all []string
	var b strings.Builder
	in, quote := false, rune(0)
	for _, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			b.WriteRune(r)
		case r == '\'' || r == '"':
			quote, in = r, true
		case r == ' ':
			if in || b.Len() > 0 {
				all = append(all, b.String())
			}
			b.Reset()
			in = false
		default:
			b.WriteRune(r)
		}
	}
	if in || b.Len() > 0 {
		all = append(all, b.String())
	}
	return all
}
