package file

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"spillway/config"
	"spillway/discovery"
)

// bench is a watcher under test with a folder of its own, in virtual time.
type bench struct {
	t   *testing.T
	dir string
	w   *Watcher

	mu        sync.Mutex // the rest: the watcher's goroutine writes it
	log       bytes.Buffer
	refused   []string
	published []string  // each list as names with the number of endpoints
	at        time.Time // of the last list
}

// effectMax is how long a change may take to be published.
const effectMax = time.Second

// inBubble runs f in virtual time with a watcher of the named files that nobody has loaded.
func inBubble(t *testing.T, names []string, f func(b *bench)) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{t: t, dir: dir}
		var paths []string
		for _, n := range names {
			paths = append(paths, b.path(n))
		}
		b.w = New(paths, config.DefaultPolicy(), slog.New(slog.NewTextHandler(b, nil)),
			func(path string) {
				b.mu.Lock()
				defer b.mu.Unlock()
				b.refused = append(b.refused, filepath.Base(path))
			},
			func(list []discovery.Service) {
				var names []string
				for _, s := range list {
					names = append(names, fmt.Sprintf("%s:%d", s.Name, len(s.Endpoints)))
				}
				b.mu.Lock()
				defer b.mu.Unlock()
				b.published, b.at = append(b.published, strings.Join(names, " ")), time.Now()
			})
		f(b)
	})
}

// Write takes the watcher's log.
func (b *bench) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.log.Write(p)
}

// logged is the log since the last call.
func (b *bench) logged() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	text := b.log.String()
	b.log.Reset()
	return text
}

// run loads and runs the watcher until the test ends.
func (b *bench) run() []config.Fault {
	faults := b.w.Load()
	ctx, cancel := context.WithCancel(b.t.Context())
	done := make(chan struct{})
	go func() {
		b.w.Run(ctx)
		close(done)
	}()
	b.t.Cleanup(func() {
		cancel()
		<-done
	})
	return faults
}

func (b *bench) path(name string) string { return filepath.Join(b.dir, name) }

// put writes a file in place.
func (b *bench) put(name, text string) {
	b.t.Helper()
	if err := os.WriteFile(b.path(name), []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
	// The file system's clock does not follow the bubble's: writes that are far apart in virtual time fall into one tick of it.
	if err := os.Chtimes(b.path(name), time.Now(), time.Now()); err != nil {
		b.t.Fatal(err)
	}
}

// list is a file with services a, b, ... of so many endpoints each.
func list(endpoints ...int) string {
	text := "services:\n"
	for i, n := range endpoints {
		text += fmt.Sprintf("  - name: %c\n    endpoints:\n", 'a'+i)
		if n == 0 {
			text = strings.TrimSuffix(text, "\n") + " []\n"
		}
		for j := range n {
			text += fmt.Sprintf("      - {address: 10.0.0.%d:80}\n", j+1)
		}
	}
	return text
}

// settles lets the time pass in which a change must have been seen, and checks what was published since the last call.
func (b *bench) settles(want ...string) {
	b.t.Helper()
	start := time.Now()
	time.Sleep(effectMax) // virtual
	synctest.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.published) != len(want) {
		b.t.Fatalf("published %q, want %q\n%s", b.published, want, b.log.String())
	}
	for i := range want {
		if b.published[i] != want[i] {
			b.t.Errorf("published %q, want %q", b.published[i], want[i])
		}
	}
	if took := b.at.Sub(start); len(want) > 0 && took >= effectMax {
		b.t.Errorf("it took %v", took)
	}
	b.published = nil
}

// rejects checks the refusals since the last call.
func (b *bench) rejects(want ...string) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if got := strings.Join(b.refused, " "); got != strings.Join(want, " ") {
		b.t.Errorf("refused %q, want %q", got, want)
	}
	b.refused = nil
}

