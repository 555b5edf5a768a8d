package demo

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"text/template"
	"time"
)

// Bounds of waiting for a sidecar.
const (
	sidecarTriesMax  = 3                // starts, where a free port was taken by somebody else in between
	sidecarReadyMax  = 10 * time.Second // until it is ready
	sidecarSettleMax = 15 * time.Second // until it has seen what happened to the endpoints
	sidecarPollEvery = 10 * time.Millisecond
	sidecarPageMax   = 1 << 20 // bytes of an admin page
)

// The configuration of a sidecar, to be filled in.
//
//go:embed sidecar.tmpl.yaml
var sidecarTemplate string

// setup is what makes one sidecar different from another.
type setup struct {
	name    string
	policy  string // the YAML mapping `policy`, from column 1
	second  bool   // dc2's endpoints serve another service, secondName, and dc1's alone the first
	oneZone bool   // all endpoints are labelled as if they stood beside the client
}

// listed is an endpoint as the configuration lists it.
type listed struct{ Address, Region, Zone string }

// listedGateway is the gateway of the other datacenter, behind its sidecar.
type listedGateway struct {
	Address, Region string
	Sidecar         int
}

// settings fills the template.
type settings struct {
	ID, Beside, Region                       string // of the sidecar; what it stands beside
	Service, Policy, Socket                  string
	InboundIP                                string
	Outbound, Inbound, Admin, Metrics, Ready int
	Endpoints                                []listed
	Second                                   string // another service, of SecondEndpoints; empty: none
	SecondEndpoints                          []listed

	GatewayPort int // of the gateway that it stands beside; 0: none, and nobody is trusted
	HopLimit    int
	Other       *listedGateway
}

// sidecar is one running sidecar.
type sidecar struct {
	proc     *process
	settings settings
}

// address is where the client sends its requests.
func (s *sidecar) address() string { return fmt.Sprintf("127.0.0.1:%d", s.settings.Outbound) }

func (s *sidecar) stop() {
	if s.proc == nil {
		return
	}
	s.proc.strike()
	_ = s.proc.bury() // what is stuck in the kernel is tied to this process anyway
}

// sidecar starts one and waits until it is ready.
func (w *world) sidecar(ctx context.Context, c setup) (*sidecar, error) {
	var err error
	for try := range sidecarTriesMax {
		var s *sidecar
		if s, err = w.startSidecar(fmt.Sprintf("%s-%d", c.name, try+1), c); err != nil {
			return nil, err
		}
		w.sidecars = append(w.sidecars, s)
		if err = s.ready(ctx); err == nil {
			return s, nil
		}
		s.stop()
		if ctx.Err() != nil {
			break
		}
	}
	return nil, err
}

// settings are those of a sidecar beside the client in dc1.
func (w *world) settings(name string, c setup) settings {
	set := settings{ID: name, Beside: "client", Region: nearby, InboundIP: "127.0.0.1", Service: serviceName, Policy: c.policy, Socket: filepath.Join(w.dir, name+".sock")}
	for _, e := range w.endpoints {
		l := listed{e.address.String(), e.datacenter, e.datacenter + "-a"}
		if c.oneZone {
			l.Region, l.Zone = nearby, nearby+"-a"
		}
		if c.second && e.datacenter == faraway {
			set.Second, set.SecondEndpoints = secondName, append(set.SecondEndpoints, l)
			continue
		}
		set.Endpoints = append(set.Endpoints, l)
	}
	return set
}

func (w *world) startSidecar(name string, c setup) (*sidecar, error) {
	s := &sidecar{settings: w.settings(name, c)}
	if err := s.ports(); err != nil {
		return nil, err
	}
	return s, s.start(w, name)
}

// ports finds free ports for all its listeners.
func (s *sidecar) ports() error {
	return freePorts(&s.settings.Outbound, &s.settings.Inbound, &s.settings.Admin, &s.settings.Metrics, &s.settings.Ready)
}

// start writes its configuration and starts the process.
func (s *sidecar) start(w *world, name string) error {
	text, err := s.settings.render()
	if err != nil {
		return err
	}
	path := filepath.Join(w.dir, name+".yaml")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return err
	}
	s.proc, err = start("sidecar "+name, w.executable, "run", "-c", path)
	return err
}

