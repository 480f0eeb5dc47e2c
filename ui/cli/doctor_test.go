package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/reconcile"
)

// findings are the doctor's lines by check; the worst one where there are several.
func (b *bench) findings(exit int, args ...string) map[string]ledger.Finding {
	b.Helper()
	var data struct{ Checks []ledger.Finding }
	need.OK(b, json.Unmarshal(b.json(exit, append([]string{"doctor"}, args...)...).Data, &data))
	out := map[string]ledger.Finding{}
	for _, f := range data.Checks {
		if had, ok := out[f.Check]; !ok || had.Level == ledger.LevelOK || f.Level == ledger.LevelFail {
			out[f.Check] = f
		}
		need.That(b, f.Level == ledger.LevelOK || f.Do != "", "%s (%s) does not say what to do: %s", f.Check, f.Level, f.Found)
	}
	return out
}

// doctorWarnsOfALag: an effect that a check missed for almost as long as the policy says that it
// may take to show. stripe.charge lands within 2m and shows at once.
func doctorWarnsOfALag(t *testing.T) {
	for after, warns := range map[time.Duration]bool{time.Minute: false, 97 * time.Second: true, time.Hour: true} {
		b := newBench(t)
		b.doubt(1, "stripe.charge", charge)
		b.now = b.now.Add(after)
		b.read(1, ledger.Read{Verdict: ledger.CannotTell, Cause: ledger.CauseNone, Reason: "none found"})
		b.now = b.now.Add(time.Hour)
		b.read(1, ledger.Read{Verdict: ledger.Landed, Reason: "one has its token", Found: 1, Receipts: []string{"pi_1"}})
		f := b.findings(0)["lag"]
		need.That(t, warns == (f.Level == ledger.LevelWarn), "%s: %+v", after, f)
		need.That(t, !warns || strings.Contains(f.Found, (after-time.Second).String()+" after"), "%s: %+v", after, f)
	}
}

// doctorKnowsTheAgeOfTheBackup: a ledger in a file without one of the last day is warned about, in the metrics, too.
func doctorKnowsTheAgeOfTheBackup(t *testing.T) {
	b := newBench(t)
	b.doubt(1, "stripe.charge", charge)
	to := filepath.Join(b.dir, "backups")
	need.OK(t, os.Mkdir(to, 0o700))
	says := func(level, found string, seconds float64) {
		t.Helper()
		f := b.findings(0)["backup"]
		need.That(t, f.Level == level && strings.Contains(f.Found, found), "%+v", f)
		var out strings.Builder
		need.OK(t, writeMetrics(t.Context(), &exposition{w: &out}, b.open(), reconcile.New(reconcile.Options{Store: b.open()}), nil, b.now))
		need.Equal(t, parseMetrics(t, out.String())["indoubt_backup_age_seconds{}"], seconds)
	}
	says(ledger.LevelOK, "none yet", 30)
	b.now = b.now.Add(30 * time.Hour)
	says(ledger.LevelWarn, "none of this file", 108030)
	need.Contains(t, b.want(2, "backup", to, "--keep", "0"), "keeps nothing")
	need.Contains(t, b.want(0, "backup", to, "--keep", "1"), "copied to "+to+"/ledger-20260715T09")
	says(ledger.LevelOK, "the newest is", 0)
	written := need.Get(b.open().Info(t.Context()))(t).LastWrite
	b.now = b.now.Add(27 * time.Hour)
	says(ledger.LevelWarn, "the newest is 27h ago", 97200)
	here := need.Get(filepath.Rel(need.Get(os.Getwd())(t), to))(t)
	need.Contains(t, b.want(0, "backup", here, "--keep", "1"), "removed "+to+"/ledger-20260715T09")
	says(ledger.LevelOK, "the newest is", 0)
	need.That(t, need.Get(b.open().Info(t.Context()))(t).LastWrite.Equal(written), "a backup breaks the silence")
	need.Contains(t, b.want(0, "--read-only", "backup", filepath.Join(to, "looked.db")), "do not know of this backup")
}