// TestChanges (R50): whatever bad comes, the old list stays and each bad content is counted once and said with its place; what is good
// takes effect within a second.
func TestChanges(t *testing.T) {
	inBubble(t, []string{"f"}, func(b *bench) {
		b.put("f", list(1))
		if faults := b.run(); len(faults) > 0 {
			t.Error(faults)
		}
		b.settles("a:1")
		b.put("f", list(2, 1))
		b.settles("a:2 b:1")
		good := list(3)
		for _, bad := range []struct{ text, said string }{
			{good[:len(good)-20], "f:6:7: expected YAML: did not find expected"},
			{"\x00\x01\x02{{{{", "f:1:1: expected text"},
			{"", "f:1:1: expected a mapping with services, got an empty file"},
			{good + "colour: red\n", "f:7:1: colour: unknown key"},
			{strings.Replace(good, ":80}", ":808080}", 1), "f:4:19: services[0].endpoints[0].address: expected IP:port"},
		} {
			b.logged()
			b.put("f", bad.text)
			b.settles()
			b.rejects("f")
			if log := b.logged(); !strings.Contains(log, bad.said) {
				t.Errorf("the log does not say %q:\n%s", bad.said, log)
			}
			b.settles()
			b.rejects() // not again
		}
		if err := os.Remove(b.path("f")); err != nil {
			t.Fatal(err)
		}
		b.settles()
		b.rejects("f")
		b.settles()
		b.rejects()
		b.put("f", good)
		b.settles("a:3")
		if log := b.logged(); !strings.Contains(log, "good again") {
			t.Errorf("the log does not say that it is good again:\n%s", log)
		}
		b.put("f", list(0)) // an empty list is a list: what it means is for the snapshot
		b.settles("a:0")
		b.rejects()
	})
}

// TestNothingNew: touched, replaced by its like, or with another mode: nothing is published.
func TestNothingNew(t *testing.T) {
	inBubble(t, []string{"f"}, func(b *bench) {
		b.put("f", list(1))
		b.run()
		b.settles("a:1")
		past := time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC)
		if err := os.Chtimes(b.path("f"), past, past); err != nil {
			t.Fatal(err)
		}
		b.settles()
		b.put("g", list(1))
		if err := os.Rename(b.path("g"), b.path("f")); err != nil {
			t.Fatal(err)
		}
		b.settles()
		if err := os.Chmod(b.path("f"), 0o400); err != nil {
			t.Fatal(err)
		}
		b.settles()
		if err := os.Remove(b.path("f")); err != nil {
			t.Fatal(err)
		}
		b.settles()
		b.rejects("f")
		b.put("f", list(1)) // back as it was: published again, which changes no snapshot
		b.settles("a:1")
	})
}

// TestSwaps: a file renamed into place, also with size and time stamp of the old one; a link that leads elsewhere; a folder that is
// swapped under the file, as Kubernetes does with a ConfigMap.
func TestSwaps(t *testing.T) {
	inBubble(t, []string{"f", "link", "volume/f"}, func(b *bench) {
		stamp := time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC)
		older := func(name string) {
			if err := os.Chtimes(b.path(name), stamp, stamp); err != nil {
				t.Fatal(err)
			}
		}
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		named := func(name string) string { return strings.Replace(list(1), "name: a", "name: "+name, 1) }
		b.put("f", named("f1"))
		b.put("t1", named("l1"))
		b.put("t2", named("l2"))
		older("f")
		older("t1")
		older("t2")
		must(os.Symlink("t1", b.path("link")))
		for _, v := range []string{"v1", "v2"} {
			must(os.MkdirAll(b.path("volume/"+v), 0o700))
			b.put("volume/"+v+"/f", named(v))
			older("volume/" + v + "/f")
		}
		must(os.Symlink("v1", b.path("volume/data")))
		must(os.Symlink("data/f", b.path("volume/f")))
		b.run()
		b.settles("f1:1 l1:1 v1:1")

		b.put("new", named("f2"))
		older("new")
		must(os.Rename(b.path("new"), b.path("f")))
		b.settles("f2:1 l1:1 v1:1")

		must(os.Symlink("t2", b.path("tmp")))
		must(os.Rename(b.path("tmp"), b.path("link")))
		b.settles("f2:1 l2:1 v1:1")

		must(os.Symlink("v2", b.path("volume/tmp")))
		must(os.Rename(b.path("volume/tmp"), b.path("volume/data")))
		must(os.RemoveAll(b.path("volume/v1")))
		b.settles("f2:1 l2:1 v2:1")
		b.rejects()
	})
}