// render is the configuration file.
func (s settings) render() ([]byte, error) {
	t, err := template.New("sidecar").Parse(sidecarTemplate)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := t.Execute(&b, s); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// freePorts finds different free ports of 127.0.0.1. Somebody else may take one before it is used.
func freePorts(to ...*int) error {
	for _, p := range to {
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			return err
		}
		defer l.Close() // all stay open until all are found
		*p = l.Addr().(*net.TCPAddr).Port
	}
	return nil
}

// page reads one page of the sidecar.
func page(ctx context.Context, port int, path string) (status int, body []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d%s", port, path), nil)
	if err != nil {
		return 0, nil, err
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // no proxy of the environment
	resp, err := client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(io.LimitReader(resp.Body, sidecarPageMax))
	return resp.StatusCode, body, err
}

// poll calls done until it returns nil, the process ends or the time is over; then the error is the last one of done.
func (s *sidecar) poll(ctx context.Context, most time.Duration, done func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	tick := time.NewTicker(sidecarPollEvery)
	defer tick.Stop()
	for {
		err := done(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-s.proc.done:
			return s.proc.ended()
		case <-ctx.Done():
			return fmt.Errorf("%s after %v: %w", s.proc.name, most, err)
		case <-tick.C:
		}
	}
}

// ready waits until the sidecar says that it is.
func (s *sidecar) ready(ctx context.Context) error {
	return s.poll(ctx, sidecarReadyMax, func(ctx context.Context) error {
		status, body, err := page(ctx, s.settings.Ready, "/ready")
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("not ready: %s", bytes.TrimSpace(body))
		}
		return err
	})
}

// shown is the part of /services that the demo looks at.
type shown struct {
	Services []struct {
		Name  string `json:"name"`
		Tiers []struct {
			Datacenter string `json:"datacenter"`
			Usable     int    `json:"usable"`
			Total      int    `json:"total"`
			Endpoints  []struct {
				State string `json:"state"`
			} `json:"endpoints"`
		} `json:"tiers"`
	} `json:"services"`
}

// usable counts the usable endpoints of the service in a datacenter.
func (v shown) usable(datacenter string) int {
	n := 0
	for _, s := range v.Services {
		for _, t := range s.Tiers {
			if s.Name == serviceName && t.Datacenter == datacenter {
				n += t.Usable
			}
		}
	}
	return n
}

// checked counts the endpoints of the service whose first check has been good.
func (v shown) checked() int {
	n := 0
	for _, s := range v.Services {
		for _, t := range s.Tiers {
			for _, e := range t.Endpoints {
				if s.Name == serviceName && e.State == "usable" {
					n++
				}
			}
		}
	}
	return n
}

// settleChecked waits until the first checks of that many endpoints have come back: until then they rank behind those that answered sooner.
func (s *sidecar) settleChecked(ctx context.Context, want int) error {
	return s.poll(ctx, sidecarSettleMax, func(ctx context.Context) error {
		_, body, err := page(ctx, s.settings.Admin, "/services")
		if err != nil {
			return err
		}
		var v shown
		if err := json.Unmarshal(body, &v); err != nil {
			return fmt.Errorf("/services: %w", err)
		}
		if got := v.checked(); got != want {
			return fmt.Errorf("%d endpoints are checked, waiting for %d", got, want)
		}
		return nil
	})
}

// settle waits until the sidecar sees that many usable endpoints in each datacenter.
func (s *sidecar) settle(ctx context.Context, want map[string]int) error {
	return s.poll(ctx, sidecarSettleMax, func(ctx context.Context) error {
		_, body, err := page(ctx, s.settings.Admin, "/services")
		if err != nil {
			return err
		}
		var v shown
		if err := json.Unmarshal(body, &v); err != nil {
			return fmt.Errorf("/services: %w", err)
		}
		var errs []error
		for dc, n := range want {
			if got := v.usable(dc); got != n {
				errs = append(errs, fmt.Errorf("%s has %d usable endpoints, waiting for %d", dc, got, n))
			}
		}
		return errors.Join(errs...)
	})
}
