package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"indoubt/ledger"
	"indoubt/ledger/lazyregexp"
)

func usage(message, hint string) error {
	return &failure{Code: "usage", Message: message, Hint: hint}
}

// maxArgs, exactly and someArgs count arguments as cobra does, with exit 2.
func maxArgs(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > n {
			return usage(cmd.CommandPath()+" got more arguments than it takes: "+quoted(args[n:]), "usage: "+cmd.UseLine())
		}
		return nil
	}
}

// exactly is as many arguments as there are names for them.
func exactly(what ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < len(what) {
			return usage(cmd.CommandPath()+" needs "+what[len(args)], "usage: "+cmd.UseLine())
		}
		return maxArgs(len(what))(cmd, args)
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
	return strings.Join(each(args, func(s string) string { return "`" + s + "`" }), " ")
}

// flagFailure says what is wrong with an option: how it is spelt, or what it takes.
func flagFailure(cmd *cobra.Command, err error) error {
	if typo := mistyped(cmd, cmd.Flags().Args()); typo != nil && !cmd.HasParent() {
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
			return usage(message, "a filter that begins with a dash stands behind two: "+cmd.CommandPath()+" -- -state:committed")
		}
	case errors.As(err, &unknown):
		message = fmt.Sprintf("%s has no option --%s", cmd.CommandPath(), unknown.GetSpecifiedName())
		var all []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { all = append(all, f.Name) })
		message += strings.Replace(meant(unknown.GetSpecifiedName(), all), "`", "`--", 1)
	case errors.As(err, &wrong):
		takes := map[string]string{"bool": "true or false", "int": "a whole number", "int64": "a whole number", "uint64": "a whole number, not below 0"}[wrong.GetFlag().Value.Type()]
		takes = cmp.Or(takes, "another value")
		message = fmt.Sprintf("--%s takes %s, not `%s`", wrong.GetFlag().Name, takes, wrong.GetValue())
	}
	return usage(message, "see `"+cmd.CommandPath()+" --help`")
}

// swallowed refuses an option that has taken the next one, or the -- before a command, for
// its value. So `--key $KEY -- send` reads where the variable is not set, and every command
// would have one key.
func swallowed(cmd *cobra.Command) (err error) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		name, option := strings.CutPrefix(f.Value.String(), "--")
		name, _, _ = strings.Cut(name, "=")
		if option && f.Value.Type() == "string" && (name == "" || cmd.Flag(name) != nil) {
			err = usage(fmt.Sprintf("--%s has no value: `%s` comes next", f.Name, f.Value), "is a variable not set? leave the option out for the default")
		}
	})
	return err
}

// commandLike is a word that reads as a command and not as the name of something.
var commandLike = lazyregexp.New(`^[a-z]+(-[a-z]+)*$`)

// mistyped refuses a first word that reads as a command: `indoubt lst` must not open a
// console on the text "lst", nor answer "0 operations", which reads as an all-clear.
func mistyped(cmd *cobra.Command, args []string) error {
	if len(args) == 0 || !commandLike.MatchString(args[0]) || idLike.MatchString(args[0]) {
		return nil
	}
	return usage(fmt.Sprintf("there is no command `%s`%s", args[0], meant(args[0], commandNames(cmd))), "to look for the text: indoubt /"+args[0]+"\nsee `indoubt --help`")
}

// meant is a hint at the name that a word is a slip of, as the end of a message.
func meant(word string, names []string) string {
	if hint := ledger.Meant(word, names); hint != "" {
		return "; " + hint
	}
	return ""
}

func commandNames(cmd *cobra.Command) (names []string) {
	for _, sub := range cmd.Commands() {
		if !sub.Hidden {
			names = append(names, sub.Name())
		}
	}
	return names
}

// grouped is a command that only holds others: alone it prints its help.
func grouped(cmd *cobra.Command) *cobra.Command {
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return usage(fmt.Sprintf("there is no command `%s %s`%s", cmd.Name(), args[0], meant(args[0], commandNames(cmd))), "there are: "+strings.Join(commandNames(cmd), ", "))
		}
		return nil
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := cmd.Help(); err != nil {
			return err
		}
		return &exitOnly{exitUsage}
	}
	return cmd
}

func newHelpCommand() *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND…]", GroupID: groupCare, Short: "Help about any command",
		RunE: func(cmd *cobra.Command, args []string) error {
			of, rest, _ := cmd.Root().Find(args)
			if len(rest) > 0 {
				name := strings.TrimPrefix(of.CommandPath()+" "+rest[0], of.Root().Name()+" ")
				return usage(fmt.Sprintf("there is no command `%s`%s", name, meant(rest[0], commandNames(of))), "see `"+of.CommandPath()+" --help`")
			}
			of.InitDefaultHelpFlag()
			return of.Help()
		},
	}
}

func newCompletionCommand(a *app) *cobra.Command {
	shells := []string{"bash", "zsh", "fish", "powershell"}
	return &cobra.Command{
		Use: "completion bash|zsh|fish|powershell", GroupID: groupCare,
		Short:   "Print completion for a shell: commands and options",
		Long:    "Print completion for a shell: commands and options. bash needs the package\nbash-completion; zsh needs compinit to have run.",
		Example: "  source <(indoubt completion bash)\n  indoubt completion fish > ~/.config/fish/completions/indoubt.fish",
		Args:    exactly("one of " + strings.Join(shells, ", ")), ValidArgs: shells,
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			write := map[string]func(io.Writer) error{
				"bash":       func(w io.Writer) error { return root.GenBashCompletionV2(w, true) },
				"zsh":        root.GenZshCompletion,
				"fish":       func(w io.Writer) error { return root.GenFishCompletion(w, true) },
				"powershell": root.GenPowerShellCompletionWithDesc,
			}[args[0]]
			if write == nil {
				return usage(fmt.Sprintf("there is no completion for %q", args[0]), "there is: "+strings.Join(shells, " "))
			}
			return write(a.out)
		},
	}
}
