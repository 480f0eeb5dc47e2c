package record

import "testing"

func TestI2_AFailureMustNotSpeakAgainstItself(t *testing.T) {
	for text, doubtful := range map[string]bool{
		"HTTP 409 already there": true, "HTTP/1.1 503": true, "status=500": true, "status code: 429": true, "timeout": true,
		"read: connection reset by peer": true, "unexpected EOF": true, "context deadline exceeded": true, "request timed out": true,
		"HTTP 422 card declined": false, "status 400": false, "card declined": false, "": false, "invoice 409 is unknown": false,
	} {
		if why := Ambiguous("", text); (why != "") != doubtful {
			t.Errorf("%q: %q", text, why)
		}
	}
	if Ambiguous("timeout", "") == "" {
		t.Error("an error class is a sign of doubt")
	}
}
