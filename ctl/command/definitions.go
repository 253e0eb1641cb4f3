package command

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"warren/ctl/admin"
)

// Export and import of definitions: files of RabbitMQ's form, in both directions.

const groupDefinitions = "Definitions"

func definitionCommands() []command {
	return []command{exportDefinitionsCommand(), importDefinitionsCommand()}
}

// importOrder are the sections of a file in the order of an import. Exchanges come before queues, whose arguments may name them.
func importOrder() []string {
	return []string{
		admin.SectionUsers, admin.SectionVHosts, admin.SectionPermissions, admin.SectionTopicPermissions, admin.SectionParameters,
		admin.SectionGlobals, admin.SectionPolicies, admin.SectionExchanges, admin.SectionQueues, admin.SectionBindings,
	}
}

// definitionsVersion is the version of RabbitMQ whose files have the form that is written.
const definitionsVersion = "3.10.8"

func definitionFormat(c *call) error {
	switch c.text["format"] {
	case "", "json":
		return nil
	case "erlang":
		return &usageError{status: exitDataErr, text: "Bad argument: Warren reads and writes definitions in JSON only"}
	}
	return &usageError{status: exitDataErr, text: "Bad argument: Format should be either json or erlang"}
}

func definitionFlags() []flag {
	return []flag{{"format", 0, flagText}, {"skip-if-unchanged", 0, flagBool}}
}

func exportDefinitionsCommand() command {
	return command{
		name: "export_definitions", tools: []string{toolCtl}, group: groupDefinitions,
		summary: "Writes users, virtual hosts, permissions, policies, queues, exchanges and bindings to a JSON file",
		usage:   `<file_path | "-"> [--format <json | erlang>] [--timeout <timeout>]`,
		details: []string{
			"<file>", "file to write; - is standard output",
			"--format", "form of the file; only json is known",
		},
		guides: []string{"definitions"}, flags: definitionFlags()[:1], least: 1, most: 1, running: true,
		check: func(c *call) error {
			if err := definitionFormat(c); err != nil {
				return err
			}
			dir := filepath.Dir(c.args[0])
			if info, err := os.Stat(dir); c.args[0] != "-" && (err != nil || !info.IsDir()) {
				return &usageError{status: exitDataErr, text: fmt.Sprintf("Bad argument: Directory %s does not exist", dir)}
			}
			return nil
		},
		banner: func(c *call) []string {
			if c.args[0] == "-" {
				return nil
			}
			return []string{fmt.Sprintf(`Exporting definitions in JSON to a file at "%s" ...`, c.args[0])}
		},
		run: withClient(exportDefinitions),
	}
}

