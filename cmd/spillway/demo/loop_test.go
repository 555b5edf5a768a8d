package demo

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// TestLoopVerdict walks through what can come back.
func TestLoopVerdict(t *testing.T) {
	shots := func(status, gateways int, took time.Duration, err error) []shot {
		due := time.Unix(1000, 0)
		a := answer{status: status, gateways: gateways}
		if status == http.StatusOK {
			a.datacenter = nearby
		}
		return []shot{{due: due, done: due.Add(took), answer: a, err: err}}
	}
	well := shots(200, 0, time.Millisecond, nil)
	served, cut, off := loopCases()[0], loopCases()[1], loopCases()[3]
	for name, v := range map[string]struct {
		c            loopCase
		users, local []shot
		ok           bool
	}{
		"served":              {served, shots(200, 1, time.Millisecond, nil), well, true},
		"served after a hop":  {served, shots(200, 2, time.Millisecond, nil), well, false},
		"refused":             {served, shots(508, 1, time.Millisecond, nil), well, false},
		"cut":                 {cut, shots(508, 2, time.Millisecond, nil), well, true},
		"cut too late":        {cut, shots(508, 4, time.Millisecond, nil), well, false},
		"cut slowly":          {cut, shots(508, 2, 3*time.Second, nil), well, false},
		"hung":                {cut, shots(0, 0, 10*time.Second, errors.New("timeout")), well, false},
		"something else":      {cut, shots(502, 2, time.Millisecond, nil), well, false},
		"local ones suffered": {cut, shots(508, 2, time.Millisecond, nil), shots(503, 0, time.Millisecond, nil), false},
		"round":               {off, shots(508, 33, time.Second, nil), well, true},
		"round for ever":      {off, shots(0, 0, 10*time.Second, errors.New("timeout")), well, true},
		"not round at all":    {off, shots(200, 2, time.Millisecond, nil), well, false},
		"round, local too":    {off, shots(508, 33, time.Second, nil), shots(503, 0, time.Millisecond, nil), false},
	} {
		if r := loopRow(v.c, v.users, v.local); r.ok != v.ok || len(r.cells) != len(loopColumns()) {
			t.Errorf("%s: ok=%v (%s), want %v", name, r.ok, r.why, v.ok)
		}
	}
}

// TestGateway: it forwards all fields, to the service or to the other gateway as its table says.
func TestGateway(t *testing.T) {
	out := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Got", r.Host+" "+r.Header.Get("Tracestate"))
	}))
	defer out.Close()
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- Gateway(ctx, GatewayOptions{Listen: "127.0.0.1:0", Datacenter: nearby, Outbound: strings.TrimPrefix(out.URL, "http://")}, w)
	}()
	line, err := bufio.NewReader(r).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	g := &gateway{datacenter: nearby, address: strings.TrimSpace(line)}
	for _, v := range []struct{ owner, host string }{{nearby, serviceName}, {faraway, gatewayService}, {nearby, serviceName}} {
		if err := g.decide(t.Context(), v.owner); err != nil {
			t.Fatal(err)
		}
		req, _ := http.NewRequest(http.MethodGet, "http://"+g.address+"/x", nil)
		req.Header.Set("Tracestate", "spillway=1:1:")
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if got := resp.Header.Get("X-Got"); got != v.host+" spillway=1:1:" || len(resp.Header.Values(fieldGateways)) != 1 {
			t.Errorf("owner %s: %q, %v", v.owner, got, resp.Header)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
