# Prints `go test -bench` output as one table beside the limits that hold. Times
# are shown in milliseconds. A limit that is not held is said, not punished: machines differ.
function limit(pattern, unit, must, aim) {
	patterns[++limits] = pattern; units[limits] = unit; musts[limits] = must; aims[limits] = aim
}
function row(name, unit, value,    i, word, what) {
	if (unit == "ns/op") { unit = "ms"; value /= 1e6 }
	for (i = 1; i <= limits; i++) {
		if (unit != units[i] || name !~ patterns[i]) continue
		what = substr(musts[i], 1, 2); word = substr(musts[i], 4) + 0
		word = (what == "<=" && value > word || what == ">=" && value < word) ? "NOT HELD" : "ok"
		if (word != "ok") broken++
		printf "%-44s %12.4g %-10s %10s %8s  %s\n", name, value, unit, musts[i], aims[i], word
		return
	}
	if (value > 0) printf "%-44s %12.4g %-10s\n", name, value, unit
}
BEGIN {
	limit("^BeginSettle/inflight=1$", "×raw", ">= 0.6", "0.85")
	limit("^BeginSettle/inflight=16$", "×raw", ">= 1", "2")
	limit("^postgres BeginSettle/inflight=1$", "role×raw", ">= 0.4", "")
	limit("^postgres BeginSettle/inflight=16$", "role×raw", ">= 0.2", "0.35")
	limit("^postgres CommitToSeen/listening$", "p99-ms", "<= 30", "")
	limit("^postgres CommitToSeen/load$", "p99-ms", "<= 80", "")
	limit("^postgres CommitToSeen/polling$", "p99-ms", "<= 1100", "")
	limit("^postgres FirstPage1M/server$", "counts-ms", "<= 5", "")
	limit("^postgres FirstPage1M/server$", "needs_you-ms", "<= 5", "")
	limit("^FourProcesses$", "fairness", ">= 0.5", "0.65")
	limit("^FourProcesses$", "longest-ms", "<= 150", "75")
	limit("^CommitToSeen$", "p50-ms", "<= 12", "")
	limit("^CommitToSeen$", "p99-ms", "<= 25", "5")
	limit("^FirstPage1M/(counts|next)$", "ms", "<= 1", "0.2")
	limit("^FirstPage1M/[a-z_]+/(loss|newest|oldest)$", "ms", "<= 1", "0.2")
	limit("^FirstPage1M/filter/", "ms", "<= 30", "7")
	limit("^FirstPage1M/find/", "ms", "<= 50", "5")
	limit("^Start/version$", "ms", "<= 6", "")
	limit("^Start/version$", "slowest-init-ms", "<= 1", "")
	limit("^Start/run$", "ms", "<= 12", "")
	limit("^Start/frame$", "×bare", "<= 1.3", "")
	limit("^FirstFrame/console$", "×bare", "<= 1.3", "")
	limit("^WriterBesideConsoles/3$", "×alone", ">= 0.9", "")
	limit("^WriterBesideConsoles/10$", "×alone", ">= 0.75", "")
	limit("^ArchiveBesideAWriter/", "×alone", ">= 0.8", "0.9")
	limit("^ConsoleUnderLoad$", "p99-ms", "<= 25", "5")
	limit("^ConsoleUnderLoad$", "cores", "<= 1", "")
	limit("^ConsoleUnderLoad$", "idle-%", "<= 1.2", "0.2")
	limit("^ConsoleUnderLoad$", "changes/s", ">= 950", "1000")
	limit("^ConsoleFarAway$", "p99-ms", "<= 25", "")
	limit("^ConsoleFarAway$", "idle-%", "<= 1.2", "")
	limit("^Reads$", "x-ideal", "<= 1.3", "1.1")
	limit("^Reconcile$", "x-ideal", "<= 1.3", "1.1")
	limit("^Reconcile$", "cores", "<= 1", "")
	printf "%-44s %12s %-10s %10s %8s\n", "what", "measured", "", "must", "aim"
}
/^pkg:/ { store = $2 ~ /\/postgres$/ ? "postgres " : "" } # both stores have the same rows
/^Benchmark/ {
	name = $1; sub(/^Benchmark/, "", name); sub(/-[0-9]+$/, "", name); name = store name
	ran++
	for (i = 3; i < NF; i += 2) {
		if ($(i + 1) ~ /^(B|allocs)\/op$/) continue
		row(name, $(i + 1), $i)
		if ($(i + 1) == "ns/op") took[name] = $i
	}
	if (name == "FirstFrame/console" && took["FirstFrame/bare"]) row(name, "×bare", took[name] / took["FirstFrame/bare"])
}
/^(FAIL|panic:|--- FAIL)/ { failed = 1; print }
END {
	if (!ran) print "no benchmark ran"
	if (broken) printf "%d limit(s) not held\n", broken
	exit (!ran || failed) ? 1 : 0
}
