package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"indoubt/ledger/digestkey"
	"indoubt/policy/recipes"
	"indoubt/ui/cli/base"
	"indoubt/ui/clients"
	"indoubt/ui/safe"
)

type installFlags struct {
	servers     []string
	yes, dryRun bool
}

type installer struct {
	*base.App
	installFlags
	undo bool
}

const installPlaces = `CLIENT is one of
  claude   .mcp.json here, ~/.claude.json, and Claude Desktop's claude_desktop_config.json
  cursor   .cursor/mcp.json here, and ~/.cursor/mcp.json
  code     .vscode/mcp.json here, and mcp.json of VS Code's user profile
and stands for each of these files that exists. Any other word is the path of a file
that has mcpServers or servers.`

func newMCPInstallCommand(a *base.App, undo bool) *cobra.Command {
	i := &installer{App: a, undo: undo}
	cmd := &cobra.Command{
		Use:   "install CLIENT|FILE [--server NAME]…",
		Short: "Put the servers of an MCP client behind indoubt",
		Long: `Rewrites the configuration of an MCP client, so that each server in it starts behind
indoubt mcp. What changes is shown, asked for, and made in place: comments, order and
other fields stay. uninstall puts each entry back as it was.

` + installPlaces + `

An entry gets the absolute paths of this program and of the ledger, the name that a
recipe knows the server by (else the entry's own), and the entry's name as --scope where
that is another one. Entries of one name are one server. A server behind a URL is reached by indoubt, and the
values of its headers move to the entry's env. It is asked once whether it wants a login:
one to which the client logs in by itself (OAuth) stays as it is.`,
		Example: `  indoubt mcp install claude
  indoubt mcp install cursor --server memory --yes
  indoubt mcp install .vscode/mcp.json --dry-run`,
		Args: base.SomeArgs("a client or a file"), ValidArgs: clients.Names,
		RunE: func(cmd *cobra.Command, args []string) error { return i.run(cmd.Context(), args) },
	}
	if undo {
		cmd.Use, cmd.Short = "uninstall CLIENT|FILE [--server NAME]…", "Put the configuration of an MCP client back as it was"
		cmd.Long = `Undoes indoubt mcp install, entry by entry: each starts its server again as it did. What was
changed since stays.

` + installPlaces
		cmd.Example = "  indoubt mcp uninstall claude\n  indoubt mcp uninstall ~/.cursor/mcp.json --server memory --yes"
	}
	f := cmd.Flags()
	f.StringArrayVar(&i.servers, "server", nil, "only this entry; all of them when left out")
	f.BoolVarP(&i.yes, "yes", "y", false, "do not ask")
	f.BoolVar(&i.dryRun, "dry-run", false, "show what would change and change nothing")
	return cmd
}

func (i *installer) verb() string {
	if i.undo {
		return "uninstall"
	}
	return "install"
}

func (i *installer) run(ctx context.Context, args []string) error {
	plans, err := i.plans(ctx, args)
	if err != nil {
		return err
	}
	changed := slices.DeleteFunc(slices.Clone(plans), func(p *clients.Plan) bool { return !p.Changed() })
	files := base.Each(plans, func(p *clients.Plan) fileJSON { return fileJSON{p.Path, p.Changed(), p.Servers} })
	data := map[string]any{"files": files}
	show := func(w *safe.Writer) { i.show(w, plans) }
	switch {
	case len(changed) == 0:
		return i.Done(base.EffectNoop, data, func(w *safe.Writer) {
			show(w)
			w.Println("nothing to change")
		})
	case i.dryRun:
		return i.Done(base.EffectWouldUpdate, data, show)
	}
	if err := i.MayChange(i.verb()); err != nil {
		return err
	}
	if !i.yes {
		if !i.Terminal() {
			return &base.Failure{Code: "no_person", Message: "nothing was changed: without a terminal, " + i.verb() + " needs --yes",
				Hint: "look at the change, then say it again with --yes", Data: data, Text: show}
		}
		show(i.ErrOut)
		if !i.ConfirmYes("Write this?") {
			return &base.Failure{Code: "no_person", Message: "nothing was changed"}
		}
	}
	for _, p := range changed {
		switch err := p.Write(); {
		case errors.Is(err, clients.ErrChanged):
			return &base.Failure{Code: "moved", Message: base.Short(p.Path) + " has changed since it was shown, and was left as it is", Hint: "say it again", Cause: err}
		case err != nil:
			return fmt.Errorf("write %s: %w", base.Short(p.Path), err)
		}
	}
	return i.Done(base.EffectUpdated, data, func(w *safe.Writer) {
		if i.yes {
			show(w)
		}
		i.told(w, changed)
	})
}

// clientSystem says where the files of a person's clients are.
func clientSystem(env func(string) string) (s clients.System, err error) {
	s = clients.System{Home: env("HOME"), Config: env("XDG_CONFIG_HOME")}
	if s.Home == "" {
		s.Home, _ = os.UserHomeDir()
	}
	if s.Dir, err = os.Getwd(); err != nil {
		err = fmt.Errorf("the current directory: %w", err)
	}
	return s, err
}