func TestDoctorOnAHealthyLedger(t *testing.T) {
	t.Run("nor so its backup", doctorKnowsTheAgeOfTheBackup)
	t.Run("not so the lag of its checks", doctorWarnsOfALag)
	b := newBench(t)
	b.doubt(1, "stripe.charge", charge)
	for check, f := range b.findings(0) {
		need.Equal(t, f.Level, ledger.LevelOK, check, f.Found)
	}
	out := b.want(0, "doctor")
	for _, check := range []string{"ledger", "home", "integrity", "derived", "permissions", "writable", "lock", "policy", "secrets", "last write"} {
		need.That(t, strings.Contains(out, "ok    "+check+" "), "%s is missing:\n%s", check, out)
	}
}

func TestDoctorFindsWhatIsWrong(t *testing.T) {
	b := newBenchAlone(t)
	if f := b.findings(1)["ledger"]; f.Level != ledger.LevelFail || !strings.Contains(f.Found, "not an all-clear") {
		t.Errorf("%+v", f)
	}
	b.open()
	if f := b.findings(0)["last write"]; f.Level != ledger.LevelWarn {
		t.Errorf("an empty ledger: %+v", f)
	}
	b.doubt(1, "strange.kind", charge)
	b.want(0, "hold", "--all", "--reason", "outage")
	t.Setenv("STRIPE_KEY", "")
	need.OK(t, os.Chmod(b.ledger, 0o644))
	b.now = b.now.Add(30 * time.Hour)
	found := b.findings(1)
	for check, level := range map[string]string{"secrets": ledger.LevelFail, "permissions": ledger.LevelWarn, "hold": ledger.LevelWarn, "last write": ledger.LevelWarn} {
		if found[check].Level != level {
			t.Errorf("%s: %+v", check, found[check])
		}
	}
	need.That(t, strings.Contains(found["secrets"].Found, "STRIPE_KEY"), "%+v", found)
	need.OK(t, os.WriteFile(b.policy, []byte("version: 1\nnonsense: 2\n"), 0o600))
	if f := b.findings(1)["policy"]; f.Level != ledger.LevelFail {
		t.Errorf("%+v", f)
	}
	b.policy = filepath.Join(b.dir, "none.yaml")
	if f := b.findings(1)["policy"]; f.Level != ledger.LevelFail {
		t.Errorf("a policy that was named and is missing: %+v", f)
	}
}

// Where an operation stands is compared with its history.
func TestDoctorComparesWithTheHistory(t *testing.T) {
	b := newBench(t)
	b.doubt(1, "stripe.charge", charge)
	b.doubt(2, "stripe.charge", strings.Replace(charge, "INV-1042", "INV-2", 1))
	need.Equal(t, b.findings(0)["derived"].Level, ledger.LevelOK)
	execSQL(t, b.ledger, `DROP TRIGGER op_refuse_update; DROP TRIGGER op_tell_update; UPDATE op SET state = 'committed' WHERE id = '`+id(1)+`'`)
	if f := b.findings(1)["derived"]; f.Level != ledger.LevelFail || !strings.Contains(f.Found, "op has 1 wrong row") || !strings.Contains(f.Found, id(1)) {
		t.Errorf("%+v", f)
	}
}

func TestDoctorSeesADamagedFile(t *testing.T) {
	b := newBench(t)
	for n := 1; n < 20; n++ {
		b.doubt(n, "stripe.charge", strings.Replace(charge, "INV-1042", strings.Repeat("x", 3000)+id(n), 1))
	}
	b.open().Close()
	execSQL(t, b.ledger, "PRAGMA wal_checkpoint(TRUNCATE)")
	content := need.Get(os.ReadFile(b.ledger))(t)
	for i := len(content) / 2; i < len(content)/2+40000 && i < len(content); i++ {
		content[i] = 0x5a
	}
	if err := os.WriteFile(b.ledger, content, 0o600); err != nil { // the same file, so it is at home
		t.Fatal(err)
	}
	found := b.findings(1) // at the first look or at the thorough one, as the damage lies
	need.That(t, found["ledger"].Level == ledger.LevelFail || found["integrity"].Level == ledger.LevelFail, "%+v", found)
}
