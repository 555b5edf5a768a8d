//go:build linux

package e2e

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"
)

// waitMax bounds every wait of a test for something that must come.
const waitMax = 15 * time.Second

// parallelMax is how many tests run side by side: they mostly wait.
const parallelMax = 12

// binary is the path of the built spillway.
var binary string

// addresses counts the loopback addresses that were given out.
var addresses atomic.Uint32

// newIP gives a loopback address that no other test of this process uses. The second byte differs between processes.
func newIP() string {
	n := addresses.Add(1)
	return fmt.Sprintf("127.%d.%d.%d", 16+os.Getpid()%224, n>>8&0xff, n&0xff)
}

func TestMain(m *testing.M) {
	if child := os.Getenv(childEnv); child != "" {
		os.Exit(childMain(child))
	}
	os.Exit(runAll(m))
}

func runAll(m *testing.M) int {
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		_ = flag.Set("test.parallel", fmt.Sprint(parallelMax))
	}
	dir, err := os.MkdirTemp("", "spillway-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if binary = os.Getenv("SPILLWAY_BINARY"); binary != "" {
		return m.Run()
	}
	binary = filepath.Join(dir, "spillway")
	args := []string{"build", "-o", binary}
	if tags := os.Getenv("SPILLWAY_TAGS"); tags != "" {
		args = append(args, "-tags", tags)
	}
	if os.Getenv("SPILLWAY_RACE") == "1" {
		args = append(args, "-race")
	}
	build := exec.Command("go", append(args, "spillway/cmd/spillway")...)
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build cmd/spillway: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// pace lets time pass that is part of what a test plays: a slow peer, an idle connection, a stated bound. It never waits for
// something to have happened; eventually does.
func pace(d time.Duration) {
	time.Sleep(d) // the time is the script of the test
}

// eventually polls until cond holds and gives the time that took; it fails the test after within. what completes "not within 3s: ".
func eventually(t *testing.T, within time.Duration, what string, cond func() bool) time.Duration {
	t.Helper()
	start := time.Now()
	for {
		if cond() {
			return time.Since(start)
		}
		if time.Since(start) > within {
			t.Fatalf("not within %v: %s", within, what)
		}
		pace(10 * time.Millisecond)
	}
}
