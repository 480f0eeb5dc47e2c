package base

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"indoubt/ledger"
	"indoubt/ledger/lazyregexp"
)

// The groups of the help text.
const (
	GroupLook   = "look"
	GroupDecide = "decide"
	GroupRecord = "record"
	GroupCare   = "care"
)

// Usage is the failure of a wrong command line.
func Usage(message, hint string) error {
	return &Failure{Code: "usage", Message: message, Hint: hint}
}

// MaxArgs, exactly and someArgs count arguments as cobra does, with exit 2.
func MaxArgs(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > n {
			return Usage(cmd.CommandPath()+" got more arguments than it takes: "+quoted(args[n:]), "usage: "+cmd.UseLine())
		}
		return nil
	}
}

// Exactly is as many arguments as there are names for them.
func Exactly(what ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < len(what) {
			return Usage(cmd.CommandPath()+" needs "+what[len(args)], "usage: "+cmd.UseLine())
		}
		return MaxArgs(len(what))(cmd, args)
	}
}

// SomeArgs is one argument or more; what names the first.
func SomeArgs(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return Usage(cmd.CommandPath()+" needs "+what, "usage: "+cmd.UseLine())
		}
		return nil
	}
}

func quoted(args []string) string {
	return strings.Join(Each(args, func(s string) string { return "`" + s + "`" }), " ")
}

// FlagFailure says what is wrong with an option: how it is spelt, or what it takes.
func FlagFailure(cmd *cobra.Command, err error) error {
	if typo := Mistyped(cmd, cmd.Flags().Args()); typo != nil && !cmd.HasParent() {
		return typo
	}
	message := err.Error()
	var unknown *pflag.NotExistError
	var wrong *pflag.InvalidValueError
	var lacking *pflag.ValueRequiredError
	switch {
	case errors.As(err, &lacking):
		message = fmt.Sprintf("--%s needs a value", lacking.GetFlag().Name)
		if lacking.GetFlag().Usage != "" {
			message += ": " + lacking.GetFlag().Usage
		}
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() != "":
		message = fmt.Sprintf("%s has no option -%s", cmd.CommandPath(), unknown.GetSpecifiedShortnames())
		if strings.ContainsAny(message, ":<>") {
			return Usage(message, "a filter that begins with a dash stands behind two: "+cmd.CommandPath()+" -- -state:committed")
		}
	case errors.As(err, &unknown):
		message = fmt.Sprintf("%s has no option --%s", cmd.CommandPath(), unknown.GetSpecifiedName())
		var all []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { all = append(all, f.Name) })
		message += strings.Replace(Meant(unknown.GetSpecifiedName(), all), "`", "`--", 1)
	case errors.As(err, &wrong):
		takes := map[string]string{"bool": "true or false", "int": "a whole number", "int64": "a whole number",
			"uint64": "a whole number, not below 0"}[wrong.GetFlag().Value.Type()]
		takes = cmp.Or(takes, "another value")
		message = fmt.Sprintf("--%s takes %s, not `%s`", wrong.GetFlag().Name, takes, wrong.GetValue())
	}
	return Usage(message, "see `"+cmd.CommandPath()+" --help`")
}

// swallowed refuses an option that has taken the next one, or the -- before a command, for
// its value. So `--key $KEY -- send` reads where the variable is not set, and every command
// would have one key.
func swallowed(cmd *cobra.Command) (err error) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		name, option := strings.CutPrefix(f.Value.String(), "--")
		name, _, _ = strings.Cut(name, "=")
		if option && f.Value.Type() == "string" && (name == "" || cmd.Flag(name) != nil) {
			err = Usage(fmt.Sprintf("--%s has no value: `%s` comes next", f.Name, f.Value),
				"is a variable not set? leave the option out for the default")
		}
	})
	return err
}

// IDLike is a word that may be an id, or the beginning of one.
var IDLike = lazyregexp.New(`^[0-9a-fA-F][0-9a-fA-F-]{3,35}$`)

// commandLike is a word that reads as a command and not as the name of something.
var commandLike = lazyregexp.New(`^[a-z]+(-[a-z]+)*$`)

// Mistyped refuses a first word that reads as a command: `indoubt lst` must not open a
// console on the text "lst", nor answer "0 operations", which reads as an all-clear.
func Mistyped(cmd *cobra.Command, args []string) error {
	if len(args) == 0 || !commandLike.MatchString(args[0]) || IDLike.MatchString(args[0]) {
		return nil
	}
	return Usage(fmt.Sprintf("there is no command `%s`%s", args[0], Meant(args[0], CommandNames(cmd))),
		"to look for the text: indoubt /"+args[0]+"\nsee `indoubt --help`")
}

// Meant is a hint at the name that a word is a slip of, as the end of a message.
func Meant(word string, names []string) string {
	if hint := ledger.Meant(word, names); hint != "" {
		return "; " + hint
	}
	return ""
}

// CommandNames are the names of the commands below one that help shows.
func CommandNames(cmd *cobra.Command) (names []string) {
	for _, sub := range cmd.Commands() {
		if !sub.Hidden {
			names = append(names, sub.Name())
		}
	}
	return names
}

// Grouped is a command that only holds others: alone it prints its help.
func Grouped(cmd *cobra.Command) *cobra.Command {
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return Usage(fmt.Sprintf("there is no command `%s %s`%s", cmd.Name(), args[0], Meant(args[0], CommandNames(cmd))),
				"there are: "+strings.Join(CommandNames(cmd), ", "))
		}
		return nil
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := cmd.Help(); err != nil {
			return err
		}
		return &ExitOnly{ExitUsage}
	}
	return cmd
}

// Past is the time that --since or --until names.
func Past(flag, s string, now time.Time) (time.Time, error) {
	if w, err := ledger.ParseWhen(s, time.Local); err == nil && w.Past(now).Before(now) {
		return w.Past(now), nil
	}
	return time.Time{}, Usage(fmt.Sprintf("--%s %q is not a time that has passed", flag, s), "write "+ledger.WhenHelp)
}
