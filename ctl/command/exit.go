package command

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"warren/ctl/admin"
	"warren/ctl/format"
	"warren/ctl/locate"
)

// Exit statuses of the tools: those of sysexits.h, used as RabbitMQ's tools use them.
const (
	exitOK          = 0
	exitFormatter   = 1  // an unknown formatter
	exitUsage       = 64 // EX_USAGE
	exitDataErr     = 65 // EX_DATAERR
	exitNoUser      = 67 // EX_NOUSER
	exitUnavailable = 69 // EX_UNAVAILABLE
	exitSoftware    = 70 // EX_SOFTWARE
	exitTempFail    = 75 // EX_TEMPFAIL: the time limit passed
	exitConfig      = 78 // EX_CONFIG
)

// exitError ends a command: text goes to standard error as it is, with a newline after it.
type exitError struct {
	status int
	text   string
}

// Error implements error.
func (e *exitError) Error() string { return e.text }

// errorf is a failure of the operation: "Error:" on a line of its own, then the text.
func errorf(status int, format string, args ...any) *exitError {
	return &exitError{status, "Error:\n" + fmt.Sprintf(format, args...)}
}

// usageError is a command line that the command does not take. It is printed with the command's usage.
type usageError struct {
	status int
	text   string
	// state: the arguments are right, the node is in the wrong state; the text has no "(argument validation)".
	state bool
}

// Error implements error.
func (e *usageError) Error() string { return e.text }

func badArguments(format string, args ...any) *usageError {
	return &usageError{status: exitUsage, text: fmt.Sprintf(format, args...)}
}

// describe turns any error of a command into what is printed and the exit status.
func (c *call) describe(err error) *exitError {
	var exit *exitError
	var usage *usageError
	var unreachable *unreachableError
	var refused *admin.Error
	var name *locate.NodeNameError
	switch {
	case errors.As(err, &exit):
		return exit
	case errors.As(err, &usage):
		return &exitError{usage.status, c.usageText(usage)}
	case errors.As(err, &name):
		return &exitError{exitDataErr, "Unsupported node name: node name head (the part before the @) is invalid. " +
			"Only alphanumerics, _ and - characters are allowed.\nIf using FQDN node names, use the -l / --longnames argument"}
	case errors.As(err, &unreachable):
		return &exitError{exitUnavailable, unreachable.text()}
	case errors.Is(err, context.DeadlineExceeded) || admin.CodeOf(err) == admin.CodeTimeout:
		return c.timedOut()
	case errors.As(err, &refused):
		if refused.Code == admin.CodeNoSuchUser && c.format == format.FormatJSON {
			return c.noUserJSON(refused.Text)
		}
		return describeRefusal(refused)
	case errors.Is(err, context.Canceled):
		return &exitError{exitTempFail, "Error: operation " + c.command.name + " was interrupted"}
	}
	return errorf(exitSoftware, "%v", err)
}

// noUserJSON is what RabbitMQ's tools say of a missing user to a program, with its words and its other exit status.
func (c *call) noUserJSON(user string) *exitError {
	text, err := format.JSON(map[string]any{"message": "User " + user + " does not exists", "node": c.node, "result": "error"})
	if err != nil {
		return errorf(exitSoftware, "%v", err)
	}
	return &exitError{exitUnavailable, string(text)}
}

func (c *call) timedOut() *exitError {
	return &exitError{exitTempFail, fmt.Sprintf("Error: operation %s on node %s timed out. Timeout value used: %d",
		c.command.name, c.node, c.timeout.Milliseconds())}
}

// describeRefusal is the general form of a node's refusal; commands with a form of their own deal with theirs before.
func describeRefusal(e *admin.Error) *exitError {
	switch e.Code {
	case admin.CodeNoSuchVHost:
		return &exitError{exitDataErr, "Virtual host '" + e.Text + "' does not exist"}
	case admin.CodeNoSuchUser:
		return errorf(exitNoUser, "User %q does not exist", e.Text)
	case admin.CodeValidation:
		return errorf(exitUnavailable, "Validation failed\n\n%s\n", strings.TrimRight(e.Text, "\n"))
	case admin.CodeBadJSON:
		return errorf(exitUnavailable, "JSON decoding error. Reason: badarg")
	case admin.CodeNotFound:
		return errorf(exitUnavailable, "not_found")
	case admin.CodeAlreadyExists:
		return errorf(exitSoftware, "%s", e.Text)
	case admin.CodeUnavailable, admin.CodeRefused, admin.CodeNotEmpty, admin.CodeInUse:
		return errorf(exitUnavailable, "%s", e.Text)
	case admin.CodeUnsupported:
		return errorf(exitUnavailable, "%s; it may be of another version than this tool", e.Text)
	}
	return errorf(exitSoftware, "%s", e.Text)
}
