package care

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"indoubt/ledger"
	"indoubt/ledger/open"
	"indoubt/policy"
	"indoubt/reconcile"
	"indoubt/ui/cli/base"
	"indoubt/ui/cli/rules"
	"indoubt/ui/safe"
)

type initFlags struct {
	policy       bool // put in force: one was named
	dryRun, anew bool
	roles        bool
	group        string
	asyncStandby string
}

type initCommand struct{ *base.App }

// NewInit is `indoubt init`.
func NewInit(a *base.App) *cobra.Command {
	var flags initFlags
	cmd := &cobra.Command{
		Use: "init", GroupID: base.GroupCare,
		Short: "Make an empty ledger",
		Long: `Make an empty ledger, readable by you alone. One that exists is left as it is.
Where one was before, nothing is made: what was sent then would be sent again.
--anew makes one all the same. A policy file that is named with --policy is put in force in it.

With --group NAME the ledger, also one that exists, is shared with a group (mode 0660,
and 2770 of a directory that is made for it); members of the group record there, too.

With --roles, also for a ledger that exists, PostgreSQL enforces who records, checks,
decides and looks: GRANT indoubt_writer TO ci.

A server with a standby that no commit waits for is refused: one that is promoted forgets
what was acknowledged. --async-standby says why it will not be, or why the loss is accepted,
also for a ledger that exists; the history keeps it, and the next adopt asks again.

INDOUBT_DIGEST_KEY_FILE names the file with the key of the digests that stand for
secrets; it is made where it is missing and the ledger has no key yet. Recorders on a
server's ledger need it. A ledger in a file else keeps its own beside it.`,
		Example: "  indoubt init\n  indoubt --ledger /srv/payments/ledger.db init --group payments",
		Args:    base.MaxArgs(0), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := a.MayChange("make a ledger"); err != nil && !flags.dryRun {
				return err
			}
			flags.policy = cmd.Flag("policy").Changed
			return initCommand{a}.init(cmd.Context(), flags)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&flags.dryRun, "dry-run", false, "say what would happen and change nothing")
	f.BoolVar(&flags.anew, "anew", false, "also where a ledger was that is gone for good")
	f.StringVar(&flags.group, "group", "", "share it with a group: its members may record, too")
	f.BoolVar(&flags.roles, "roles", false, "on a server, make the roles indoubt_reader, _writer, _operator and _engine")
	f.StringVar(&flags.asyncStandby, asyncStandby, "", asyncStandbyHelp)
	return cmd
}

const (
	asyncStandby     = "async-standby"
	asyncStandbyHelp = "why a standby that no commit waits for will not be promoted, or its loss is accepted"
)

func noStandby() error {
	return base.Usage("--"+asyncStandby+" is for a ledger in PostgreSQL", "leave it out: a file has no standby")
}

// replicated is a place whose server may have standbys.
type replicated interface {
	AcceptStandby(ctx context.Context, o open.Options) error
}

// roled is a place whose database enforces who may do what.
type roled interface {
	Roles(ctx context.Context, o open.Options) error
}

// shared is a place that the rights of files protect.
type shared interface{ Share(group string) error }

func (c initCommand) init(ctx context.Context, flags initFlags) error {
	name := base.Short(c.LedgerName())
	if at, err := c.Place(); err != nil {
		return err
	} else if _, ok := at.(roled); flags.roles && !ok {
		return base.Usage("--roles is for a ledger in PostgreSQL", "share a file with a group: --group NAME")
	} else if _, ok := at.(replicated); flags.asyncStandby != "" && !ok {
		return noStandby()
	} else if flags.roles && flags.group != "" {
		return base.Usage("--group is for a ledger in a file", "leave it out: roles share this one")
	}
	s, err := c.LedgerFor(ctx, base.ToLook)
	switch {
	case err == nil:
		return c.again(ctx, s, flags)
	case !base.IsMissing(err), base.AsFailure(err).Code == "former" && !flags.anew:
		return err
	}
	at, err := c.Place()
	if err != nil {
		return err
	}
	var first *policy.Policy
	if flags.policy { // refused before anything is made
		if first, err = rules.Good(ctx, c.App); err != nil {
			return err
		}
	}
	if flags.dryRun {
		return c.Done(base.EffectWouldCreate, map[string]any{"path": at.String()}, func(w *safe.Writer) {
			w.Println("would make a ledger at " + name)
		})
	}
	o := c.LedgerOptions()
	o.Anew, o.Group, o.AsyncStandby = flags.anew, strings.TrimSpace(flags.group), flags.asyncStandby
	if s, err = at.Make(ctx, o); err != nil {
		return err
	}
	base.Keep(c.App, s)
	if flags.roles {
		if err := at.(roled).Roles(ctx, c.LedgerOptions()); err != nil {
			c.ErrOut.Println("made a ledger at " + name + ", without roles")
			return err
		}
	}
	if first != nil {
		if err := rules.Force(ctx, c.App, s, ledger.PolicyText{}, first, "with the ledger"); err != nil {
			return err
		}
	}
	info, err := s.Info(ctx)
	if err != nil {
		return err
	}
	return c.Done(base.EffectCreated, ledgerJSON(info), func(w *safe.Writer) {
		w.Println("made a ledger at " + name)
		if flags.roles {
			w.Println("made its roles indoubt_reader, indoubt_writer, indoubt_engine and indoubt_operator: " +
				"give them to its users with GRANT indoubt_writer TO ci")
		}
		if file := c.LedgerOptions().KeyFile; file != "" {
			w.Println("the key of its digests is in " + base.Short(file) + ": give it to each recorder, and keep it as safe as the ledger")
		}
		if first != nil {
			w.Println(base.Short(first.Path()) + " is in force")
		} else if file, _ := c.PolicyFile(); !base.Exists(file) {
			w.Println("next: indoubt policy init, and in your pipeline: indoubt run --kind post -- curl --fail-with-body …")
		}
	})
}