func exportDefinitions(ctx context.Context, c *call, node Client) error {
	all := map[string][]json.RawMessage{}
	for _, s := range importOrder() {
		all[s] = []json.RawMessage{}
	}
	err := node.ExportDefinitions(ctx, func(d admin.Definition) error {
		all[d.Section] = append(all[d.Section], json.RawMessage(d.JSON))
		return nil
	})
	if err != nil {
		return err
	}
	file := map[string]any{"rabbit_version": definitionsVersion, "rabbitmq_version": definitionsVersion, "product_name": "Warren", "product_version": Version}
	for s, objects := range all {
		file[s] = objects
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(file); err != nil {
		return fmt.Errorf("encode definitions: %w", err)
	}
	if c.args[0] == "-" {
		print(c.env.Stdout, b.String())
		return nil
	}
	// There are password hashes in it.
	if err := os.WriteFile(c.args[0], bytes.TrimSuffix(b.Bytes(), []byte("\n")), 0o600); err != nil {
		return errorf(exitSoftware, "%v", err)
	}
	return c.done()
}

func importDefinitionsCommand() command {
	return command{
		name: "import_definitions", tools: []string{toolCtl}, group: groupDefinitions,
		summary: "Reads a JSON file of definitions, as exported here or by RabbitMQ 3.x, into the cluster",
		usage:   `<file_path | "-"> [--format <json | erlang>] [--skip-if-unchanged] [--timeout <timeout>]`,
		details: []string{
			"[file]", "Local file path to load from. If omitted or a dash, load from stdin.",
			"--format", "form of the file; only json is known",
			"--skip-if-unchanged", "accepted: what is there already is left alone in any case",
		},
		guides: []string{"definitions"}, flags: definitionFlags(), most: 1, running: true,
		check: func(c *call) error {
			if err := definitionFormat(c); err != nil {
				return err
			}
			if name := definitionFile(c); name != "" {
				if _, err := os.Stat(name); err != nil {
					return &usageError{status: exitDataErr, text: fmt.Sprintf("Bad argument: File %s does not exist", name)}
				}
			}
			return nil
		},
		banner: line(func(c *call) string {
			if name := definitionFile(c); name != "" {
				return fmt.Sprintf(`Importing definitions in JSON from a file at "%s" ...`, name)
			}
			return "Importing definitions in JSON from standard input ..."
		}),
		run: withClient(importDefinitions),
	}
}

// definitionFile is empty for standard input.
func definitionFile(c *call) string {
	if len(c.args) == 0 || c.args[0] == "-" {
		return ""
	}
	return c.args[0]
}

// maxDefinitions bounds a file.
const maxDefinitions = 1 << 30

func readDefinitions(c *call) ([]byte, error) {
	in := c.env.Stdin
	if name := definitionFile(c); name != "" {
		f, err := os.Open(name)
		if err != nil {
			return nil, errorf(exitSoftware, "%v", err)
		}
		defer f.Close() // it was only read
		in = f
	}
	if in == nil {
		return nil, nil
	}
	text, err := io.ReadAll(io.LimitReader(in, maxDefinitions))
	if err != nil {
		return nil, errorf(exitSoftware, "read the definitions: %v", err)
	}
	return text, nil
}

// ParseDefinitions takes the text of a file of definitions apart, in the order of an import. The error says what is wrong with
// the text.
func ParseDefinitions(text []byte) ([]admin.Definition, error) {
	if !json.Valid(text) {
		return nil, errorf(exitDataErr, "Failed to deserialise input (format: JSON) (error: %s)", jsonFault(text))
	}
	var file map[string]json.RawMessage
	if err := json.Unmarshal(text, &file); err != nil {
		return nil, errorf(exitSoftware, "{:badmap, %s}\n", strings.TrimSpace(string(text)))
	}
	var all []admin.Definition
	for _, section := range importOrder() {
		var objects []json.RawMessage
		if raw, ok := file[section]; ok {
			if err := json.Unmarshal(raw, &objects); err != nil {
				return nil, errorf(exitDataErr, "section %q of the definitions is not a list", section)
			}
		}
		for _, o := range objects {
			all = append(all, admin.Definition{Section: section, JSON: string(o)})
		}
	}
	return all, nil
}

// jsonFault names the first character that cannot be, as RabbitMQ's tools show a parser's fault.
func jsonFault(text []byte) string {
	var v any
	err := json.Unmarshal(text, &v)
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) && int(syntax.Offset) <= len(text) && syntax.Offset > 0 {
		rest := string(text[syntax.Offset-1:])
		if end := strings.IndexAny(rest, " \t\r\n:,{}[]\""); end > 0 {
			rest = rest[:end]
		}
		return fmt.Sprintf("{:unexpected_token, %q}", strings.TrimSpace(rest))
	}
	return fmt.Sprint(err)
}

// importPart bounds one request of an import, in bytes of definitions; a request may have admin.MaxRequest.
const importPart = admin.MaxRequest / 4

func importDefinitions(ctx context.Context, c *call, node Client) error {
	text, err := readDefinitions(c)
	if err != nil {
		return err
	}
	all, err := ParseDefinitions(text)
	if err != nil {
		return err
	}
	bar := c.progress("definitions", uint64(len(all)))
	for start := 0; start < len(all); {
		end, size := start, 0
		for end < len(all) && (end == start || size+len(all[end].JSON) < importPart) && end-start < 1000 {
			size += len(all[end].JSON) + 32
			end++
		}
		if err := node.ImportDefinitions(ctx, slices.Clone(all[start:end])); err != nil {
			bar.end()
			var invalid *admin.Error
			if errors.As(err, &invalid) && invalid.Code == admin.CodeValidation {
				return errorf(exitUnavailable, "Validation failed\n\n%s", invalid.Text)
			}
			return err
		}
		bar.at(uint64(end))
		start = end
	}
	bar.end()
	if c.set["quiet"] || c.set["silent"] {
		return nil
	}
	return c.message("Successfully started definition import. This process is asynchronous and can take some time.")
}
