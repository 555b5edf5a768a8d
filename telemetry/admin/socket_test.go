package admin

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

func TestControlSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run", "admin.sock")
	l, err := ListenSocket(path)
	if err != nil {
		t.Fatal(err)
	}
	st, err := os.Stat(path)
	if err != nil || st.Mode().Perm() != 0o600 {
		t.Fatalf("%v, %v", st.Mode(), err)
	}
	if _, err := ListenSocket(path); err == nil || !strings.Contains(err.Error(), "another process answers") {
		t.Fatalf("a socket in use: %v", err)
	}
	drained := make(chan struct{})
	srv := Server(Socket(func() { close(drained) }))
	go func() { _ = srv.Serve(l) }()
	defer srv.Close()
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return net.Dial("unix", path) }}}
	resp, err := client.Get("http://socket/drain")
	if err != nil || resp.StatusCode != 405 {
		t.Fatalf("GET: %v %v", resp, err)
	}
	resp.Body.Close()
	resp, err = client.Post("http://socket/drain", "", nil)
	if err != nil || resp.StatusCode != 202 {
		t.Fatalf("POST: %v %v", resp, err)
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	<-drained
}

func TestStaleSocketIsReplacedAndFilesAreNot(t *testing.T) {
	path := filepath.Join(t.TempDir(), "admin.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	l.Close()
	l, err = ListenSocket(path)
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ListenSocket(path); err == nil {
		t.Fatal("a file was replaced")
	}
}

// The mode does not depend on the umask, which belongs to the whole process and is not touched.
func TestSocketIsPrivateWhateverTheUmask(t *testing.T) {
	old := syscall.Umask(0)
	defer syscall.Umask(old)
	path := filepath.Join(t.TempDir(), "run", "admin.sock")
	l, err := ListenSocket(path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for name, want := range map[string]os.FileMode{path: 0o600, filepath.Dir(path): 0o700} {
		if st, err := os.Stat(name); err != nil || st.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", name, st.Mode(), err)
		}
	}
	if now := syscall.Umask(0); now != 0 {
		t.Errorf("the umask became %o", now)
	}
}

// Nobody but the owner can connect even in the moment after bind.
func TestSocketIsPrivateFromTheStart(t *testing.T) {
	if runtime.GOOS != "linux" {
		return // the mode of a descriptor says nothing about the file there
	}
	old := syscall.Umask(0)
	defer syscall.Umask(old)
	path := filepath.Join(t.TempDir(), "admin.sock")
	lc := net.ListenConfig{Control: private}
	l, err := lc.Listen(context.Background(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o600 {
		t.Fatalf("%v, %v", st.Mode(), err)
	}
}

// A process whose queue is full is alive: its socket must not be taken.
func TestSocketOfABusyProcessIsLeftAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "admin.sock")
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fd)
	if err := syscall.Bind(fd, &syscall.SockaddrUnix{Name: path}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	for range 64 { // until its queue is full; nobody accepts
		c, err := net.DialTimeout("unix", path, 100*time.Millisecond)
		if err != nil {
			break
		}
		defer c.Close()
	}
	l, err := ListenSocket(path)
	if err == nil {
		l.Close()
		t.Fatal("the socket of a busy process was taken")
	}
	if st, err := os.Lstat(path); err != nil || st.Mode().Type() != os.ModeSocket {
		t.Fatalf("the socket of a busy process is gone: %v", err)
	}
}

// Of many that start at a time, all finding the same stale socket, one gets it and it answers.
func TestOneOfManyGetsTheSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "admin.sock")
	stale, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	stale.(*net.UnixListener).SetUnlinkOnClose(false)
	stale.Close()
	var mu sync.Mutex
	var got []net.Listener
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			l, err := ListenSocket(path)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				got = append(got, l)
			} else if !strings.Contains(err.Error(), "another process answers") {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if len(got) != 1 {
		t.Fatalf("%d got it", len(got))
	}
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	got[0].Close()
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Fatalf("left behind: %v", err)
	}
}

func TestSocketPathTooLong(t *testing.T) {
	_, err := ListenSocket(filepath.Join(t.TempDir(), strings.Repeat("a", socketPathMax)))
	if err == nil || !strings.Contains(err.Error(), "at most 107 bytes") {
		t.Fatal(err)
	}
}

func TestSocketDoesNotFollowLinks(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "admin.sock")
	if err := os.Symlink(filepath.Join(dir, "elsewhere"), path); err != nil {
		t.Fatal(err)
	}
	if _, err := ListenSocket(path); err == nil || !strings.Contains(err.Error(), "is no socket") {
		t.Fatal(err)
	}
}
