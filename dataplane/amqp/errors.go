package amqp

import (
	"errors"
	"fmt"
)

// Reply codes of AMQP 0-9-1 section 1.2, with RabbitMQ's use of them.
const (
	ReplySuccess       = 200
	ContentTooLarge    = 311
	NoRoute            = 312
	NoConsumers        = 313
	ConnectionForced   = 320
	InvalidPath        = 402
	AccessRefused      = 403
	NotFound           = 404
	ResourceLocked     = 405
	PreconditionFailed = 406
	FrameError         = 501
	SyntaxError        = 502
	CommandInvalid     = 503
	ChannelError       = 504
	UnexpectedFrame    = 505
	ResourceError      = 506
	NotAllowed         = 530
	NotImplemented     = 540
	InternalError      = 541
)

// Error is an AMQP exception: what a client is told in channel.close or connection.close.
type Error struct {
	Code uint16
	// Text comes after the code's name in the reply text: "no queue 'q' in vhost '/'" is sent as
	// "NOT_FOUND - no queue 'q' in vhost '/'". The whole is cut at 255 octets.
	Text string

	class, method uint16 // what caused it, 0 if unknown
}

// Errorf makes an Error.
func Errorf(code uint16, format string, args ...any) *Error {
	return &Error{Code: code, Text: fmt.Sprintf(format, args...)}
}

// Error is the reply text.
func (e *Error) Error() string {
	if e.Text == "" {
		return CodeName(e.Code)
	}
	return CodeName(e.Code) + " - " + e.Text
}

// Hard reports whether the exception closes the connection and not only the channel.
func (e *Error) Hard() bool {
	switch e.Code {
	case ContentTooLarge, NoRoute, NoConsumers, AccessRefused, NotFound, ResourceLocked, PreconditionFailed:
		return false
	}
	return true
}

// CodeName is the code's name as RabbitMQ writes it, such as NOT_FOUND.
func CodeName(code uint16) string {
	switch code {
	case ReplySuccess:
		return "REPLY_SUCCESS"
	case ContentTooLarge:
		return "CONTENT_TOO_LARGE"
	case NoRoute:
		return "NO_ROUTE"
	case NoConsumers:
		return "NO_CONSUMERS"
	case ConnectionForced:
		return "CONNECTION_FORCED"
	case InvalidPath:
		return "INVALID_PATH"
	case AccessRefused:
		return "ACCESS_REFUSED"
	case NotFound:
		return "NOT_FOUND"
	case ResourceLocked:
		return "RESOURCE_LOCKED"
	case PreconditionFailed:
		return "PRECONDITION_FAILED"
	case FrameError:
		return "FRAME_ERROR"
	case SyntaxError:
		return "SYNTAX_ERROR"
	case CommandInvalid:
		return "COMMAND_INVALID"
	case ChannelError:
		return "CHANNEL_ERROR"
	case UnexpectedFrame:
		return "UNEXPECTED_FRAME"
	case ResourceError:
		return "RESOURCE_ERROR"
	case NotAllowed:
		return "NOT_ALLOWED"
	case NotImplemented:
		return "NOT_IMPLEMENTED"
	}
	return "INTERNAL_ERROR"
}

// asError finds the AMQP exception in err; any other error becomes 541, and internal is then true.
func asError(err error) (e *Error, internal bool) {
	if errors.As(err, &e) {
		return e, false
	}
	return &Error{Code: InternalError}, true
}
