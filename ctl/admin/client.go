package admin

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/vmihailenco/msgpack/v5"

	"warren/dataplane/link"
)

// Client asks one node over one connection, one request at a time: it is for one goroutine. After any error that is not an
// *Error, and after a context that ended, the connection is of no more use. A request whose context has no deadline waits up
// to MaxTimeout.
type Client struct {
	conn net.Conn
	in   *bufio.Reader
}

// Client has the methods of Node.
var _ Node = (*Client)(nil)

// NewClient takes over an authenticated connection, positioned after the handshake.
func NewClient(conn net.Conn) *Client {
	return &Client{conn: conn, in: bufio.NewReaderSize(conn, 32<<10)}
}

// Close ends the connection, and with it a request that is running.
func (c *Client) Close() error {
	if err := c.conn.Close(); err != nil {
		return fmt.Errorf("close admin connection: %w", err)
	}
	return nil
}

// call sends a request and gives each row to row until the answer ends.
func (c *Client) call(ctx context.Context, command string, args any, row func(msgpack.RawMessage) error) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%s: %w", command, err)
	}
	body, err := marshal(args)
	if err != nil {
		return fmt.Errorf("%s: encode arguments: %w", command, err)
	}
	limit := MaxTimeout
	if deadline, ok := ctx.Deadline(); ok {
		limit = min(limit, max(time.Until(deadline), time.Millisecond))
	}
	// The node is given its time limit; beyond it, a moment for its last frame to come through.
	if err := c.conn.SetDeadline(time.Now().Add(limit + 500*time.Millisecond)); err != nil {
		return fmt.Errorf("%s: %w", command, err)
	}
	stop := context.AfterFunc(ctx, func() {
		if errors.Is(ctx.Err(), context.Canceled) {
			c.conn.Close()
		}
	})
	defer stop()
	req := request{Version: Version, Command: command, Timeout: max(limit.Milliseconds(), 1), Args: body}
	if err := writeFrame(c.conn, req, MaxRequest); err != nil {
		return c.failed(ctx, command, err)
	}
	for {
		var a answer
		if err := readFrame(c.in, &a, MaxAnswer); err != nil {
			return c.failed(ctx, command, err)
		}
		switch a.Kind {
		case kindRow:
			if err := row(a.Row); err != nil {
				c.conn.Close() // the rest of the answer is not wanted
				return err
			}
		case kindEnd:
			return nil
		case kindError:
			return &Error{Code: a.Code, Text: a.Text}
		default:
			return fmt.Errorf("%s: unknown frame %q in the answer", command, a.Kind)
		}
	}
}

// failed names the cause of a broken connection: the context's end before what it led to.
func (c *Client) failed(ctx context.Context, command string, err error) error {
	c.conn.Close()
	switch {
	case errors.Is(err, errTooLarge):
		return fmt.Errorf("%s: %w", command, err)
	case ctx.Err() != nil:
		return fmt.Errorf("%s: %w", command, ctx.Err())
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("%s: %w", command, context.DeadlineExceeded)
	}
	return fmt.Errorf("%s: %w", command, err)
}

// single asks for one row.
func single[R any](ctx context.Context, c *Client, command string, args any) (R, error) {
	var r R
	rows := 0
	err := c.call(ctx, command, args, func(raw msgpack.RawMessage) error {
		rows++
		return link.Unmarshal(raw, &r)
	})
	if err == nil && rows != 1 {
		err = fmt.Errorf("%s: %d rows in the answer, expected one", command, rows)
	}
	return r, err
}

// list asks for rows and gathers them.
func list[R any](ctx context.Context, c *Client, command string, args any) ([]R, error) {
	var all []R
	err := streamed(ctx, c, command, args, func(r R) error {
		all = append(all, r)
		return nil
	})
	return all, err
}

func (c *Client) ask(ctx context.Context, command string, args any) error {
	return c.call(ctx, command, args, func(msgpack.RawMessage) error { return nil })
}

// Status implements Node.
func (c *Client) Status(ctx context.Context) (NodeStatus, error) {
	return single[NodeStatus](ctx, c, cmdStatus, nothing{})
}

// ClusterStatus implements Node.
func (c *Client) ClusterStatus(ctx context.Context) (ClusterStatus, error) {
	return single[ClusterStatus](ctx, c, cmdClusterStatus, nothing{})
}

// Stop implements Node.
func (c *Client) Stop(ctx context.Context) error { return c.ask(ctx, cmdStop, nothing{}) }

// SetPolicy implements Node.
func (c *Client) SetPolicy(ctx context.Context, p PolicyInfo) error {
	return c.ask(ctx, cmdSetPolicy, p)
}

// ClearPolicy implements Node.
func (c *Client) ClearPolicy(ctx context.Context, vhost, name string) error {
	return c.ask(ctx, cmdClearPolicy, named{vhost, name})
}

// ListPolicies implements Node.
func (c *Client) ListPolicies(ctx context.Context, vhost string) ([]PolicyInfo, error) {
	return list[PolicyInfo](ctx, c, cmdListPolicies, named{VHost: vhost})
}

// ListQueues implements Node: rows are given as they arrive.
func (c *Client) ListQueues(ctx context.Context, q QueueQuery, row func(QueueInfo) error) error {
	return streamed(ctx, c, cmdListQueues, q, row)
}

// DeleteQueue implements Node.
func (c *Client) DeleteQueue(ctx context.Context, d QueueDeletion) (uint64, error) {
	return single[uint64](ctx, c, cmdDeleteQueue, d)
}

// PurgeQueue implements Node.
func (c *Client) PurgeQueue(ctx context.Context, vhost, name string) (uint64, error) {
	return single[uint64](ctx, c, cmdPurgeQueue, named{vhost, name})
}

// ListExchanges implements Node.
func (c *Client) ListExchanges(ctx context.Context, vhost string) ([]ExchangeInfo, error) {
	return list[ExchangeInfo](ctx, c, cmdListExchanges, named{VHost: vhost})
}

// ListBindings implements Node.
func (c *Client) ListBindings(ctx context.Context, vhost string) ([]BindingInfo, error) {
	return list[BindingInfo](ctx, c, cmdListBindings, named{VHost: vhost})
}

// ListVHosts implements Node.
func (c *Client) ListVHosts(ctx context.Context) ([]VHostInfo, error) {
	return list[VHostInfo](ctx, c, cmdListVHosts, nothing{})
}

// ListUsers implements Node.
func (c *Client) ListUsers(ctx context.Context) ([]UserInfo, error) {
	return list[UserInfo](ctx, c, cmdListUsers, nothing{})
}
