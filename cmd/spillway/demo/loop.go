package demo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"time"
)

// What the loop scenario measures and promises.
const (
	loopRequests   = 300                  // of a row, to the gateway of dc1, and as many that have nothing to do with gateways
	loopEvery      = 5 * time.Millisecond // 200 a second each
	loopLongestMax = 2.0                  // seconds; a request that goes round takes as long as it is let
	loopGuardOff   = 32                   // a hop.limit that lets requests go round until the chain is too deep
)

// loopCase is one row: what the tables say, and what a chain may do.
type loopCase struct {
	tables   string
	owner1   string // what the gateway of dc1 believes
	owner2   string
	limit    int
	status   int // of every answer
	gateways int // that every request passes
}

func loopCases() []loopCase {
	return []loopCase{
		{"both say dc1", nearby, nearby, 1, http.StatusOK, 1},
		{"each says the other", faraway, nearby, 1, http.StatusLoopDetected, 2},
		{"both say dc2", faraway, faraway, 1, http.StatusOK, 2},
		{"each says the other", faraway, nearby, loopGuardOff, http.StatusLoopDetected, loopGuardOff + 1},
	}
}

func loopColumns() []column {
	return []column{
		{key: "tables", title: "tables", left: true},
		{key: "hop_limit", title: "hop.limit"},
		{key: "requests", title: "requests"},
		{key: "served", title: "served"},
		{key: "loop_508", title: "508"},
		{key: "failed", title: "other"},
		{key: "gateways_passed_max", title: "gateways passed"},
		{key: "longest_seconds", title: "longest s"},
		{key: "local_requests", title: "local requests"},
		{key: "local_errors", title: "errors"},
		{key: "local_p50_ms", title: "p50 ms"},
	}
}

// loopRow is the verdict: every answer is what the tables ask for, after as many gateways as it takes, and local requests notice nothing.
// Where requests may go round it is not the sidecar's to promise how many of them come back; local requests must not notice that either.
func loopRow(c loopCase, users, local []shot) row {
	served, loops, passed, least, longest := 0, 0, 0, loopGuardOff+1, 0.0
	other := ""
	for _, s := range users {
		longest = max(longest, s.done.Sub(s.due).Seconds())
		passed, least = max(passed, s.answer.gateways), min(least, s.answer.gateways)
		switch {
		case s.good():
			served++
		case s.err == nil && s.answer.status == http.StatusLoopDetected:
			loops++
		case other == "":
			other = failure(s.answer, s.err)
		}
	}
	t := newTally()
	for _, s := range local {
		t.add(s.answer, s.err, s.done.Sub(s.due))
	}
	as := map[int]int{http.StatusOK: served, http.StatusLoopDetected: loops}
	r := row{ok: true, cells: []cell{word(c.tables), count(c.limit), count(len(users)), count(served), count(loops), count(len(users) - served - loops),
		count(passed), number(longest, 3), count(t.requests), count(t.errors), number(quantile(t.took, 0.5), 2)}}
	switch {
	case t.errors > 0:
		r.ok, r.why = false, "local requests: "+t.first
	case c.limit == loopGuardOff && served > 0:
		r.ok, r.why = false, "nothing went round"
	case c.limit == loopGuardOff:
		r.why = "for comparison, as without a guard"
	case other != "":
		r.ok, r.why = false, other
	case as[c.status] != len(users):
		r.ok, r.why = false, fmt.Sprintf("every answer should be %d", c.status)
	case least != c.gateways || passed != c.gateways:
		r.ok, r.why = false, fmt.Sprintf("%d to %d gateways passed", least, passed)
	case longest > loopLongestMax:
		r.ok, r.why = false, fmt.Sprintf("an answer took more than %.0f s", loopLongestMax)
	}
	return r
}

