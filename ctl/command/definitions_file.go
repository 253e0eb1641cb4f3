package command

import "warren/ctl/admin"

// ParseDefinitions takes the text of a file of definitions apart, in the order of an import. The error says what is wrong with
// the text.
func ParseDefinitions(text []byte) ([]admin.Definition, error) { return parseDefinitions(text) }