// again is init where there is a ledger.
func (c initCommand) again(ctx context.Context, s ledger.Store, flags initFlags) error {
	info, err := s.Info(ctx)
	if err != nil {
		return err
	}
	name := base.Short(c.LedgerName())
	at, err := c.Place()
	if err != nil {
		return err
	}
	given, err := c.giveKey(ctx, at, s, flags.dryRun)
	if err != nil {
		return err
	}
	standby, err := c.standby(ctx, at, s, flags)
	if err != nil {
		return err
	}
	did := []string{given, standby}
	if flags.roles {
		did = append(did, tense(flags.dryRun, "make", "made")+" the roles of "+name)
		if !flags.dryRun {
			if err := at.(roled).Roles(ctx, c.LedgerOptions()); err != nil {
				return err
			}
		}
	}
	if group := strings.TrimSpace(flags.group); group != "" {
		to, ok := at.(shared)
		if !ok {
			return base.Usage("--group is for a ledger in a file", "PostgreSQL enforces who may do what: --roles")
		}
		did = append(did, tense(flags.dryRun, "share", "shared")+" "+name+" with the group "+group)
		if !flags.dryRun {
			c.Close()
			if err := to.Share(group); err != nil {
				return err
			}
		}
	}
	did = slices.DeleteFunc(did, func(line string) bool { return line == "" })
	effect := base.EffectOf(false, flags.dryRun)
	if len(did) == 0 {
		effect, did = base.EffectNoop, []string{"there is a ledger at " + name + " already"}
	}
	return c.Done(effect, ledgerJSON(info), func(w *safe.Writer) {
		for _, line := range did {
			w.Println(line)
		}
	})
}

// standby refuses a ledger with a standby that forgets what was acknowledged, until a person says why that does no
// harm. It says that it is noted.
func (c initCommand) standby(ctx context.Context, at open.Place, s ledger.Store, flags initFlags) (said string, err error) {
	if o := c.LedgerOptions(); strings.TrimSpace(flags.asyncStandby) != "" {
		if o.AsyncStandby = flags.asyncStandby; !flags.dryRun {
			err = at.(replicated).AcceptStandby(ctx, o)
		}
		return tense(flags.dryRun, "note", "noted") + " why a standby that no commit waits for does no harm", err
	}
	if server, ok := s.(reconcile.Replicated); ok {
		var f ledger.Finding
		if f, err = server.Standbys(ctx); f.Level == ledger.LevelFail {
			err = ledger.Trouble{Code: "refused", Message: f.Found, Do: f.Do}
		}
	}
	return "", err
}

func tense(dryRun bool, would, was string) string {
	if dryRun {
		return "would " + would
	}
	return was
}

// giveKey gives a ledger that has none the key that is named, and says so. One that has
// another is left as it is.
func (c initCommand) giveKey(ctx context.Context, at open.Place, s ledger.Store, dryRun bool) (said string, err error) {
	o := c.LedgerOptions()
	if o.KeyFile == "" { // who makes it records nothing yet
		return "", nil
	}
	lacks, err := open.LacksKey(ctx, s, o)
	switch {
	case err != nil:
		return "", err
	case !lacks:
		return "", open.Recordable(ctx, s, o)
	case dryRun:
		return "would give " + base.Short(at.String()) + " the key in " + base.Short(o.KeyFile), nil
	}
	return "gave " + base.Short(at.String()) + " the key in " + base.Short(o.KeyFile), open.GiveKey(ctx, at, o)
}

func ledgerJSON(i ledger.Info) map[string]any {
	var over any
	if !i.Failover.At.IsZero() {
		over = map[string]any{"at": base.Moment(i.Failover.At), "missing_ms": i.Failover.Missing.Milliseconds()}
	}
	return map[string]any{"id": i.ID, "path": i.Path, "schema": i.Schema, "created_at": base.Moment(i.CreatedAt), "last_seq": i.LastSeq,
		"last_write": base.Moment(i.LastWrite), "read_only": i.ReadOnly, "copied": base.Text(i.Copied), "failover": over}
}
