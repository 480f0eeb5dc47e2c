package ledger

// NoticeTold is the verb of the event that lets people be told something once.
const NoticeTold = "notice"
