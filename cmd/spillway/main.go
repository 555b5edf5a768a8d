// Command spillway is the sidecar and its tools.
//
// Its job: reading flags, wiring rooms together (run.go), and the exit codes: 0 good, 1 failed at run time, 2 wrong usage or
// configuration. Not its job: any decision about traffic. Goroutines and limits are those of the rooms that a command starts.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"spillway/cmd/spillway/demo"
	"spillway/config"
)

// version is set when the binary is linked.
var version = "dev"

// The exit codes of all commands.
const (
	exitGood   = 0
	exitFailed = 1
	exitUsage  = 2
)

// commands are the flags and arguments of every command.
type commands struct {
	Run struct {
		Config string `short:"c" required:"" placeholder:"FILE" help:"Configuration file."`
	} `cmd:"" help:"Run the sidecar."`

	Check struct {
		Config string `short:"c" required:"" placeholder:"FILE" help:"Configuration file."`
	} `cmd:"" help:"Validate a configuration: every fault with file, line and column."`

	Explain explainFlags `cmd:"" help:"Ask the running sidecar where a request would go, and why."`

	Demo struct {
		Scenario string `arg:"" optional:"" default:"all" enum:"all,nearby,spill,failover,loop,bulkhead" help:"all, nearby, spill, failover, loop or bulkhead (default: all)."`
		JSON     bool   `name:"json" help:"Print one JSON document."`
	} `cmd:"" help:"Show it on loopback, with real processes and real faults."`

	Version struct{} `cmd:"" help:"Print the version."`

	DemoEndpoint struct {
		Listen     string        `required:""`
		Name       string        `required:""`
		Datacenter string        `required:""`
		Delay      time.Duration ``
	} `cmd:"" hidden:"" name:"demo-endpoint"`

	DemoGateway struct {
		Listen     string `required:""`
		Datacenter string `required:""`
		Outbound   string `required:""`
	} `cmd:"" hidden:"" name:"demo-gateway"`
}

func main() {
	os.Exit(command(os.Args[1:], os.Stdout, os.Stderr))
}

// command runs one command line and returns its exit code.
func command(args []string, stdout, stderr io.Writer) int {
	var c commands
	left := -1 // the code that kong wanted to leave with, after --help
	parser, err := kong.New(&c,
		kong.Name("spillway"),
		kong.Description("A sidecar proxy for services that run in several datacenters."),
		kong.Writers(stdout, stderr),
		kong.Exit(func(code int) { left = code }),
	)
	if err != nil {
		fmt.Fprintln(stderr, "spillway:", err)
		return exitFailed
	}
	ctx, err := parser.Parse(args)
	switch {
	case left >= 0:
		return left
	case err != nil:
		fmt.Fprintf(stderr, "spillway: %v\n", err)
		hint(err, stderr)
		return exitUsage
	}
	return c.dispatch(ctx.Command(), stdout, stderr)
}

// hint names the help of the command that was misused.
func hint(err error, stderr io.Writer) {
	name := "spillway"
	var parse *kong.ParseError
	if errors.As(err, &parse) && parse.Context != nil && parse.Context.Selected() != nil {
		name += " " + parse.Context.Selected().Name
	}
	fmt.Fprintf(stderr, "`%s --help` tells more\n", name)
}

// dispatch runs the command that was parsed.
func (c *commands) dispatch(name string, stdout, stderr io.Writer) int {
	switch name {
	case "run":
		return runCommand(c.Run.Config, stderr)
	case "check":
		return check(c.Check.Config, stdout, stderr)
	case "explain":
		return explain(c.Explain, stdout, stderr)
	case "version":
		fmt.Fprintf(stdout, "spillway %s (%s %s/%s)\n", version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
		return exitGood
	case "demo-endpoint":
		return endpoint(demo.EndpointOptions{Listen: c.DemoEndpoint.Listen, Name: c.DemoEndpoint.Name,
			Datacenter: c.DemoEndpoint.Datacenter, Delay: c.DemoEndpoint.Delay}, stdout, stderr)
	case "demo-gateway":
		return gateway(demo.GatewayOptions{Listen: c.DemoGateway.Listen, Datacenter: c.DemoGateway.Datacenter, Outbound: c.DemoGateway.Outbound}, stdout, stderr)
	default:
		return show(c.Demo.Scenario, c.Demo.JSON, stdout, stderr)
	}
}

// runCommand loads the configuration and runs the sidecar.
func runCommand(path string, stderr io.Writer) int {
	cfg, faults := config.Load(path)
	if len(faults) > 0 {
		printFaults(faults, stderr)
		return exitUsage
	}
	return runSidecar(context.Background(), cfg, stderr)
}

// show plays the demo until it is over or interrupted.
func show(scenario string, json bool, stdout, stderr io.Writer) int {
	executable, err := os.Executable()
	if err != nil {
		fmt.Fprintln(stderr, "spillway demo: find the own binary:", err)
		return exitFailed
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	f, isFile := stderr.(*os.File)
	return demo.Run(ctx, demo.Options{Scenario: scenario, JSON: json, Executable: executable,
		Stdout: stdout, Stderr: stderr, Terminal: isFile && demo.IsTerminal(f)})
}

// endpoint is one endpoint of the demo.
func endpoint(o demo.EndpointOptions, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := demo.Endpoint(ctx, o, stdout); err != nil {
		fmt.Fprintln(stderr, "spillway demo-endpoint:", err)
		return exitFailed
	}
	return exitGood
}

// gateway is one gateway of the demo.
func gateway(o demo.GatewayOptions, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := demo.Gateway(ctx, o, stdout); err != nil {
		fmt.Fprintln(stderr, "spillway demo-gateway:", err)
		return exitFailed
	}
	return exitGood
}