// TestHalfWritten: a writer that takes its time in place is not read before it rests, though every half of the file is a good file;
// one that never rests is read nevertheless.
func TestHalfWritten(t *testing.T) {
	inBubble(t, []string{"f"}, func(b *bench) {
		b.put("f", list(1, 1, 1))
		b.run()
		b.settles("a:1 b:1 c:1")
		b.put("f", list(2))
		time.Sleep(Interval) // one look meets this half
		b.put("f", list(2, 2, 2))
		b.settles("a:2 b:2 c:2")

		time.Sleep(Interval / 8) // between two looks: a write and a look in the same instant of the bubble would race for the file
		for n := range 40 {
			b.put("f", list(n+3))
			time.Sleep(Interval / 4)
		}
		synctest.Wait()
		b.mu.Lock()
		defer b.mu.Unlock()
		if len(b.published) < 3 {
			t.Errorf("in ten seconds of writing published %q", b.published)
		}
	})
}

// TestSeveralFiles: the first list is published when every file was good once; then each file counts by itself.
func TestSeveralFiles(t *testing.T) {
	inBubble(t, []string{"f", "g"}, func(b *bench) {
		b.put("f", list(1))
		faults := b.run()
		if len(faults) != 1 || !strings.Contains(faults[0].String(), "/g:1:1: expected a file of services: no such file or directory") {
			t.Error(faults)
		}
		if log := b.logged(); log != "" {
			t.Errorf("Load logs what it returns:\n%s", log)
		}
		b.rejects("g")
		b.settles()
		b.put("g", "services: [{name: z, hosts: [a]}]")
		b.settles()
		b.rejects("g")
		if log := b.logged(); !strings.Contains(log, "a belongs to a in "+b.path("f")) {
			t.Errorf("the log does not say why:\n%s", log)
		}
		b.put("f", list(0, 0)) // still in the way
		b.settles()
		b.put("f", "services: [{name: y}]") // out of the way
		b.settles("y:0 z:0")
		b.put("f", "services: [")
		b.put("g", "services: [{name: x}]")
		b.settles("y:0 x:0")
		b.rejects("f")
	})
}

// TestBeside: a file does not take what the configuration has.
func TestBeside(t *testing.T) {
	inBubble(t, []string{"f"}, func(b *bench) {
		b.w.Beside("spillway.yaml", []discovery.Service{{Name: "a", Hosts: []string{"a"}}})
		b.put("f", list(1))
		if faults := b.run(); len(faults) != 1 || !strings.Contains(faults[0].Message, "a stands in spillway.yaml already") {
			t.Error(faults)
		}
		b.put("f", "services: [{name: b}]")
		b.settles("b:0")
	})
}

// TestUnreadable: a file that is there but cannot be read is tried again, without a word each time.
func TestUnreadable(t *testing.T) {
	inBubble(t, []string{"f"}, func(b *bench) {
		if err := os.Mkdir(b.path("f"), 0o700); err != nil {
			t.Fatal(err)
		}
		if faults := b.run(); len(faults) != 1 || !strings.Contains(faults[0].Message, "it is a folder") {
			t.Error(faults)
		}
		b.settles()
		b.rejects("f")
		if err := os.Remove(b.path("f")); err != nil {
			t.Fatal(err)
		}
		b.put("f", list(1))
		b.settles("a:1")
	})
}

// TestManyFaults: the log is not flooded.
func TestManyFaults(t *testing.T) {
	inBubble(t, []string{"f"}, func(b *bench) {
		b.put("f", list(1))
		b.run()
		b.settles("a:1")
		b.put("f", list(1)+strings.Repeat("colour: red\n", 1000))
		b.settles()
		if n := strings.Count(b.logged(), "\n"); n != faultsLoggedMax+1 {
			t.Errorf("%d lines", n)
		}
	})
}

// TestNoFiles: nothing to watch is a list without services.
func TestNoFiles(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		if faults := b.run(); len(faults) > 0 {
			t.Error(faults)
		}
		b.settles("")
	})
}
