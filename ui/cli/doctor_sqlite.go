package cli

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"

	_ "modernc.org/sqlite" // the doctor looks at the file itself, beside the store
)

// integrity lets SQLite check the whole file. It returns what is wrong, "" when
// nothing is.
func integrity(ctx context.Context, path string) (string, error) {
	full, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	full = filepath.ToSlash(full)
	if !strings.HasPrefix(full, "/") { // C:/…
		full = "/" + full
	}
	u := url.URL{Scheme: "file", Path: full, RawQuery: "mode=ro&_pragma=busy_timeout(5000)"}
	db, err := sql.Open("sqlite", u.String())
	if err != nil {
		return "", fmt.Errorf("check the ledger: %w", err)
	}
	defer db.Close()
	rows, err := db.QueryContext(ctx, "PRAGMA quick_check(5)")
	if err != nil {
		return "", fmt.Errorf("check the ledger: %w", err)
	}
	defer rows.Close()
	var problems []string
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			return "", fmt.Errorf("check the ledger: %w", err)
		}
		if line != "ok" {
			problems = append(problems, line)
		}
	}
	return strings.Join(problems, "; "), rows.Err()
}
