package command

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"warren/ctl/admin"
)

// Shapes that many commands share.

// readOnly are the tools that have the commands which only look.
func readOnly() []string { return []string{toolCtl, toolDiagnostics} }

// change makes run of a command that changes something and has nothing to say about it.
func change(do func(context.Context, *call, Client) error) func(context.Context, *call) error {
	return withClient(func(ctx context.Context, c *call, node Client) error {
		if err := do(ctx, c, node); err != nil {
			return err
		}
		return c.done()
	})
}

// line makes a banner of one line.
func line(text func(*call) string) func(*call) []string {
	return func(c *call) []string { return []string{text(c)} }
}

// named makes a banner of one line with the first argument in quotes.
func named(form string) func(*call) []string {
	return line(func(c *call) string { return fmt.Sprintf(form, c.args[0]) })
}

// table prints a list whose rows are all known.
func table[R any](c *call, rows []R, columns ...column[R]) error {
	return printRows(c, columns, rows, true)
}

// bracketed are words as banners list them: [a, b].
func bracketed(words []string) string { return "[" + strings.Join(words, ", ") + "]" }

// plainNoSuch words a missing user or vhost as the commands about permissions do.
func plainNoSuch(err error) error {
	var refused *admin.Error
	if errors.As(err, &refused) {
		switch refused.Code {
		case admin.CodeNoSuchUser:
			return errorf(exitNoUser, "User %s does not exist", refused.Text)
		case admin.CodeNoSuchVHost:
			return errorf(exitUnavailable, "Virtual host %s does not exist", refused.Text)
		}
	}
	return err
}

// termNoSuch words a missing user as the commands do that pass on an Erlang term.
func termNoSuch(err error) error {
	var refused *admin.Error
	if errors.As(err, &refused) && refused.Code == admin.CodeNoSuchUser {
		return errorf(exitUnavailable, "{:no_such_user, %q}", refused.Text)
	}
	return err
}

// badPattern words a regular expression that does not compile. RabbitMQ's quotes differ between its two commands.
func badPattern(err error, quote string) error {
	var refused *admin.Error
	if errors.As(err, &refused) && refused.Code == admin.CodePattern {
		if parts := strings.SplitN(refused.Text, "\n", 3); len(parts) == 3 {
			return errorf(exitUnavailable, "{:invalid_regexp, %[1]s%[2]s%[1]s, {'%[3]s', %[4]s}}", quote, parts[0], parts[1], parts[2])
		}
	}
	return err
}

// maxPassword bounds what is read from standard input as a password.
const maxPassword = 64 << 10

// password is argument i, or else the first line of standard input, for which it prompts.
func (c *call) password(i int) (string, error) {
	if len(c.args) > i {
		return c.args[i], nil
	}
	print(c.env.Stdout, "Password: ")
	text := ""
	if c.env.Stdin != nil {
		read, err := bufio.NewReader(io.LimitReader(c.env.Stdin, maxPassword)).ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return "", fmt.Errorf("read the password: %w", err)
		}
		text = strings.TrimRight(read, "\r\n")
	}
	print(c.env.Stdout, "\n")
	if text == "" {
		return "", errorf(exitSoftware, "Password is not provided via argument or stdin")
	}
	return text, nil
}