func (i *installer) plans(ctx context.Context, args []string) ([]*clients.Plan, error) {
	system, err := clientSystem(i.Env)
	if err != nil {
		return nil, err
	}
	wrapping, err := i.wrapping(ctx)
	if err != nil {
		return nil, err
	}
	paths, err := present(system, args)
	if err != nil {
		return nil, err
	}
	var out []*clients.Plan
	var missing error
	for _, path := range paths {
		plan := func() (*clients.Plan, error) { return system.Install(path, wrapping, i.servers) }
		if i.undo {
			plan = func() (*clients.Plan, error) { return system.Uninstall(path, i.servers) }
		}
		p, err := plan()
		var absent *clients.MissingError
		switch {
		case errors.As(err, &absent):
			missing = &base.Failure{Code: "not_found", Message: fmt.Sprintf("%s has no server %q", base.Short(path), absent.Name), Hint: "it has: " + strings.Join(absent.There, ", ")}
			continue
		case err != nil:
			return nil, &base.Failure{Code: "bad_config", Message: base.Short(err.Error()), Hint: "nothing was changed; mend the file, or name another one", Cause: err}
		}
		out = append(out, p)
	}
	if len(out) == 0 {
		return nil, missing
	}
	return out, nil
}

// present are the files that the words stand for and that exist, each once.
func present(system clients.System, args []string) (paths []string, err error) {
	for _, arg := range args {
		places, known := system.Places(arg)
		if !known {
			places = []string{arg}
		}
		found := false
		for _, path := range places {
			if _, err := os.Stat(path); err != nil {
				continue
			}
			if found = true; !slices.Contains(paths, path) {
				paths = append(paths, path)
			}
		}
		if found {
			continue
		}
		hint := "a client is one of " + strings.Join(clients.Names, ", ") + "; or name its file"
		if known {
			for i := range places {
				places[i] = base.Short(places[i])
			}
			hint = "name the file that your client reads"
		}
		return nil, &base.Failure{Code: "not_found", Message: "there is no " + strings.Join(places, ", no "), Hint: hint}
	}
	return paths, nil
}

// wrapping is what an entry says of this program, the ledger and the policy.
func (i *installer) wrapping(ctx context.Context) (w clients.Wrapping, err error) {
	if i.undo {
		return w, nil
	}
	if w.Program, err = programPath(); err != nil {
		return w, err
	}
	at, err := i.Place()
	if err != nil {
		return w, err
	}
	name := at.String()
	if file, ok := at.(interface{ Absolute() (string, error) }); ok {
		if name, err = file.Absolute(); err != nil {
			return w, err
		}
	} else if i.LedgerPath != name {
		return w, &base.Failure{Code: "usage", Message: "the ledger's address has a password in it, which would stand in the client's configuration",
			Hint: "keep it in a PGPASSFILE, and name the ledger without it"}
	}
	w.Flags = []string{"--ledger", name}
	if path, named := i.PolicyFile(); named {
		if path, err = filepath.Abs(path); err != nil {
			return w, err
		}
		w.Flags = append(w.Flags, "--policy", path)
	}
	w.Known, w.Login = recipes.ServerName, func(url string) bool { return wantsLogin(ctx, url) }
	return w, nil
}

const loginPatience = 3 * time.Second // for a server to say that it wants a login

// wantsLogin asks a server once, and only reads.
func wantsLogin(ctx context.Context, url string) bool {
	client := http.Client{Timeout: loginPatience, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	req.Header.Set("Accept", "text/event-stream")
	reply, err := client.Do(req)
	if err != nil {
		return false
	}
	reply.Body.Close()
	return reply.StatusCode == http.StatusUnauthorized
}

// programPath is where this program is found again: by the name it was called by, which
// may be a link that an update moves, else by its file.
func programPath() (string, error) {
	own, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("the path of this program: %w", err)
	}
	if strings.Contains(filepath.ToSlash(own), "/go-build") {
		return "", base.Usage("this program was built to run once, and will be gone", "build it (make build) and install from there")
	}
	if called, err := exec.LookPath(os.Args[0]); err == nil {
		if called, err = filepath.Abs(called); err == nil && sameFile(called, own) {
			return called, nil
		}
	}
	return own, nil
}

func sameFile(a, b string) bool {
	one, missing := os.Stat(a)
	other, lacking := os.Stat(b)
	return missing == nil && lacking == nil && os.SameFile(one, other)
}

type fileJSON struct {
	Path    string            `json:"path"`
	Changes bool              `json:"changes"`
	Servers []clients.Outcome `json:"servers"`
}

func (i *installer) show(w *safe.Writer, plans []*clients.Plan) {
	for _, p := range plans {
		for _, s := range p.Servers {
			what := "starts behind indoubt, its calls are " + s.Kinds
			switch {
			case s.Why != "":
				what = "stays as it is: " + s.Why
			case i.undo:
				what = "starts as it did before"
			}
			w.Printf("%s: %s %s\n", base.Short(p.Path), s.Name, what)
		}
	}
}

func (i *installer) told(w *safe.Writer, plans []*clients.Plan) {
	var known []string
	for _, p := range plans {
		w.Printf("wrote %s\n", base.Short(p.Path))
		for _, s := range p.Servers {
			if name := recipes.ForServer(s.Server()); name != "" && s.Changes && !i.undo && !slices.Contains(known, name) {
				known = append(known, name)
			}
		}
	}
	if file := i.LedgerOptions().KeyFile; file != "" && !i.undo {
		w.Printf("add to the env of each entry, for clients do not pass on their own: %s=%s, and PGPASSFILE where the password stands in one\n", digestkey.Variable, file)
	}
	w.Println("next: restart the client")
	if !i.undo {
		w.Println("a call that comes again after its answer is a new one; where a client repeats calls as it resumes, say repeat: replay")
	}
	if len(known) > 0 {
		w.Printf("recipes know these servers: indoubt policy init %s\n", strings.Join(known, " "))
	}
}
