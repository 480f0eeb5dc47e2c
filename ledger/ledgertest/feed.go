package ledgertest

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"indoubt/ledger"
)

func events(t *testing.T, open Open) {
	d := newDesk(t, open)
	var ids []string
	for _, key := range []string{"a", "b", "c"} {
		ids = append(ids, d.decide(d.doubt(key), ledger.VerbConfirm).ID)
	}
	all := d.events("")
	if len(all) != 9 {
		d.Fatalf("%d events, want 9", len(all))
	}
	for i, e := range all {
		if i > 0 && (e.Seq <= all[i-1].Seq || e.At.Before(all[i-1].At)) {
			d.Fatalf("event %d (seq %d) comes after seq %d", i, e.Seq, all[i-1].Seq)
		}
		if e.Detail != nil && !json.Valid(e.Detail) {
			d.Fatalf("the detail of event %d is no JSON: %s", e.Seq, e.Detail)
		}
	}
	// The feed in pages is the feed, whatever the page.
	for _, limit := range []int{1, 2, 4, 100} {
		var got []ledger.Event
		for after := int64(0); ; {
			page, err := d.s.Events(ctx, "", after, limit)
			d.ok(err)
			if len(page) == 0 {
				break
			}
			if len(page) > limit {
				d.Fatalf("%d events, asked for %d", len(page), limit)
			}
			got, after = append(got, page...), page[len(page)-1].Seq
		}
		if len(got) != len(all) || got[8].Seq != all[8].Seq {
			d.Fatalf("in pages of %d the feed has %d events", limit, len(got))
		}
	}
	if own := d.events(ids[1]); len(own) != 3 || own[0].OperationID != ids[1] || own[0].Seq != all[3].Seq {
		d.Fatalf("the events of b are %+v", own)
	}
	info, err := d.s.Info(ctx)
	d.ok(err)
	if info.LastSeq != all[8].Seq || !info.LastWrite.Equal(all[8].At) || info.LastBy != "billing" || info.LastError.IsZero() || info.ID == "" {
		d.Fatalf("the ledger says of itself %+v", info)
	}
}

func watch(t *testing.T, open Open) {
	d := newDesk(t, open)
	wctx, stop := context.WithCancel(ctx)
	defer stop()
	w := d.s.Watch(wctx)
	drain := func() {
		for {
			select {
			case <-w:
			case <-time.After(50 * time.Millisecond):
				return
			}
		}
	}
	drain()
	for i := range 3 {
		d.begun(string(rune('a' + i)))
		select {
		case <-w:
		case <-time.After(5 * time.Second):
			d.Fatalf("commit %d went unnoticed", i+1)
		}
		drain()
	}
	stop()
	for deadline := time.After(5 * time.Second); ; {
		select {
		case _, more := <-w:
			if !more {
				return
			}
		case <-deadline:
			d.Fatalf("the channel stays open after its context ended")
		}
	}
}
