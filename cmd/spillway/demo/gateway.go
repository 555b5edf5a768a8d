package demo

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"time"
)

// fieldGateways stands in an answer once for each gateway that it has passed.
const fieldGateways = "X-Demo-Gateway"

// gatewayService is the service by which one gateway calls the other.
const gatewayService = "gateway"

// GatewayOptions says what a gateway process is.
type GatewayOptions struct {
	Listen     string // IP:PORT, port 0 for a free one
	Datacenter string
	Outbound   string // the outbound listener of its own sidecar
}

// Gateway is the process of one gateway: an application that knows in its table which datacenter its users belong to. What belongs here it
// sends to the service, the rest to the other datacenter's gateway, both through its own sidecar, with all fields of the request as reverse
// proxies do. PUT /table?owner=DATACENTER changes the table. It prints its address on stdout when it serves, and returns when ctx ends.
func Gateway(ctx context.Context, o GatewayOptions, stdout io.Writer) error {
	var owner atomic.Value
	owner.Store(o.Datacenter)
	forward := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "http", Host: o.Outbound})
			if r.Out.Host = serviceName; owner.Load() != o.Datacenter {
				r.Out.Host = gatewayService
			}
		},
		ModifyResponse: func(r *http.Response) error {
			r.Header.Add(fieldGateways, o.Datacenter)
			return nil
		},
		Transport: &http.Transport{MaxIdleConnsPerHost: 64}, // no proxy of the environment
	}
	mux := http.NewServeMux()
	mux.Handle("/", forward)
	mux.HandleFunc("PUT /table", func(w http.ResponseWriter, r *http.Request) {
		owner.Store(r.FormValue("owner"))
		w.WriteHeader(http.StatusNoContent)
	})
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", o.Listen)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	go func() {
		<-ctx.Done()
		_ = server.Close() // what it could not close ends with the process
	}()
	fmt.Fprintln(stdout, l.Addr())
	if err := server.Serve(l); err != http.ErrServerClosed {
		return err
	}
	return nil
}

// gateway is one running gateway with its sidecar.
type gateway struct {
	datacenter string
	proc       *process
	address    string
	side       *sidecar
}

func (g *gateway) stop() {
	if g.side != nil {
		g.side.stop()
	}
	if g.proc != nil {
		g.proc.strike()
		_ = g.proc.bury() // what is stuck in the kernel is tied to this process anyway
	}
}

// decide tells the gateway to which datacenter its users belong.
func (g *gateway) decide(ctx context.Context, owner string) error {
	ctx, cancel := context.WithTimeout(ctx, answerMax)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, "http://"+g.address+"/table?owner="+owner, nil)
	if err != nil {
		return err
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusNoContent {
		return fmt.Errorf("the gateway of %s answered %s", g.datacenter, resp.Status)
	}
	return nil
}
