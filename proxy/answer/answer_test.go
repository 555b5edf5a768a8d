package answer

import (
	"strconv"
	"strings"
	"testing"
)

// The contract with callers, row by row: others write clients against it.
func TestTable(t *testing.T) {
	rows := strings.Fields(`
		no_route:404:12:- no_healthy_endpoint:503:14:- not_ready:503:14:- overflow:503:8:R reserve:503:8:R shed:503:8:-
		connect_failure:503:14:- reset:503:14:- timeout:504:4:- loop:508:10:- hold_timeout:503:14:R stale_epoch:503:14:R denied:403:7:-
		bad_request:400:3:- payload_too_large:413:8:- request_timeout:408:4:- header_too_large:431:8:- draining:503:14:R`)
	if len(rows) != int(CodeCount)-1 {
		t.Fatalf("%d rows for %d codes", len(rows), CodeCount-1)
	}
	for i, row := range rows {
		c := Code(i + 1)
		parts := strings.Split(row, ":")
		got := []string{c.String(), strconv.Itoa(c.Status()), strconv.Itoa(c.GRPC()), "-"}
		if c.MayResend() {
			got[3] = "R"
		}
		if strings.Join(got, ":") != row {
			t.Errorf("%s, want %s", strings.Join(got, ":"), row)
		}
		if Parse([]byte(parts[0])) != c {
			t.Errorf("%s does not parse to itself", parts[0])
		}
	}
	for _, bad := range []string{"", "none", "Overflow", "overflow ", "drainin"} {
		if Parse([]byte(bad)) != None {
			t.Errorf("%q parses", bad)
		}
	}
	if e := (&Error{Code: Overflow, Hint: "pay@dc2 64/64 connections"}); e.Error() != "overflow: pay@dc2 64/64 connections" {
		t.Error(e.Error())
	}
}
