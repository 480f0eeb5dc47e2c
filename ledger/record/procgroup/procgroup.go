// Package procgroup starts a command so that it can be ended together with what
// it has started: a sender that must stop takes its process group with it (I3).
//
//	Linux          a process group; when this process dies, however it dies, the
//	               kernel kills the command itself, but not what that has started
//	other Unixes   a process group; when this process dies, nothing ends it
//	Windows        a job object; when this process dies, the kernel ends all of it
//
// Whoever leaves a process group (setsid) is not reached any more. A job cannot
// be left.
package procgroup

import "errors"

// errNotOwn is what Start says of a command that Prepare has not seen.
var errNotOwn = errors.New("the command was not prepared to be started in a group of its own")
