// Package admin shows a running sidecar to the people and programs of its own machine.
//
// Its job: the read-only admin pages, the readiness answers, and the control socket; refusing whoever a browser may have been tricked into.
// Not its job: what is shown (the View).
// Goroutines: those of net/http. Bounds: the times and header size of Server.
package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
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

const headerMax = 16 << 10 // bytes of a request head

// Server is an http.Server with every time and size bounded.
func Server(h http.Handler) *http.Server {
	return &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second,
		IdleTimeout: time.Minute, MaxHeaderBytes: headerMax}
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
		if !ok || k == "" {
			text(w, http.StatusBadRequest, fmt.Sprintf("header: expected k:v, got %q\n", h))
			return
		}
		q.Headers[strings.ToLower(k)] = val
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
	hosts := map[string]bool{}
	for _, a := range listen {
		port := strconv.Itoa(int(a.Port()))
		hosts[a.String()] = true
		hosts["localhost:"+port] = true
		if a.Addr().IsUnspecified() {
			hosts["127.0.0.1:"+port] = true
			hosts["[::1]:"+port] = true
		}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		h.Set("Cache-Control", "no-store")
		switch {
		case !hosts[strings.ToLower(r.Host)]:
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

func foreign(r *http.Request) bool {
	if o := r.Header.Get("Origin"); o != "" && !strings.EqualFold(o, "http://"+r.Host) {
		return true
	}
	site := r.Header.Get("Sec-Fetch-Site")
	return site == "cross-site" || site == "same-site"
}

// ReadyState tells whether traffic may come, and if not why.
type ReadyState func() (ready bool, why string)

// Ready answers GET / and /ready: 200, or 503 with the reason.
func Ready(s ReadyState) http.Handler {
	answer := func(w http.ResponseWriter, _ *http.Request) {
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

// ListenSocket opens the control socket with mode 0600 from its first moment. A socket that somebody answers on is left alone; one that a
// dead process left behind is replaced.
func ListenSocket(path string) (net.Listener, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	if st, err := os.Lstat(path); err == nil {
		if st.Mode().Type() != os.ModeSocket {
			return nil, fmt.Errorf("%s exists and is no socket", path)
		}
		if c, err := net.DialTimeout("unix", path, time.Second); err == nil {
			_ = c.Close()
			return nil, fmt.Errorf("%s: another process answers there", path)
		}
		if err := os.Remove(path); err != nil {
			return nil, err
		}
	}
	lc := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var inner error
		// The mode of a socket file comes from the descriptor's: set before bind, there is no moment in which others may connect.
		if err := c.Control(func(fd uintptr) { inner = syscall.Fchmod(int(fd), 0o600) }); err != nil {
			return err
		}
		return inner
	}}
	l, err := lc.Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, err
	}
	return l, nil
}
