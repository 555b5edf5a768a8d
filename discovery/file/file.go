// Package file watches discovery files and publishes what they say.
//
// Its job: looking at every file each Interval; reading one whose size, time stamp or identity changed, once it has come to rest; refusing
// what does not parse or clashes with the other files; publishing the merged list when it changed. A refused or missing file changes
// nothing: what it said before stays.
// Not its job: parsing (config), making a snapshot of the list (discovery.Build).
//
// One goroutine, in Run. Bounds: config.FileBytesMax a file, faultsLoggedMax log lines for a refused one, movingLooksMax looks at a file
// that does not come to rest. A change takes effect within three looks.
package file

import (
	"context"
	"crypto/sha256"
	"log/slog"
	"os"
	"time"

	"spillway/config"
	"spillway/discovery"
)

// Interval is how often the files are looked at.
const Interval = 250 * time.Millisecond

// movingLooksMax is how many looks in a row may find that a file changed before it is read nevertheless. A file that is written in
// place is half a file for a moment, and half a file can be a good one with services missing.
const movingLooksMax = 2

// youngLooks is for how many looks after a change a file is read again although it looks the same.
const youngLooks = 8

// faultsLoggedMax bounds the log lines for one refused content.
const faultsLoggedMax = 20

// Watcher watches discovery files. It is not safe for concurrent use: Beside and Load come first, then Run.
type Watcher struct {
	files   []*watched
	base    discovery.Policy
	static  *config.List
	log     *slog.Logger
	bad     func(path string)
	publish func([]discovery.Service)
	started bool // published once
}

// watched is one file: what it said last that was good, and what was seen of it last.
type watched struct {
	path    string
	good    *config.List // nil: never yet
	seen    os.FileInfo  // nil: it was not there
	unread  bool         // it changed since it was read
	young   int          // looks for which it is read although nothing about it changed: two writes may fall into one tick of the file system's clock
	moving  int          // looks in a row that found it changed
	content [sha256.Size]byte
	refused string // what is wrong with it, empty while it is good
	clash   bool   // it is refused for what other files say: it may become good without changing
}

// New makes a watcher of files. base is the policy that services start from. bad is called with the path of a file each time a content
// of it is refused, or it is gone; publish is called with the merged list of all files, in their order, whenever it changed, and for
// the first time once every file has been good.
func New(paths []string, base discovery.Policy, log *slog.Logger, bad func(path string), publish func([]discovery.Service)) *Watcher {
	w := &Watcher{base: base, log: log, bad: bad, publish: publish}
	for _, p := range paths {
		w.files = append(w.files, &watched{path: p})
	}
	return w
}

// Beside names services that come from elsewhere: a file that repeats one of their names, hosts, or addresses and ports is refused.
// from says in messages where they stand.
func (w *Watcher) Beside(from string, services []discovery.Service) {
	w.static = config.ListOf(from, services)
}

// Load reads every file once and publishes if all of them are good. It returns what is wrong with the others, which it does not log:
// whoever starts a proxy says it in its own way.
func (w *Watcher) Load() []config.Fault {
	var faults []config.Fault
	changed := false
	for _, f := range w.files {
		f.seen = stat(f.path)
		ok, found := w.read(f)
		changed = changed || ok
		faults = append(faults, found...)
	}
	w.merge(changed)
	return faults
}

// Run looks at the files until ctx ends.
func (w *Watcher) Run(ctx context.Context) {
	tick := time.NewTicker(Interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			w.lookAll()
		}
	}
}

// lookAll looks at every file once. When one became good, those that clashed with what it said before get another chance.
func (w *Watcher) lookAll() {
	changed := false
	for _, f := range w.files {
		if f.moved() {
			changed = w.take(f) || changed
		}
	}
	for again := changed; again; {
		again = false
		for _, f := range w.files {
			if f.clash {
				again = w.take(f) || again
			}
		}
	}
	w.merge(changed)
}

// take reads a file and logs what is wrong with it.
func (w *Watcher) take(f *watched) (changed bool) {
	was := f.refused
	changed, faults := w.read(f)
	for i, fault := range faults {
		if i == faultsLoggedMax {
			w.log.Error("discovery: file refused", "path", f.path, "more_faults", len(faults)-i)
			break
		}
		w.log.Error("discovery: file refused", "fault", fault.String())
	}
	if was != "" && f.refused == "" {
		w.log.Info("discovery: file is good again", "path", f.path)
	}
	return changed
}

// moved tells whether the file changed since it was read and has come to rest.
func (f *watched) moved() bool {
	now := stat(f.path)
	same := alike(f.seen, now)
	f.seen = now
	if !same {
		f.unread, f.young = true, youngLooks
		f.moving++
		if f.moving < movingLooksMax {
			return false
		}
	}
	ready := f.unread || f.young > 0
	f.unread, f.moving, f.young = false, 0, max(0, f.young-1)
	return ready
}

// stat is nil where there is no file.
func stat(path string) os.FileInfo {
	info, err := os.Stat(path)
	if err != nil {
		return nil
	}
	return info
}

// alike tells whether two looks saw the same file unchanged. Links are followed, so a swapped link leads to another file.
func alike(a, b os.FileInfo) bool {
	if a == nil || b == nil {
		return a == b
	}
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime()) && a.Mode() == b.Mode()
}

// read reads a file. changed tells that it says something new and good; faults are given once for each content.
func (w *Watcher) read(f *watched) (changed bool, faults []config.Fault) {
	data, err := config.ReadFile(f.path)
	sum := sha256.Sum256(data)
	if err == nil && f.good != nil && f.refused == "" && sum == f.content {
		return false, nil // touched, or replaced by its like
	}
	var l *config.List
	if err == nil {
		l, faults = config.ParseList(f.path, data, w.base)
	} else {
		faults = []config.Fault{config.Unreadable(f.path, err)}
		f.unread = true // the reason may go without a trace on the file
	}
	f.clash = false
	if len(faults) == 0 {
		faults = config.Overlaps(l, w.others(f))
		f.clash = len(faults) > 0
	}
	if len(faults) > 0 {
		told := faults[0].String()
		if f.refused == told && sum == f.content {
			return false, nil
		}
		f.refused, f.content = told, sum
		w.bad(f.path)
		return false, faults
	}
	f.good, f.refused, f.content = l, "", sum
	return true, nil
}

// others are the lists that a file must not clash with.
func (w *Watcher) others(f *watched) []*config.List {
	var out []*config.List
	if w.static != nil {
		out = append(out, w.static)
	}
	for _, o := range w.files {
		if o != f && o.good != nil {
			out = append(out, o.good)
		}
	}
	return out
}

// merge publishes the list of all files when one changed and every one has been good.
func (w *Watcher) merge(changed bool) {
	if !changed && (w.started || len(w.files) > 0) {
		return
	}
	var all []discovery.Service
	for _, f := range w.files {
		if f.good == nil {
			return
		}
		all = append(all, f.good.Services...)
	}
	w.started = true
	w.publish(all)
}
