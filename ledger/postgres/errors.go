package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"

	"indoubt/ledger"
	"indoubt/ledger/store"
)

// Error is why a ledger in PostgreSQL cannot be used.
type Error struct {
	Code   string // of sayings
	Ledger string // its address, as it is shown
	Why    string // what the server or the network said
	Do     string // what helps, where that depends on it
	Err    error  // the server's, or nil
}

// The codes of an Error.
const (
	Foreign    = "foreign"        // the schema of the ledger's name is not a ledger
	Permission = "permission"     // the server refuses the user, or what the user asked for
	Looker     = "look_only"      // the user may only look
	Standby    = "read_only"      // the server is a copy that follows another one
	Lost       = "lost"           // the server does not answer; what was asked has not happened
	Crowded    = "crowded"        // the server takes no more connections
	Partial    = "partial"        // the ledger has no guards: it is being restored
	FailedOver = "failover"       // the database is another one than the ledger was adopted in
	Old        = "old_server"     // the server was taken over from, and lacks what was recorded since
	Full       = "disk_full"      // the server has no room left
	Unknown    = "unknown_commit" // a change is recorded as a whole or not at all, and which it is cannot be asked
)

// sayings are what people and programs are told, and what each error is.
var sayings = map[string]struct {
	word, message, do string
	is                error
}{
	Foreign: {"not_a_ledger", "%s has a schema indoubt that is not a ledger (%s)",
		"give the address of a ledger: --ledger URL / INDOUBT_LEDGER", nil},
	Permission: {"permission", "%s refuses this user (%s)",
		"check the user in the address, and the password in PGPASSFILE (~/.pgpass)", nil},
	Looker: {"read_only", "%s refuses this user (%s)", "", ledger.ErrReadOnly},
	Standby: {"read_only", "%s can only be read (%s)",
		"name all hosts of the ledger, with target_session_attrs=read-write", ledger.ErrReadOnly},
	FailedOver: {"failover", "%s failed over or was restored, and what was sent last may be missing",
		"nothing is begun or allowed until the owner of the ledger has looked at what was under way, and adopted it: indoubt adopt", ledger.ErrFailover},
	Lost: {"lost", "%s does not answer: %s",
		"check that the server runs and is reached from here; what cannot be recorded must not be sent", ledger.ErrLost},
	Crowded: {"locked", "%s takes no more connections (%s)",
		"try again; let fewer processes connect, raise max_connections, or put a pooler before it", ledger.ErrBusy},
	Partial: {"lost", "%s is not whole (%s)",
		"wait until its restore has ended; what cannot be recorded must not be sent", ledger.ErrLost},
	Old: {"lost", "%s is reached only on a server that another one took over from: %s lacks what was recorded since",
		"bring the server that took over back, and make the old one its standby; if the old one has to go on, promote it once more (standby.signal, pg_ctl promote), and then adopt it: indoubt adopt", ledger.ErrLost},
	Full: {"disk_full", "the server of %s has no room left (%s)",
		"make room on the server's disk; what cannot be recorded must not be sent", ledger.ErrFull},
	Unknown: {"unknown_commit", "cannot tell whether the change is recorded: the connection to %s was lost while it committed (%s)",
		"look whether it is there, and do the same again where it is not", ledger.ErrUnknown},
}

func (e *Error) Error() string { return e.Trouble(ledger.InFull).Error() }

// Trouble puts it in words.
func (e *Error) Trouble(name func(string) string) ledger.Trouble {
	said := sayings[e.Code]
	words := []any{name(e.Ledger), e.Why}
	return ledger.Trouble{Code: said.word, Message: fmt.Sprintf(said.message, words[:strings.Count(said.message, "%s")]...), Do: cmp.Or(e.Do, said.do)}
}

// Is matches the sentinel of its code: ledger.ErrReadOnly, ErrBusy, ErrFailover (which is
// ErrRefused, too), ErrLost, ErrUnknown, and ledger.ErrGuard for what the guards refuse a
// role.
func (e *Error) Is(target error) bool {
	if said := (*pgconn.PgError)(nil); target == ledger.ErrGuard && errors.As(e.Err, &said) {
		return said.Code == codeRefused
	}
	return target != nil && (sayings[e.Code].is == target || e.Code == FailedOver && target == ledger.ErrRefused)
}

// Unwrap gives the server's error.
func (e *Error) Unwrap() error { return e.Err }

