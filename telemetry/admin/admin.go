// Package admin shows a running sidecar to the people and programs of its own machine.
//
// Its job: the read-only admin pages, the readiness answers, and the control socket; refusing whoever a browser may have been tricked into.
// Not its job: what is shown (the View).
// Goroutines: those of net/http. Bounds: the times and sizes in server.go, connectionsMax open connections of each server.
package admin

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
)

// ExplainQuery asks where a request would go.
type ExplainQuery struct {
	Service, Host, Path string
	Headers             map[string]string
}

// View is what the admin pages show.
type View interface {
	// Services gives the value that /services shows as JSON.
	Services() any
	// Explain gives the record and its lines; an error means that there is no such service.
	Explain(q ExplainQuery) (any, []string, error)
}

const index = `spillway admin

/healthz   200 while the process runs
/services  every service: tiers, shares, endpoints and their state (JSON)
/config    the configuration in force, secrets left out (YAML)
/explain   ?service=NAME [&host=H] [&path=P] [&header=k:v] [&format=text]  where a request would go now, and why
`

// Admin serves the read-only pages to local callers: exact Host, no foreign Origin, GET only.
func Admin(v View, config func() []byte, listen []netip.AddrPort) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/{$}", func(w http.ResponseWriter, _ *http.Request) { text(w, http.StatusOK, index) })
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { text(w, http.StatusOK, "ok\n") })
	mux.HandleFunc("/services", func(w http.ResponseWriter, _ *http.Request) { asJSON(w, v.Services()) })
	mux.HandleFunc("/config", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/yaml; charset=utf-8")
		_, _ = w.Write(config())
	})
	mux.HandleFunc("/explain", func(w http.ResponseWriter, r *http.Request) { explain(w, r, v) })
	return guard(mux, listen)
}

func explain(w http.ResponseWriter, r *http.Request, v View) {
	form := r.URL.Query()
	q := ExplainQuery{Service: form.Get("service"), Host: form.Get("host"), Path: form.Get("path"), Headers: map[string]string{}}
	for _, h := range form["header"] {
		k, val, ok := strings.Cut(h, ":")
		if !ok || strings.TrimSpace(k) == "" {
			text(w, http.StatusBadRequest, fmt.Sprintf("header: expected k:v, got %q\n", h))
			return
		}
		q.Headers[strings.ToLower(strings.TrimSpace(k))] = strings.TrimSpace(val)
	}
	if q.Service == "" && q.Host == "" {
		text(w, http.StatusBadRequest, "expected ?service=NAME or ?host=HOST\n")
		return
	}
	record, lines, err := v.Explain(q)
	switch {
	case err != nil:
		text(w, http.StatusNotFound, err.Error()+"\n")
	case form.Get("format") == "text":
		text(w, http.StatusOK, strings.Join(lines, "\n")+"\n")
	default:
		asJSON(w, record)
	}
}

func text(w http.ResponseWriter, status int, s string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(s))
}

func asJSON(w http.ResponseWriter, v any) {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		text(w, http.StatusInternalServerError, err.Error()+"\n")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(b, '\n'))
}

// guard refuses what a web page in somebody's browser could send here: another Host (DNS rebinding), a foreign Origin, a method that
// could change something.
func guard(next http.Handler, listen []netip.AddrPort) http.Handler {
	own := ownHosts(listen)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		h.Set("Cache-Control", "no-store")
		switch {
		case !own.has(r):
			text(w, http.StatusForbidden, fmt.Sprintf("denied: the host %q is not this listener\n", r.Host))
		case foreign(r):
			text(w, http.StatusForbidden, "denied: the request comes from another origin\n")
		case r.Method != http.MethodGet:
			h.Set("Allow", "GET")
			text(w, http.StatusMethodNotAllowed, "these pages are read-only: GET\n")
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// hosts is the values of Host, lower case, that name this listener.
type hosts struct {
	names map[string]bool
	any   bool // it listens on every address of the machine: the one that a connection came to is its name too
}

func ownHosts(listen []netip.AddrPort) hosts {
	h := hosts{names: map[string]bool{}}
	for _, a := range listen {
		a = netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
		h.add(a.String(), a.Port())
		h.add("localhost:"+strconv.Itoa(int(a.Port())), a.Port())
		h.any = h.any || a.Addr().IsUnspecified()
	}
	return h
}

// add takes a host with its port. Clients leave the port of http out (RFC 9110 section 4.2.1).
func (h hosts) add(host string, port uint16) {
	h.names[host] = true
	if port == 80 {
		h.names[strings.TrimSuffix(host, ":80")] = true
	}
}

// has compares whole values: a name that begins like an address is another name. An address in digits cannot be rebound by DNS.
func (h hosts) has(r *http.Request) bool {
	if h.names[strings.ToLower(r.Host)] {
		return true
	}
	local, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	if !h.any || !ok {
		return false
	}
	return ownHosts([]netip.AddrPort{local.AddrPort()}).names[strings.ToLower(r.Host)]
}

// foreign tells whether a browser says that the request was made by a page that is not ours. Another port of this machine is foreign too,
// though browsers call it the same site.
func foreign(r *http.Request) bool {
	for _, o := range r.Header["Origin"] {
		if !strings.EqualFold(o, "http://"+r.Host) {
			return true
		}
	}
	for _, s := range r.Header["Sec-Fetch-Site"] {
		if s != "same-origin" && s != "none" {
			return true
		}
	}
	return false
}

// ReadyState tells whether traffic may come, and if not why.
type ReadyState func() (ready bool, why string)

// Ready answers GET / and /ready: 200, or 503 with the reason.
func Ready(s ReadyState) http.Handler {
	answer := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		if ok, why := s(); !ok {
			text(w, http.StatusServiceUnavailable, why+"\n")
			return
		}
		text(w, http.StatusOK, "ready\n")
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", answer)
	mux.HandleFunc("GET /ready", answer)
	return mux
}

// Socket serves what changes something; it belongs on the unix socket alone. POST /drain begins a drain.
func Socket(drain func()) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /drain", func(w http.ResponseWriter, _ *http.Request) {
		drain()
		text(w, http.StatusAccepted, "draining\n")
	})
	return mux
}
