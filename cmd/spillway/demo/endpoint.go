package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"syscall"
	"time"
)

// Fields of an answer that say who gave it.
const (
	fieldEndpoint   = "X-Demo-Endpoint"
	fieldDatacenter = "X-Demo-Datacenter"
)

// holeDug is what an endpoint prints once everything that arrives is dropped.
const holeDug = "black hole"

// holeFilled is what it prints once everything arrives again.
const holeFilled = "no black hole"

// endpointBodyMax bounds the body that an endpoint takes, in bytes.
const endpointBodyMax = 1 << 20

// EndpointOptions says what an endpoint process is.
type EndpointOptions struct {
	Listen     string // IP:PORT, port 0 for a free one
	Name       string
	Datacenter string
	Delay      time.Duration // each answer comes that much later
}

// Endpoint is the process of one endpoint: an HTTP server that says who it is. It prints its address on stdout when it serves, and
// turns into a black hole and back when it is asked to (askHole). It returns when ctx ends or serving fails.
func Endpoint(ctx context.Context, o EndpointOptions, stdout io.Writer) error {
	var lc net.ListenConfig
	lc.SetMultipathTCP(false) // such sockets take no filter
	l, err := lc.Listen(ctx, "tcp", o.Listen)
	if err != nil {
		return err
	}
	h := &holeListener{Listener: l, conns: map[net.Conn]struct{}{}}
	server := &http.Server{
		Handler:           endpointHandler(o),
		ReadHeaderTimeout: time.Minute,
		ConnState: func(c net.Conn, s http.ConnState) {
			if s == http.StateClosed || s == http.StateHijacked {
				h.forget(c)
			}
		},
	}
	wish := make(chan os.Signal, 1)
	notifyHole(wish)
	go func() {
		for {
			select {
			case <-wish:
				fmt.Fprintln(stdout, h.toggle())
			case <-ctx.Done():
				_ = server.Close() // what it could not close ends with the process
				return
			}
		}
	}()
	fmt.Fprintln(stdout, l.Addr())
	if err := server.Serve(h); err != http.ErrServerClosed {
		return err
	}
	return nil
}

// endpointHandler takes the whole body and answers with the endpoint's name.
func endpointHandler(o EndpointOptions) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, http.MaxBytesReader(w, r.Body, endpointBodyMax)); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if o.Delay > 0 {
			time.Sleep(o.Delay)
		}
		w.Header().Set(fieldEndpoint, o.Name)
		w.Header().Set(fieldDatacenter, o.Datacenter)
		fmt.Fprintln(w, o.Name)
	})
}

// holeListener knows its open connections, so that all of them can go silent at once. The mutex owns conns and dug.
type holeListener struct {
	net.Listener
	mu    sync.Mutex
	conns map[net.Conn]struct{}
	dug   bool
}

// Accept implements net.Listener. A connection that was made while the hole was dug is part of it.
func (h *holeListener) Accept() (net.Conn, error) {
	c, err := h.Listener.Accept()
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.conns[c] = struct{}{}
	if h.dug {
		_ = onSocket(c, dig) // it inherited the listener's filter unless it came just before
	}
	return c, nil
}

func (h *holeListener) forget(c net.Conn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.conns, c)
}

// toggle silences the listener first, then every connection; or gives them their voice back, in the same order. It returns what to print.
func (h *holeListener) toggle() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	change, done := dig, holeDug
	if h.dug {
		change, done = fill, holeFilled
	}
	h.dug = !h.dug
	if err := onSocket(h.Listener, change); err != nil {
		return "it failed: " + err.Error()
	}
	for c := range h.conns {
		// A connection that ended meanwhile is nobody's loss.
		if err := onSocket(c, change); err != nil && !errors.Is(err, net.ErrClosed) {
			return "it failed: " + err.Error()
		}
	}
	return done
}

func onSocket(s any, change func(syscall.Conn) error) error {
	c, ok := s.(syscall.Conn)
	if !ok {
		return fmt.Errorf("%T is no socket", s)
	}
	return change(c)
}