// playLoop lets two gateways disagree about where users belong.
func playLoop(ctx context.Context, s *stage, r *scenario) error {
	r.Shows = fmt.Sprintf("two gateways, applications behind sidecars, send users to the datacenter that their table names. The users move from dc1 to dc2, and\n"+
		"for a while each table says that they belong to the other one. %d requests a second to the gateway of dc1, as many local ones beside.", int(time.Second/loopEvery))
	r.Means = fmt.Sprintf("A request hops once and comes back with 508 at once. With hop.limit %d it goes round until the chain is too deep, and the requests that do\n"+
		"  so wait for each other's connections; that costs the gateways alone, local requests do not notice.", loopGuardOff)
	cases := loopCases()
	r.rowsMin = len(cases)
	t := r.table(loopColumns())
	limit := 0
	var pair [2]*gateway
	stop := func() {
		for _, g := range pair {
			if g != nil {
				g.stop()
			}
		}
	}
	defer func() { stop() }()
	for _, c := range cases {
		if c.limit != limit {
			s.progress.show("starting two gateways, hop.limit %d", c.limit)
			stop()
			var err error
			if pair, err = s.world.gateways(ctx, c.limit); err != nil {
				return err
			}
			limit = c.limit
		}
		if err := errors.Join(pair[0].decide(ctx, c.owner1), pair[1].decide(ctx, c.owner2)); err != nil {
			return err
		}
		line, err := loopRun(ctx, s, c, pair[0])
		if err != nil {
			return err
		}
		t.rows = append(t.rows, line)
	}
	return nil
}

// loopRun sends both loads of one row.
func loopRun(ctx context.Context, s *stage, c loopCase, entry *gateway) (row, error) {
	get := func(int) string { return http.MethodGet }
	var users, local []shot
	var userErr, localErr error
	var wg sync.WaitGroup
	wg.Go(func() {
		local, localErr = openLoad{address: entry.side.address(), requests: loopRequests, every: loopEvery, method: get, faultAt: -1}.run(ctx)
	})
	users, userErr = openLoad{address: entry.address, requests: loopRequests, every: loopEvery, method: get, faultAt: -1,
		each: func(sent, answered int) {
			s.progress.show("tables: %s, hop.limit %d: %d of %d requests sent, %d open", c.tables, c.limit, sent, loopRequests, sent-answered)
		}}.run(ctx)
	wg.Wait()
	if err := errors.Join(userErr, localErr); err != nil {
		return row{}, err
	}
	return loopRow(c, users, local), nil
}

// gateways starts one gateway with a sidecar in each datacenter. Each gateway's sidecar knows the other gateway by the sidecar in front of it.
func (w *world) gateways(ctx context.Context, hopLimit int) (pair [2]*gateway, err error) {
	for try := range sidecarTriesMax {
		if pair, err = w.startGateways(ctx, hopLimit, try); err == nil || ctx.Err() != nil {
			return pair, err
		}
	}
	return pair, err
}

func (w *world) startGateways(ctx context.Context, hopLimit, try int) (pair [2]*gateway, err error) {
	pair = [2]*gateway{{datacenter: nearby}, {datacenter: faraway}}
	defer func() {
		if err != nil {
			pair[0].stop()
			pair[1].stop()
		}
	}()
	for i, g := range pair {
		name := fmt.Sprintf("gateway-%s-%d-%d", g.datacenter, hopLimit, try+1)
		set := w.settings(name, setup{})
		set.Region, set.Beside, set.HopLimit, set.InboundIP = g.datacenter, gatewayService, hopLimit, loopback(i+1, endpointsEach+1).String()
		g.side = &sidecar{settings: set}
		if err = g.side.ports(); err != nil {
			return pair, err
		}
		g.proc, err = start(name, w.executable, "demo-gateway", "--listen", net.JoinHostPort(set.InboundIP, "0"), "--datacenter", g.datacenter, "--outbound", g.side.address())
		if err != nil {
			return pair, err
		}
		if g.address, err = g.proc.line(ctx); err != nil {
			return pair, err
		}
	}
	for i, g := range pair {
		other := pair[1-i]
		own, err := netip.ParseAddrPort(g.address)
		if err != nil {
			return pair, fmt.Errorf("%s said %q instead of its address", g.proc.name, g.address)
		}
		g.side.settings.GatewayPort = int(own.Port())
		g.side.settings.Other = &listedGateway{other.address, other.datacenter, other.side.settings.Inbound}
		if err = g.side.start(w, "gateway-sidecar-"+g.datacenter+"-"+strconv.Itoa(hopLimit)+"-"+strconv.Itoa(try+1)); err != nil {
			return pair, err
		}
		w.sidecars = append(w.sidecars, g.side)
	}
	return pair, errors.Join(pair[0].side.ready(ctx), pair[1].side.ready(ctx))
}
