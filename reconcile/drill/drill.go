// Package drill makes an outage one can practise on: a downstream that loses
// answers, pipelines that write to it, and the ledger they leave behind.
//
// Everything in it is real except the money: the downstream is an HTTP server
// with a database, cut connections are cut, a pipeline that is killed records nothing
// more, and all are HTTP clients that record, as any Go program can be. Only the
// clock of the past is set by hand, so that an hour of history is made in seconds.
// It may import the ledger, its recorder of HTTP, the policy and the reconcile
// package; nothing but the command line imports it.
package drill