// SQLSTATE codes (https://www.postgresql.org/docs/current/errcodes-appendix.html).
const (
	codeRefused       = "IN001" // our own, of the guards
	codeFailover      = "IN002"
	codeReadOnly      = "25006"
	codeUnique        = "23505"
	codeNull          = "23502"
	codeSerialization = "40001"
	codeDeadlock      = "40P01"
	codeLockTimeout   = "55P03"
	codeCanceled      = "57014"
	codeNoSchema      = "3F000"
	codeNoTable       = "42P01"
	codeNoFunction    = "42883"
	codeNoDatabase    = "3D000"
	codePrivilege     = "42501"
	codeNoObject      = "42704"
	codeLimit         = "54000"
	codeNoNumber      = "22P02"
	codeDiskFull      = "53100"
	codeConnections   = "53300"
	codeProtocol      = "08P01"
	codeNoStatement   = "26000"
	codeTwoStatements = "42P05"
	codeFeature       = "0A000"
)

// Translate turns errors of the driver into those that say what to do. The driver's
// errors of connecting carry the whole configuration: none is wrapped.
func (s *handle) Translate(err error) error {
	return translate(s.address.shown, err)
}

func translate(shown string, err error) error {
	if old := (*Error)(nil); errors.As(err, &old) && old.Code == Old { // without the driver's error around it
		return old
	}
	if err == nil || errors.Is(err, context.Canceled) || translated(err) {
		return err
	}
	var said *pgconn.PgError
	switch {
	case errors.As(err, &said):
		return byCode(shown, said)
	case connecting(err), broken(err), errors.Is(err, errAgain):
		why := unanswered(err)
		return &Error{Lost, shown, why, helps(why), nil}
	}
	return err
}

// helps says what to do about a server that is reached and answers something else, "" about
// one that is not.
func helps(why string) string {
	switch {
	case strings.Contains(why, "certificate"):
		return "name the authority that signed the server's certificate in PGSSLROOTCERT, and the server as the certificate does"
	case strings.Contains(why, "refused TLS"):
		return "have the server speak TLS (ssl = on), or say otherwise with sslmode in the address"
	case strings.Contains(why, "body length"), strings.Contains(why, "message type"):
		return "something else than PostgreSQL listens there: check the host and the port"
	}
	return ""
}

// unanswered says why a server does not answer: the cause of the network alone, without
// what the driver tells of its configuration and of each address in turn.
func unanswered(err error) string {
	var name *net.DNSError
	var call *os.SyscallError
	switch {
	case errors.As(err, &name):
		return "no host is known as " + name.Name
	case errors.Is(err, syscall.ENOENT):
		return "no server has made the socket"
	case errors.As(err, &call):
		return call.Err.Error()
	case errors.Is(err, context.DeadlineExceeded):
		return "not in time"
	case connecting(err):
		return line(cause(err))
	}
	return line(err)
}

// cause is what an error came from; of several, the last.
func cause(err error) error {
	type several interface {
		error
		Unwrap() []error
	}
	for {
		under := errors.Unwrap(err)
		if of, ok := errors.AsType[several](err); ok && len(of.Unwrap()) > 0 {
			under = of.Unwrap()[len(of.Unwrap())-1]
		}
		if under == nil {
			return err
		}
		err = under
	}
}

// translated reports whether an error is one of ours already.
func translated(err error) bool {
	for _, known := range []error{ledger.ErrBusy, ledger.ErrReadOnly, ledger.ErrGuard, ledger.ErrMoving, ledger.ErrFull, ledger.ErrFailover, ledger.ErrLost, ledger.ErrUnknown} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}

// ofOurs is an error that the ledger's own statements raise, or nil.
func ofOurs(shown string, said *pgconn.PgError) error {
	switch said.Code {
	case codeRefused:
		if do := lacking(shown, rolesIn(said.Message)); do != "" {
			return &Error{Permission, shown, said.Message, do, said}
		}
		return &ledger.GuardError{Message: said.Message, Moving: strings.HasPrefix(said.Message, store.Moved), Err: said}
	case codeFailover:
		return &Error{FailedOver, shown, said.Message, "", said}
	case codeNoNumber:
		if _, where, ok := strings.Cut(said.Message, oldServer); ok {
			return &Error{Old, shown, strings.Trim(where, `"`), "", nil}
		}
	}
	return nil
}

