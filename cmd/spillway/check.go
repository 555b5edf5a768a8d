package main

import (
	"fmt"
	"io"

	"spillway/config"
	"spillway/discovery"
)

// printFaults writes one fault a line.
func printFaults(faults []config.Fault, w io.Writer) {
	for _, f := range faults {
		fmt.Fprintln(w, f.String())
	}
}

// check validates a configuration and the discovery files that it names.
func check(path string, stdout, stderr io.Writer) int {
	cfg, faults := config.Load(path)
	if len(faults) > 0 {
		printFaults(faults, stderr)
		return exitUsage
	}
	services := cfg.Services
	lists := []*config.List{config.ListOf(path, cfg.Services)}
	for _, file := range cfg.Files {
		found, more := checkFile(file, cfg.Policy, lists, stderr)
		faults = append(faults, more...)
		if found != nil {
			lists = append(lists, found)
			services = append(services, found.Services...)
		}
	}
	if len(faults) > 0 {
		printFaults(faults, stderr)
		return exitUsage
	}
	if untrusting(cfg, services) {
		fmt.Fprintln(stderr, "warning: there are endpoints in other datacenters and no peer would be trusted: inbound serves nobody (hop.trusted_networks)")
	}
	fmt.Fprintf(stdout, "%s: good: %d services, %d datacenters\n", path, len(services), len(cfg.Datacenters))
	return exitGood
}

// untrusting tells whether there are endpoints in other datacenters while inbound trusts nobody.
func untrusting(cfg *config.Config, services []discovery.Service) bool {
	if len(cfg.TrustedNetworks) > 0 || len(cfg.Inbound.Listen) == 0 && len(cfg.Gateway.Listen) == 0 {
		return false
	}
	home := cfg.Node.Locality.Datacenter(cfg.Node.Level)
	for _, s := range services {
		for _, e := range s.Endpoints {
			if e.Locality.Datacenter(cfg.Node.Level) != home {
				return true
			}
		}
	}
	return false
}

// checkFile reads a discovery file and compares it with the lists before it. One that cannot be read is no fault of the configuration:
// it may come later.
func checkFile(path string, base discovery.Policy, others []*config.List, stderr io.Writer) (*config.List, []config.Fault) {
	data, err := config.ReadFile(path)
	if err != nil {
		fmt.Fprintf(stderr, "warning: %v: `run` serves nothing of it until it is there\n", err)
		return nil, nil
	}
	list, faults := config.ParseList(path, data, base)
	if len(faults) > 0 {
		return nil, faults
	}
	return list, config.Overlaps(list, others)
}
