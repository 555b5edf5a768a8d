package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Bounds of asking a running sidecar.
const (
	explainWaitMax  = 10 * time.Second
	explainBytesMax = 16 << 20 // bytes of its answer
)

// explainFlags are the flags of `explain`.
type explainFlags struct {
	Admin   string   `default:"http://127.0.0.1:15000" placeholder:"URL" help:"Admin address of the sidecar (default: ${default})."`
	Service string   `required:"" placeholder:"NAME" help:"Service that the request is for."`
	Header  []string `placeholder:"K=V" sep:"none" help:"Header of the request; may be given several times."`
	Path    string   `placeholder:"/x" help:"Path of the request."`
	JSON    bool     `name:"json" help:"Print the record as JSON."`
}

// Validate implements kong's check after parsing.
func (f explainFlags) Validate() error {
	if _, err := f.address(); err != nil {
		return err
	}
	for _, h := range f.Header {
		if k, _, found := strings.Cut(h, "="); !found || k == "" {
			return fmt.Errorf("--header: expected K=V, got %q", h)
		}
	}
	if f.Path != "" && !strings.HasPrefix(f.Path, "/") {
		return fmt.Errorf("--path: expected a path that begins with /, got %q", f.Path)
	}
	return nil
}

// address is the page to ask.
func (f explainFlags) address() (*url.URL, error) {
	base := f.Admin
	if !strings.Contains(base, "://") {
		base = "http://" + base
	}
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" || u.Host == "" {
		return nil, fmt.Errorf("--admin: expected http://IP:PORT, got %q", f.Admin)
	}
	q := url.Values{"service": {f.Service}}
	for _, h := range f.Header {
		k, v, _ := strings.Cut(h, "=")
		q.Add("header", k+":"+v)
		if strings.EqualFold(k, "host") {
			q.Set("host", v)
		}
	}
	if f.Path != "" {
		q.Set("path", f.Path)
	}
	if !f.JSON {
		q.Set("format", "text")
	}
	u.Path, u.RawQuery = strings.TrimSuffix(u.Path, "/")+"/explain", q.Encode()
	return u, nil
}

// explain asks the running sidecar and prints what it says.
func explain(f explainFlags, stdout, stderr io.Writer) int {
	u, err := f.address()
	if err != nil {
		fmt.Fprintln(stderr, "spillway explain:", err)
		return exitUsage
	}
	status, body, err := fetch(u.String())
	switch {
	case err != nil:
		fmt.Fprintf(stderr, "spillway explain: no sidecar answers at %s: %v\n", f.Admin, err)
		return exitFailed
	case status != http.StatusOK:
		fmt.Fprintf(stderr, "spillway explain: %s (status %d from %s)\n", strings.TrimSpace(string(body)), status, f.Admin)
		return exitFailed
	}
	_, _ = stdout.Write(body)
	return exitGood
}

// fetch reads a page. It goes straight to the address: proxies of the environment are for other traffic.
func fetch(page string) (status int, body []byte, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), explainWaitMax)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, page, nil)
	if err != nil {
		return 0, nil, err
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(io.LimitReader(resp.Body, explainBytesMax))
	return resp.StatusCode, body, err
}
