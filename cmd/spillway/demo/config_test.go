package demo

import (
	"os"
	"path/filepath"
	"testing"

	"spillway/config"
)

// TestSidecarConfig: what is generated is a configuration without a fault, for every setup.
func TestSidecarConfig(t *testing.T) {
	policies := map[string]string{"nearby": nearbyPolicy, "both": overBothPolicy, "last": lastResortPolicy, "140": spillPolicy("140"), "100": spillPolicy("100")}
	for _, c := range failoverCases() {
		policies[c.configuration] = c.policy
	}
	for name, policy := range policies {
		s := settings{ID: name, Beside: "client", Region: nearby, InboundIP: "127.0.0.1", Service: serviceName, Policy: policy, Socket: filepath.Join(t.TempDir(), "a.sock"), Outbound: 1001, Inbound: 1002, Admin: 1003, Metrics: 1004, Ready: 1005,
			Endpoints: []listed{{"127.0.1.1:9001", nearby, "dc1-a"}, {"127.0.2.1:9001", faraway, "dc2-a"}}}
		if name == "neither" { // any one of them: this one stands beside a gateway
			s.GatewayPort, s.HopLimit, s.Other = 9002, 1, &listedGateway{"127.0.2.5:9002", faraway, 9003}
			s.Policy = ""
		}
		if name == "active_checks" {
			s.Second, s.SecondEndpoints = secondName, s.Endpoints
		}
		text, err := s.render()
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "spillway.yaml")
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		cfg, faults := config.Load(path)
		if len(faults) > 0 {
			t.Errorf("%s: %v\n%s", name, faults, text)
			continue
		}
		last := cfg.Services[len(cfg.Services)-1]
		if want := 1 + min(s.GatewayPort, 1); len(cfg.Services) != want+min(len(s.Second), 1) || len(last.Endpoints) != 2 || len(cfg.TrustedNetworks) != want-1 || cfg.Hop.Limit != 1 {
			t.Errorf("%s: %+v", name, cfg)
		}
	}
}
