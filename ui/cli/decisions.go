package cli

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"indoubt/ledger"
	"indoubt/ui/cli/base"
	"indoubt/ui/ticket"
)

// decisions are the verbs that only change the ledger.
var decisions = []struct {
	verb                 ledger.Verb
	short, long, example string
	needs                needs
	// more adds options of its own, and returns what they must be before anything is opened.
	more func(a *base.App, cmd *cobra.Command, d *decideFlags) (check func(args []string) error)
}{
	{ledger.VerbConfirm, "Say that it landed", `Say that a write in doubt landed. Give the receipts you found: two or more make
it "happened twice". Afterwards only a person settles it.`,
		"  indoubt confirm 0198c1de-7a3b@3 --receipt pi_3Qx --reason 'found in the dashboard'",
		needs{version: true, reason: true}, withReceipts},
	{ledger.VerbDeny, "Say that it did not land", `Say that a write in doubt did not land, and how you know. It is your word, not
proof: sending it again still counts as taking a risk.
` + refuses,
		"  indoubt deny 0198c1de-7a3b@3 --reason 'their support says no such charge, ticket 4411'",
		needs{version: true, reason: true}, nil},
	{ledger.VerbAbandon, "Leave it: it is never sent again",
		"Say that no one sends a write any more.\n" + refuses + "\nWhat is known of it stays as it is, and undo restores it.",
		"  indoubt abandon 0198c1de-7a3b@3 --reason 'the campaign is over'",
		needs{version: true, reason: true}, nil},
	{ledger.VerbAck, "Deal with a conflict: say what is true of it",
		`Deal with a conflict (happened twice, landed but different, a decision that was
wrong) by what is true of it, which settles it:

  taken_back   an effect was taken back outside: --reference REFUND
  both_wanted  every effect was wanted: --reason TEXT
  landed_once  one effect is this one's: --receipt R, where several are known
  not_landed   no effect is this one's: --reason TEXT

landed_once needs no reason where a check found exactly one effect of what was
recorded as not landed, and no send was allowed since. It covers the receipts
known now, no later ones.`,
		"  indoubt ack 0198c1de-7a3b@5 --truth taken_back --reference re_771\n  indoubt ack 0198c1de-7a3b@5 --truth landed_once",
		needs{version: true}, withTruth},
	{ledger.VerbPark, "Take it out of the way for a while, without deciding",
		`Take an operation out of the way until a time, or until anything about it
changes. Nothing is decided, and checks go on.`,
		"  indoubt park 0198c1de-7a3b@3 --until 2h\n  indoubt park 0198c1de-7a3b@3 --until 06:00 --reason 'their support opens at six'",
		needs{version: true}, withUntil},
	{ledger.VerbUndo, "Take a decision back: it is in doubt again, or as it was",
		`Take back that an operation landed or did not land. It is in doubt again, and
only a person settles it. What was sent cannot be taken back, and after another
attempt there is no undo. An operation that was abandoned is again what it was,
with its proofs.`,
		"  indoubt undo 0198c1de-7a3b@4 --reason 'that was another charge'",
		needs{version: true, reason: true}, nil},
	{ledger.VerbNote, "Leave a remark in the history",
		"Leave a remark for the next person who looks. Nothing is decided and no version is needed.", "  indoubt note 0198c1de-7a3b --reason 'asking their support, ticket 4411'",
		needs{reason: true}, nil},
}

// refuses says what comes of the same request once it was denied or abandoned.
const refuses = `The same again is refused: for the ttl of its key, or for good; where all its words name
it, for a day after it was sent. A kind that replaces what is on its target runs again
after another one.`

// newDecision makes the command of a verb that only changes the ledger.
func newDecision(verb ledger.Verb) func(*base.App) *cobra.Command {
	return func(a *base.App) *cobra.Command {
		var flags decideFlags
		for _, v := range decisions {
			if v.verb != verb {
				continue
			}
			cmd := newDecidingCommand(string(verb), v.short, v.long, v.example, &flags)
			check := func([]string) error { return nil }
			if v.more != nil {
				check = v.more(a, cmd, &flags)
			}
			cmd.RunE = func(cmd *cobra.Command, args []string) error {
				if err := check(args); err != nil {
					return err
				}
				return decideAll(cmd.Context(), a, string(verb), args, &flags, v.needs, decide)
			}
			return cmd
		}
		return nil
	}
}

func withReceipts(_ *base.App, cmd *cobra.Command, d *decideFlags) func([]string) error {
	cmd.Flags().StringArrayVar(&d.receipts, "receipt", nil, "a receipt found; may be given more than once")
	return func(args []string) error {
		switch {
		case slices.ContainsFunc(d.receipts, func(r string) bool { return strings.TrimSpace(r) == "" }):
			return base.Usage("--receipt is empty", "leave it out when there is none")
		case len(d.receipts) > 0 && len(args) > 1:
			return base.Usage("--receipt belongs to one operation, and several are named", "confirm them one by one")
		}
		return nil
	}
}

func withUntil(a *base.App, cmd *cobra.Command, d *decideFlags) func([]string) error {
	cmd.Flags().StringVar(&d.until, "until", "", "a duration (2h), a time of day (06:00) or an RFC 3339 time")
	return func([]string) error {
		if d.until == "" {
			return base.Usage("park needs a time", "add --until 2h or --until 06:00")
		}
		_, err := until(d.until, a.Clock())
		return err
	}
}

func withTruth(a *base.App, cmd *cobra.Command, d *decideFlags) func([]string) error {
	f := cmd.Flags()
	f.StringVar(&d.truth, "truth", "", "taken_back, both_wanted, landed_once or not_landed")
	f.StringVar(&d.reference, "reference", "", "taken_back: the refund, the ticket")
	f.StringArrayVar(&d.receipts, "receipt", nil, "landed_once: the receipt that is its own")
	return func([]string) error {
		truth, err := truth(a, *d)
		d.truth = string(truth)
		return err
	}
}

// truth is what was said to be true, or is asked for at a terminal.
func truth(a *base.App, flags decideFlags) (ledger.Truth, error) {
	said := ledger.Truth(flags.truth)
	if said == "" && a.Terminal() {
		question := ""
		for i, t := range ledger.Truths {
			question += fmt.Sprintf("  %d  %s\n", i+1, t.Words())
		}
		answer, err := a.Ask(question + "What is true? ")
		if n, bad := strconv.Atoi(answer); err == nil && bad == nil && n >= 1 && n <= len(ledger.Truths) {
			said = ledger.Truths[n-1]
		}
	}
	if !slices.Contains(ledger.Truths, said) {
		message := "ack needs what is true"
		if flags.truth != "" {
			message = fmt.Sprintf("--truth %q is none of the four", flags.truth)
		}
		return "", base.Usage(message, "add --truth taken_back, both_wanted, landed_once or not_landed")
	}
	return said, nil
}

func until(s string, now time.Time) (time.Time, error) {
	at, err := ticket.Until(s, now, time.Local)
	if err != nil {
		return at, base.Usage(fmt.Sprintf("--until %q is not a time to come", s), "write a duration (2h, 1d), a time of day (06:00), a date with a time or an RFC 3339 time")
	}
	return at, nil
}
