package http1

import (
	"time"

	"spillway/telemetry/accesslog"
)

// logRecord fills what the request itself says. The byte slices alias the connection's buffer; the logger copies them.
func logRecord(x *conn, took time.Duration) accesslog.Record {
	ex := &x.ex
	r := accesslog.Record{Time: ex.start, Listener: x.s.Name, Status: ex.status, Attempts: ex.attempts + ex.resends,
		BytesIn: ex.bytesIn, BytesOut: ex.bytesOut, Duration: took}
	if ex.parsed {
		r.Method, r.Host, r.Path = x.req.Bytes(x.req.MethodSpan), x.req.Bytes(x.req.Authority), x.req.Bytes(x.req.Path)
		r.RequestID, _ = x.requestID()
	}
	return r
}
