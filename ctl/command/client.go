package command

import (
	"context"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/urfave/cli/v2"
)

// "warren client": the least that shows a queue at work, for a machine that has no AMQP client of its own.

// clientTimeout bounds connecting and the wait for a confirm.
const clientTimeout = 30 * time.Second

const defaultURI = "amqp://guest:guest@127.0.0.1:5672/"

func clientCommand(env Env) *cli.Command {
	uri := &cli.StringFlag{Name: "uri", Value: defaultURI, Usage: "the node's AMQP `URI`"}
	sub := func(name, usage, args string, n int, run func(context.Context, *amqp.Channel, []string) (string, error)) *cli.Command {
		return &cli.Command{
			Name: name, Usage: usage, ArgsUsage: args, Flags: []cli.Flag{uri},
			Action: func(cc *cli.Context) error {
				if cc.NArg() != n {
					return &cliUsageError{fmt.Sprintf("client %s takes %s", name, args)}
				}
				text, err := withChannel(cc.Context, cc.String("uri"), cc.Args().Slice(), run)
				if err == nil {
					print(env.Stdout, text+"\n")
				}
				return err
			},
		}
	}
	return &cli.Command{
		Name: "client", Usage: "a small AMQP client, for trying out",
		Subcommands: []*cli.Command{
			sub("declare", "declare a durable queue", "QUEUE", 1, clientDeclare),
			sub("publish", "publish a persistent message and wait for its confirm", "QUEUE BODY", 2, clientPublish),
			sub("get", "take one message off a queue and print it", "QUEUE", 1, clientGet),
		},
	}
}

// withChannel runs one request on a channel of its own.
func withChannel(ctx context.Context, uri string, args []string, run func(context.Context, *amqp.Channel, []string) (string, error)) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, clientTimeout)
	defer cancel()
	conn, err := amqp.DialConfig(uri, amqp.Config{Dial: amqp.DefaultDial(clientTimeout)})
	if err != nil {
		return "", fmt.Errorf("connect to %s: %w", redacted(uri), err)
	}
	defer func() { _ = conn.Close() }() // what counts was answered
	ch, err := conn.Channel()
	if err != nil {
		return "", fmt.Errorf("open a channel: %w", err)
	}
	return run(ctx, ch, args)
}

// redacted is a URI without its password, for messages.
func redacted(uri string) string {
	u, err := amqp.ParseURI(uri)
	if err != nil {
		return "the URI given"
	}
	return fmt.Sprintf("%s:%d", u.Host, u.Port)
}

func clientDeclare(_ context.Context, ch *amqp.Channel, args []string) (string, error) {
	q, err := ch.QueueDeclare(args[0], true, false, false, false, nil)
	if err != nil {
		return "", fmt.Errorf("declare queue %q: %w", args[0], err)
	}
	return fmt.Sprintf("queue %s: %d messages, %d consumers", q.Name, q.Messages, q.Consumers), nil
}

func clientPublish(ctx context.Context, ch *amqp.Channel, args []string) (string, error) {
	if err := ch.Confirm(false); err != nil {
		return "", fmt.Errorf("ask for confirms: %w", err)
	}
	returned := ch.NotifyReturn(make(chan amqp.Return, 1))
	c, err := ch.PublishWithDeferredConfirmWithContext(ctx, "", args[0], true, false,
		amqp.Publishing{DeliveryMode: amqp.Persistent, Body: []byte(args[1])})
	if err != nil {
		return "", fmt.Errorf("publish to queue %q: %w", args[0], err)
	}
	acked, err := c.WaitContext(ctx)
	switch {
	case err != nil:
		return "", fmt.Errorf("wait for the confirm of a message to queue %q: %w", args[0], err)
	case !acked:
		return "", fmt.Errorf("the broker did not take the message to queue %q", args[0])
	}
	select {
	case r := <-returned:
		return "", fmt.Errorf("the message came back: %s (is there a queue %q?)", r.ReplyText, args[0])
	default:
		return "confirmed", nil
	}
}

func clientGet(_ context.Context, ch *amqp.Channel, args []string) (string, error) {
	d, ok, err := ch.Get(args[0], false)
	if err != nil {
		return "", fmt.Errorf("get from queue %q: %w", args[0], err)
	}
	if !ok {
		return "", fmt.Errorf("queue %q is empty", args[0])
	}
	if err := d.Ack(false); err != nil {
		return "", fmt.Errorf("acknowledge a message of queue %q: %w", args[0], err)
	}
	return string(d.Body), nil
}
