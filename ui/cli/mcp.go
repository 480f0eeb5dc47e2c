package cli

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"indoubt/ledger/lazyregexp"
	"indoubt/ledger/record/mcpproxy"
	"indoubt/ledger/wire/mcpwire"
	"indoubt/ui/cli/base"
)

type mcpFlags struct {
	server, scope, url, source, deadline string
	headerEnv                            []string
}

const maxScope = 200 // bytes of a name that is kept with every call

type mcpCommand struct{ *base.App }

func newMCPCommand(a *base.App) *cobra.Command {
	var flags mcpFlags
	cmd := &cobra.Command{
		Use: "mcp [--server NAME] {-- COMMAND… | --url URL}", GroupID: base.GroupRecord,
		Short: "Stand before an MCP server and record every call that writes",
		Long: `Speaks MCP on standard input and output, and passes every line on to a server:
to a command it starts, or to a streamable-HTTP URL. A tool call that may write is
recorded before it is passed on, as kind mcp.NAME.TOOL. The same call again, from
whatever session, is answered from the record: it waits while the first one is in
flight, gets its answer if that was never delivered, and is held while the first
one is in doubt because its answer was lost, or the policy names its kind.
A call by itself after a delivered answer is a new one.

Which server it is says --scope, else --server, else its command and directory, or its
URL, as it is written: written otherwise, it is another server.

A tool only reads if the policy says so (effect: read), or else if the server says
so (readOnlyHint) when its client lists the tools. Every other one counts as a write. Without --server, NAME is made of
--scope, else of the command's words or the URL. The tool indoubt_status_NAME is added,
so that an agent can ask how calls stand. What could be read as another call than the
one that is recorded (a member that occurs twice, a batch with a tools/call in it) is
answered with an error.

The configuration of an MCP client is rewritten by indoubt mcp install.`,
		Example: `  indoubt mcp install claude
  indoubt mcp --server memory -- npx -y @modelcontextprotocol/server-memory
  indoubt mcp --server tracker --url https://mcp.example.com/mcp --header-env Authorization=TRACKER_BEARER`,
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, name := range []string{"server", "scope"} { // as a variable that is not set gives it
				if f := cmd.Flags().Lookup(name); f.Changed && f.Value.String() == "" {
					return base.Usage("--"+name+" is empty", "leave it out, or give a name")
				}
			}
			return mcpCommand{a}.serve(cmd.Context(), args, flags)
		},
	}
	f := cmd.Flags()
	f.SetInterspersed(false) // what follows the first word is the server's
	f.StringVar(&flags.server, "server", "", "the server's name in kinds: mcp.NAME.TOOL")
	f.StringVar(&flags.scope, "scope", "", "which servers are one and the same, however they are started; --server when left out, else the command and directory, or the URL, as written")
	f.StringVar(&flags.url, "url", "", "the URL of a streamable-HTTP server, instead of a command")
	f.StringArrayVar(&flags.headerEnv, "header-env", nil,
		"a header for the server, as NAME=VARIABLE: its value is read from that variable, and stored nowhere")
	f.StringVar(&flags.source, "source", "", "the agent, or AGENT@RUN (INDOUBT_SOURCE)")
	f.StringVar(&flags.deadline, "deadline", "", "how long a call may take before it is in doubt; the kind's when left out")
	cmd.AddCommand(newMCPInstallCommand(a, false), newMCPInstallCommand(a, true))
	return cmd
}

func (c mcpCommand) serve(ctx context.Context, argv []string, flags mcpFlags) error {
	o := mcpproxy.Options{In: c.Stdin, Out: c.RawOut}
	var err error
	if o.Deadline, err = sendDeadline("--deadline", flags.deadline); err != nil {
		return err
	}
	if err := c.server(&o, argv, flags); err != nil {
		return err
	}
	said := func(line string) { c.ErrOut.Println("indoubt: " + line) }
	if _, o.Recorder, err = liveRecorder(context.WithoutCancel(ctx), c.App, sourceOf(c.App, flags.source), "agent", said); err != nil {
		return err
	}
	if err := identify(&o, argv, flags); err != nil {
		return err
	}
	var mu sync.Mutex
	o.Log = func(line string) {
		mu.Lock()
		defer mu.Unlock()
		c.ErrOut.Println("indoubt: " + line)
	}
	defer base.OutlivePipes()()
	err = mcpproxy.New(o).Run(ctx)
	drain(c.ErrOut, o.Recorder, 10*time.Second)
	if err != nil && ctx.Err() == nil {
		return &base.Failure{Code: "error", Message: err.Error(), Hint: "what was under way is in the ledger: indoubt list state:uncertain"}
	}
	return nil
}

