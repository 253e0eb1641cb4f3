package admin

import (
	"errors"
	"fmt"
)

// Code is the class of a refusal. Codes travel by name; a tool that does not know one treats it as CodeInternal.
type Code string

// Codes. What exit status and what form of text each gives is ctl/command's matter.
const (
	CodeInternal      Code = "internal"       // a defect of the node, or an error without a class
	CodeUnsupported   Code = "unsupported"    // the node does not know this request
	CodeBadRequest    Code = "bad_request"    // malformed, oversize, or of an unknown protocol version
	CodeTimeout       Code = "timeout"        // the request's time limit passed
	CodeUnavailable   Code = "unavailable"    // no Raft leader, the node is starting, paused or stopping
	CodeNoSuchVHost   Code = "no_such_vhost"  // Text is the vhost's name
	CodeNoSuchUser    Code = "no_such_user"   // Text is the user's name
	CodeNotFound      Code = "not_found"      // the queue, policy, … named does not exist
	CodeNotEmpty      Code = "not_empty"      // a queue to be deleted only if empty has messages
	CodeInUse         Code = "in_use"         // a queue to be deleted only if unused has consumers, or is another's
	CodeNotMirrored   Code = "not_mirrored"   // a queue to be synchronised has no mirrors
	CodeNotSyncing    Code = "not_syncing"    // a synchronisation to be cancelled is not under way
	CodeBadJSON       Code = "bad_json"       // a text that should be JSON is not
	CodeValidation    Code = "validation"     // Text is the validator's, RabbitMQ's wording
	CodeAlreadyExists Code = "already_exists" //
	CodeDenied        Code = "denied"         // a wrong password, or a user that may not log in
	CodePattern       Code = "pattern"        // a regular expression that does not compile; Text is its fault, "TEXT",OFFSET
	CodeUnreachable   Code = "unreachable"    // another node that the request needs; Text says why, one reason a line
	CodeRefused       Code = "refused"        // not possible in the present state; Text says why
)

// Error is a refusal that is meant for the operator. Text is one or more lines without a final newline.
type Error struct {
	Code Code
	Text string
}

// Error implements error.
func (e *Error) Error() string {
	if e.Text == "" {
		return string(e.Code)
	}
	return string(e.Code) + ": " + e.Text
}

// Errorf makes an *Error.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Text: fmt.Sprintf(format, args...)}
}

// CodeOf returns the code of the *Error in err's chain, or CodeInternal if there is none (and "" for nil).
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return CodeInternal
}
