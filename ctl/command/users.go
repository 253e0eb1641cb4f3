package command

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"

	"warren/ctl/admin"
	"warren/metadata/state"
)

// Commands about users.

func userCommands() []command {
	return []command{
		addUserCommand(), authenticateUserCommand(), changePasswordCommand(), clearPasswordCommand(), deleteUserCommand(),
		listUsersCommand(), setUserTagsCommand(), hashPasswordCommand(),
	}
}

// hashPasswordCommand makes the hash that a definitions file has; it asks no node (RabbitMQ has it from 3.12 on).
func hashPasswordCommand() command {
	return command{
		name: "hash_password", tools: []string{toolCtl}, group: "Users", summary: "Turns a password into the hash that definitions carry", usage: "<cleartext_password>",
		details: []string{"<cleartext_password>", "the plaintext password to hash; read from standard input if it is left out"}, most: 1,
		banner: line(func(*call) string { return "Will hash password ..." }),
		run: func(_ context.Context, c *call) error {
			password, err := c.password(0)
			if err != nil {
				return err
			}
			var salt [4]byte
			_, _ = rand.Read(salt[:]) // never fails (crypto/rand)
			return c.message(base64.StdEncoding.EncodeToString(state.HashPassword(salt, password)))
		},
	}
}

func userName() []string { return []string{"<username>", "name of the user"} }

func addUserCommand() command {
	return command{
		name: "add_user", tools: []string{toolCtl}, group: "Users",
		summary: "Creates a user, who may do nothing until set_permissions",
		usage:   "<username> <password>",
		details: []string{
			"<username>", "name of the user",
			"<password>", "the password; an empty one lets no password log in; " +
				"read from standard input if it is left out",
		},
		guides: []string{"access-control"}, least: 1, most: 2, running: true,
		check: func(c *call) error {
			if c.args[0] == "" {
				return &usageError{status: exitDataErr, text: "Bad argument: user cannot be an empty string"}
			}
			return nil
		},
		banner: named(`Adding user "%s" ...`),
		run: withClient(func(ctx context.Context, c *call, node Client) error {
			password, err := c.password(1)
			if err != nil {
				return err
			}
			err = node.AddUser(ctx, admin.Credentials{Name: c.args[0], Password: password})
			if admin.CodeOf(err) == admin.CodeAlreadyExists {
				return errorf(exitSoftware, "User \"%s\" already exists", c.args[0])
			} else if err != nil {
				return err
			}
			if c.set["quiet"] || c.set["silent"] || c.format.Machine() {
				return c.done()
			}
			print(c.env.Stdout, "Done. Don't forget to grant the user permissions to some virtual hosts! "+
				"See 'rabbitmqctl help set_permissions' to learn more.\n")
			return nil
		}),
	}
}

func authenticateUserCommand() command {
	return command{
		name: "authenticate_user", tools: []string{toolCtl}, group: "Users",
		summary: "Tries a user's password; fails if it is not the right one",
		usage:   "<username> <password>", guides: []string{"access-control"}, least: 1, most: 2, running: true,
		details: userName(),
		banner:  named(`Authenticating user "%s" ...`),
		run: withClient(func(ctx context.Context, c *call, node Client) error {
			password, err := c.password(1)
			if err != nil {
				return err
			}
			err = node.Authenticate(ctx, admin.Credentials{Name: c.args[0], Password: password})
			var denied *admin.Error
			if errors.As(err, &denied) && denied.Code == admin.CodeDenied {
				return errorf(exitDataErr, "Error: failed to authenticate user \"%s\"\n%s", c.args[0], denied.Text)
			} else if err != nil {
				return err
			}
			return c.message("Success")
		}),
	}
}

func changePasswordCommand() command {
	return command{
		name: "change_password", tools: []string{toolCtl}, group: "Users", summary: "Gives a user another password",
		usage: "<username> <password>", guides: []string{"access-control"}, least: 1, most: 2, running: true,
		details: userName(),
		banner:  named(`Changing password for user "%s" ...`),
		run: change(func(ctx context.Context, c *call, node Client) error {
			password, err := c.password(1)
			if err != nil {
				return err
			}
			return node.ChangePassword(ctx, admin.Credentials{Name: c.args[0], Password: password})
		}),
	}
}

func clearPasswordCommand() command {
	return command{
		name: "clear_password", tools: []string{toolCtl}, group: "Users",
		summary: "Takes a user's password away, so that no password logs in",
		usage:   "<username>", guides: []string{"access-control"}, least: 1, most: 1, running: true,
		details: userName(),
		banner:  named(`Clearing password for user "%s" ...`),
		run: change(func(ctx context.Context, c *call, node Client) error {
			return termNoSuch(node.ClearPassword(ctx, c.args[0]))
		}),
	}
}

func deleteUserCommand() command {
	return command{
		name: "delete_user", tools: []string{toolCtl}, group: "Users",
		summary: "Removes a user and closes the user's connections",
		usage:   "<username>", guides: []string{"access-control"}, least: 1, most: 1, running: true,
		details: userName(),
		banner:  named(`Deleting user "%s" ...`),
		run:     change(func(ctx context.Context, c *call, node Client) error { return node.DeleteUser(ctx, c.args[0]) }),
	}
}

func setUserTagsCommand() command {
	return command{
		name: "set_user_tags", tools: []string{toolCtl}, group: "Users", summary: "Sets user tags",
		usage:   "<username> <tag> [...]",
		details: []string{"<username>", "name of the user", "<tags>", "tags, one argument each"},
		guides:  []string{"management", "access-control"}, least: 1, most: anyNumber, running: true,
		banner: line(func(c *call) string {
			return fmt.Sprintf(`Setting tags for user "%s" to %s ...`, c.args[0], bracketed(c.args[1:]))
		}),
		run: change(func(ctx context.Context, c *call, node Client) error {
			return node.SetUserTags(ctx, admin.UserInfo{Name: c.args[0], Tags: c.args[1:]})
		}),
	}
}

func listUsersCommand() command {
	return command{
		name: "list_users", tools: readOnly(), group: "Users",
		summary: "Shows the users and their tags",
		usage:   "[--no-table-headers] [--timeout <timeout>]",
		guides:  []string{"access-control"},
		running: true,
		banner:  func(*call) []string { return []string{"Listing users ..."} },
		run: withClient(func(ctx context.Context, c *call, node Client) error {
			all, err := node.ListUsers(ctx)
			if err != nil {
				return err
			}
			return table(c, all, fixed("user", func(u admin.UserInfo) any { return u.Name }),
				fixed("tags", func(u admin.UserInfo) any { return textList(u.Tags) }))
		}),
	}
}