// identify says what the server is called in kinds, and which calls may be the same: those
// to a server of one name, else to one command in one directory, or one URL, as it is
// written. A secret in it is in no name, and counts as its digest under the recorder's
// key, so that passwords cannot be tried on the scope.
func identify(o *mcpproxy.Options, argv []string, flags mcpFlags) error {
	o.Server, o.Scope = flags.server, "mcp:"+cmp.Or(flags.scope, flags.server)
	switch {
	case flags.server != "":
		return nil
	case flags.scope != "":
		o.Server = fitName(flags.scope)
		return nil
	}
	place, err := os.Getwd()
	if err != nil {
		return fmt.Errorf("the current directory: %w", err)
	}
	if flags.url != "" {
		place, argv = "", []string{"", flags.url} // the first word counts as a program
	}
	words, err := o.Recorder.CommandLine(argv)
	if err != nil {
		return fmt.Errorf("the server's command line: %w", err)
	}
	sum := sha256.Sum256([]byte(strings.Join(append([]string{place}, words...), "\x00")))
	o.Scope = "mcp:" + hex.EncodeToString(sum[:16])
	for i := range words {
		if words[i] != argv[i] {
			words[i] = ""
		}
	}
	o.Server = fitName(strings.Join(words, " "))
	return nil
}

const maxServerName = 60 // characters of a name that is made

var unfitName = lazyregexp.New(`[^A-Za-z0-9._]+`)

// fitName is a text as it can stand in a kind.
func fitName(text string) string {
	name := unfitName.ReplaceAllString(text, "-")
	return cmp.Or(strings.Trim(name[:min(len(name), maxServerName)], "-."), "server")
}

// server reads which server it is: what it is called, and how it is reached.
func (c mcpCommand) server(o *mcpproxy.Options, argv []string, flags mcpFlags) error {
	if strings.ContainsAny(flags.server, " \t\n*\"") {
		return base.Usage(fmt.Sprintf("--server %q cannot be part of a kind", flags.server), "use letters, digits, dots and dashes")
	}
	if strings.ContainsAny(flags.scope, " \t\n") || len(flags.scope) > maxScope {
		return base.Usage(fmt.Sprintf("--scope %q cannot be a name", flags.scope), "use letters, digits, dots and dashes")
	}
	switch {
	case flags.url != "" && len(argv) > 0:
		return base.Usage("mcp takes a command or --url, not both", "")
	case flags.url == "" && len(argv) == 0:
		return base.Usage("mcp needs a server", "a command behind two dashes, or --url: indoubt mcp -- npx -y @modelcontextprotocol/server-memory")
	case flags.url == "" && len(flags.headerEnv) > 0:
		return base.Usage("--header-env is for a server behind --url", "a command gets its secrets from the environment")
	case flags.url != "":
		header, err := c.header(flags)
		if err != nil {
			return err
		}
		if _, err := mcpwire.Dial(context.Background(), flags.url, nil); err != nil { // it only looks at the URL
			return base.Usage("--url: "+err.Error(), "")
		}
		o.Connect = func(ctx context.Context) (mcpwire.Conn, error) {
			return mcpwire.Dial(ctx, flags.url, header)
		}
		return nil
	}
	o.Connect = func(ctx context.Context) (mcpwire.Conn, error) {
		return mcpwire.Start(ctx, mcpwire.StdioOptions{Argv: argv, Stderr: heedless{c.RawErr}})
	}
	return nil
}

// heedless is a writer whose reader may have gone: a server must not end over its
// log while a call is under way.
type heedless struct{ to io.Writer }

func (w heedless) Write(p []byte) (int, error) {
	_, _ = w.to.Write(p)
	return len(p), nil
}

// header reads --header-env. A value that is not set is said by its name.
func (c mcpCommand) header(flags mcpFlags) (http.Header, error) {
	header := http.Header{}
	for _, given := range flags.headerEnv {
		name, variable, ok := strings.Cut(given, "=")
		if !ok || name == "" || variable == "" {
			return nil, base.Usage("--header-env has no NAME=VARIABLE", "write --header-env Authorization=TRACKER_TOKEN")
		}
		value := c.Env(variable)
		if value == "" {
			return nil, base.Usage(fmt.Sprintf("--header-env %s: %s is not set in the environment", name, variable), "")
		}
		header.Add(name, value)
	}
	return header, nil
}
