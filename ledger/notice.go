package ledger

import "strings"

// NoticeKind is the kind of the operations by which indoubt itself tells people what
// happened, through one notifier of the policy.
func NoticeKind(notifier string) string { return "notify." + notifier }

// IsNotice reports whether operations of a kind are indoubt's own. They count in no
// outage, and no one is told of them: a notifier that fails must not set off others.
func IsNotice(kind string) bool { return kind == "notify" || strings.HasPrefix(kind, "notify.") }
