# Prints `go test -bench` output as one table. A benchmark that holds a limit
# reports it beside the value: "p99-ms" with "p99-ms-atmost" or "p99-ms-atleast"
# (and "p99-ms-aim" for what is wished). The exit status tells whether every
# limit holds.
/^Benchmark/ {
	name = $1; sub(/^Benchmark/, "", name); sub(/-[0-9]+$/, "", name); gsub(/_/, " ", name)
	names[++n] = name
	for (i = 3; i < NF; i += 2) {
		unit = $(i + 1); value = $i
		if (unit ~ /-(atmost|atleast|aim)$/) { limit[n, unit] = value; continue }
		units[n, ++count[n]] = unit; values[n, count[n]] = value
	}
}
/^(FAIL|panic:|--- FAIL)/ { failed = 1 }
END {
	line = "%-58s %-16s %12s %12s %12s  %s\n"
	printf line, "what", "unit", "measured", "must", "aim", ""
	for (b = 1; b <= n; b++) {
		bounded = 0
		for (j = 1; j <= count[b]; j++) {
			u = units[b, j]
			if (((b, u "-atmost") in limit) || ((b, u "-atleast") in limit)) bounded = 1
		}
		for (j = 1; j <= count[b]; j++) {
			u = units[b, j]; v = values[b, j]; must = ""; word = ""
			aim = ((b, u "-aim") in limit) ? limit[b, u "-aim"] : ""
			if ((b, u "-atmost") in limit)  { must = limit[b, u "-atmost"];  word = (v + 0 <= must + 0) ? "ok" : "OVER";  must = "<= " must }
			if ((b, u "-atleast") in limit) { must = limit[b, u "-atleast"]; word = (v + 0 >= must + 0) ? "ok" : "UNDER"; must = ">= " must }
			if (bounded && word == "") continue
			if (!bounded && u !~ /^(ns\/op|allocs\/op)$/) continue
			if (word == "OVER" || word == "UNDER") over++
			printf line, names[b], u, v, must, aim, word
		}
	}
	if (n == 0) { print "no benchmark ran"; exit 1 }
	if (over) printf "%d limit(s) not held\n", over
	exit (over || failed) ? 1 : 0
}
