package main

import (
	"fmt"
	"io"
	"os"

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
	for _, file := range cfg.Files {
		found, faults := checkFile(file, cfg.Policy, stderr)
		if len(faults) > 0 {
			printFaults(faults, stderr)
			return exitUsage
		}
		services = append(services, found...)
	}
	fmt.Fprintf(stdout, "%s: good: %d services, %d datacenters\n", path, len(services), len(cfg.Datacenters))
	return exitGood
}

// checkFile reads a discovery file. One that cannot be read is no fault of the configuration: it may come later.
func checkFile(path string, base discovery.Policy, stderr io.Writer) ([]discovery.Service, []config.Fault) {
	data, err := os.ReadFile(path)
	if err != nil {
		fmt.Fprintf(stderr, "warning: %v: `run` serves nothing of it until it is there\n", err)
		return nil, nil
	}
	return config.ParseServices(path, data, base)
}
