//go:build linux

package e2e

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// childEnv makes the test binary an application: "ADDRESS NAME DELAY".
const childEnv = "SPILLWAY_E2E_CHILD"

// childMain serves HTTP at the address and answers every request with the name, after the delay, when the body has been read.
func childMain(arg string) int {
	f := strings.Fields(arg)
	delay, err := time.ParseDuration(f[2])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	ln, err := net.Listen("tcp4", f[0])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println("listening")
	err = http.Serve(ln, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return
		}
		if delay > 0 {
			time.Sleep(delay) // the work of this application
		}
		fmt.Fprint(w, f[1])
	}))
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// child is an application in a process of its own, so that it can be killed for real.
type child struct {
	ip, addr, name string
	delay          time.Duration
	cmd            *exec.Cmd
}

func startChild(t *testing.T, name string, delay time.Duration) *child {
	t.Helper()
	ip := newIP()
	c := &child{ip: ip, addr: ip + ":8080", name: name, delay: delay}
	c.start(t)
	t.Cleanup(c.kill)
	return c
}

// start starts the process, also again after kill, and waits until it listens.
func (c *child) start(t *testing.T) {
	t.Helper()
	c.cmd = exec.Command(os.Args[0])
	c.cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %s %s", childEnv, c.addr, c.name, c.delay))
	c.cmd.Stderr = os.Stderr
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "listening\n" {
		t.Fatalf("the application %s did not start: %q %v", c.name, line, err)
	}
}

// kill is kill -9.
func (c *child) kill() {
	_ = c.cmd.Process.Kill()
	_ = c.cmd.Wait()
}
