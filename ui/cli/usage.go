package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"indoubt/ledger/lazyregexp"
)

// usage is a command line that cannot be meant.
func usage(message, hint string) error {
	return &failure{Exit: exitUsage, Code: "usage", Message: message, Hint: hint}
}

// noArgs, someArgs and maxArgs count arguments as cobra does, with exit 2.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usage(cmd.CommandPath()+" takes no arguments, got "+quoted(args), "see `"+cmd.CommandPath()+" --help`")
	}
	return nil
}

func maxArgs(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > n {
			return usage(cmd.CommandPath()+" got more arguments than it takes: "+quoted(args[n:]), "usage: "+cmd.UseLine())
		}
		return nil
	}
}

func someArgs(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return usage(cmd.CommandPath()+" needs "+what, "usage: "+cmd.UseLine())
		}
		return nil
	}
}

func quoted(args []string) string {
	out := make([]string, len(args))
	for i, s := range args {
		out[i] = "`" + s + "`"
	}
	return strings.Join(out, " ")
}

// flagFailure says what is wrong with an option: how it is spelt, or what it takes.
func flagFailure(cmd *cobra.Command, err error) error {
	if typo := mistyped(cmd, cmd.Flags().Args()); typo != nil && !cmd.HasParent() {
		return typo
	}
	message := err.Error()
	var unknown *pflag.NotExistError
	var wrong *pflag.InvalidValueError
	switch {
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() == "":
		message = fmt.Sprintf("%s has no option --%s", cmd.CommandPath(), unknown.GetSpecifiedName())
		if like := likeFlag(cmd, unknown.GetSpecifiedName()); like != "" {
			message += "; did you mean --" + like + "?"
		}
	case errors.As(err, &wrong):
		takes := map[string]string{"bool": "true or false", "int": "a whole number", "int64": "a whole number", "uint64": "a whole number, not below 0"}[wrong.GetFlag().Value.Type()]
		message = fmt.Sprintf("--%s takes %s, not `%s`", wrong.GetFlag().Name, takes, wrong.GetValue())
	}
	return usage(message, "see `"+cmd.CommandPath()+" --help`")
}

// likeFlag is the option of a command that a name is a slip of.
func likeFlag(cmd *cobra.Command, name string) (like string) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden && slip(name, f.Name) {
			like = f.Name
		}
	})
	return like
}

// commandLike is a word that reads as a command and not as the name of something.
var commandLike = lazyregexp.New(`^[a-z]+(-[a-z]+)*$`)

// mistyped refuses a first word that reads as a command: `indoubt lst` must not open a
// console on the text "lst", nor answer "0 operations", which reads as an all-clear.
func mistyped(cmd *cobra.Command, args []string) error {
	if len(args) == 0 || !commandLike.MatchString(args[0]) || idLike.MatchString(args[0]) {
		return nil
	}
	word, like := args[0], ""
	if i := slices.IndexFunc(cmd.Commands(), func(sub *cobra.Command) bool { return !sub.Hidden && slip(word, sub.Name()) }); i >= 0 {
		like = fmt.Sprintf("; did you mean `%s`?", cmd.Commands()[i].Name())
	}
	return usage(fmt.Sprintf("there is no command `%s`%s", word, like), fmt.Sprintf("to look for the text: indoubt '\"%s\"'\nsee `indoubt --help`", word))
}

// slip reports whether a word is a command with one letter missing, added, wrong
// or two neighbours exchanged. Words of three letters and less are left alone.
func slip(word, name string) bool {
	if len(name) < 4 || len(word) < 3 || word == name {
		return false
	}
	i := 0
	for i < len(word) && i < len(name) && word[i] == name[i] {
		i++
	}
	w, n := word[i:], name[i:]
	return len(w) > 0 && w[1:] == n || // one too many
		len(n) > 0 && w == n[1:] || // one missing
		len(w) > 0 && len(n) > 0 && w[1:] == n[1:] || // one wrong
		len(w) > 1 && len(n) > 1 && w[0] == n[1] && w[1] == n[0] && w[2:] == n[2:]
}