func byCode(shown string, said *pgconn.PgError) error {
	if err := ofOurs(shown, said); err != nil {
		return err
	}
	switch said.Code {
	case codeFeature:
		if said.Routine == "call_bool_check_hook" { // BEGIN READ WRITE on a standby
			return &Error{Standby, shown, said.Message, "", said}
		}
	case codeReadOnly:
		return &Error{Standby, shown, said.Message, "", said}
	case codeSerialization, codeDeadlock, codeLockTimeout, codeCanceled:
		return fmt.Errorf("%w: %s: %w", ledger.ErrBusy, shown, said)
	case codeLimit:
		return &ledger.GuardError{Message: "a key or a target is too long for PostgreSQL to find it by (about 2,700 bytes): give a digest of it", Err: said}
	case codeNull:
		return missing(shown, said)
	case codeDiskFull:
		return &Error{Full, shown, said.Message, "", said}
	case codeConnections:
		return &Error{Crowded, shown, said.Message, "", said}
	case codeNoDatabase:
		return &ledger.MissingError{Ledger: shown, Why: said.Message, Do: "check the name (--ledger / INDOUBT_LEDGER); `indoubt init` makes a ledger in a database that is there: CREATE DATABASE"}
	case codeNoSchema, codeNoTable:
		return &ledger.MissingError{Ledger: shown, Why: said.Message}
	case codePrivilege:
		return &Error{Permission, shown, said.Message, permitting(shown, said), said}
	case codeNoObject:
		if len(rolesIn(said.Message)) != 0 {
			return &Error{Permission, shown, said.Message, rolesAnew, said}
		}
	}
	if strings.HasPrefix(said.Code, "28") { // of logging in
		e := &Error{Permission, shown, said.Message, "", said}
		if strings.Contains(said.Message, "pg_hba.conf") {
			e.Do = "have the server's pg_hba.conf let this user in from here; where it wants encryption, give sslmode=verify-full"
		}
		return e
	}
	if ended(said) {
		do := ""
		if strings.HasPrefix(said.Code, "42") || strings.HasPrefix(said.Code, "22") { // of a setting
			do = "take it out of the address, PGOPTIONS or the service file"
		}
		return &Error{Lost, shown, said.Message, do, said}
	}
	switch said.Code[:min(2, len(said.Code))] {
	case "23":
		return &ledger.GuardError{Message: said.Message, Err: said}
	case "53":
		return fmt.Errorf("%w: %s: %w", ledger.ErrFull, shown, said)
	}
	return fmt.Errorf("%s: %w", shown, said)
}

// permitting says what gives a user what the server refuses it.
func permitting(shown string, said *pgconn.PgError) string {
	switch {
	case strings.HasPrefix(said.Message, "permission denied for database"):
		return "give the same command as the user that owns the database"
	case strings.HasPrefix(said.Message, "query would be affected by row-level security"):
		return "rows of the ledger are hidden from this user: its owner gives ALTER TABLE indoubt.NAME DISABLE ROW LEVEL SECURITY"
	case strings.Contains(said.Message, `"session_replication_role"`):
		return "the guards of the ledger do not run for this user: ALTER ROLE NAME RESET session_replication_role"
	}
	return cmp.Or(lacking(shown, roleFor(said.Message)), said.Hint)
}

// missing is why a column has no value: the guards number the rows.
func missing(shown string, said *pgconn.PgError) error {
	if said.ColumnName == "seq" {
		return &Error{Partial, shown, said.Message, "", said}
	}
	return &ledger.GuardError{Message: said.Message, Err: said}
}

// ended reports whether an error has ended the session, or kept it from beginning. Poolers
// may leave out the severity that no language changes.
func ended(said *pgconn.PgError) bool {
	severity := cmp.Or(said.SeverityUnlocalized, said.Severity)
	return severity == "FATAL" || severity == "PANIC"
}

// connecting reports whether no connection could be made.
func connecting(err error) bool {
	var failed *pgconn.ConnectError
	return errors.As(err, &failed)
}

// broken reports whether a connection ended, or did not answer.
func broken(err error) bool {
	var network net.Error
	return errors.As(err, &network) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, errSilent) || pgconn.SafeToRetry(err)
}

// line is an error's text in one line, without the driver's error and what it carries.
func line(err error) string {
	return strings.Join(strings.Fields(err.Error()), " ")
}
