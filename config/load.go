package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"spillway/discovery"
)

// FileBytesMax bounds a configuration file and a discovered file.
const FileBytesMax = 16 << 20

// otherWriters are the permission bits by which somebody else than the owner may write.
const otherWriters fs.FileMode = 0o022

// Load reads a configuration file. With any fault there is no Config; the faults are all that the file has, in its order.
func Load(file string) (*Config, []Fault) {
	data, mode, err := readRegular(file, FileBytesMax)
	if err != nil {
		return nil, []Fault{{File: file, Line: 1, Column: 1, Message: "expected a configuration file: " + err.Error()}}
	}
	dir, err := filepath.Abs(filepath.Dir(file))
	if err != nil {
		return nil, []Fault{{File: file, Line: 1, Column: 1, Message: "expected a folder to start relative paths from: " + err.Error()}}
	}
	c, faults := parse(file, dir, data, readSecret)
	if mode&otherWriters != 0 {
		faults = sorted(append([]Fault{{File: file, Line: 1, Column: 1,
			Message: fmt.Sprintf("expected a file that only its owner may write, got mode %04o (chmod go-w)", mode.Perm())}}, faults...))
	}
	if len(faults) > 0 {
		return nil, faults
	}
	if c.Node.ID == "" {
		id, err := os.Hostname()
		if err != nil || !isName(id) || id == "" {
			return nil, []Fault{{File: file, Line: 1, Column: 1, Key: "node.id",
				Message: "expected an id, because the host name cannot be read or is no name"}}
		}
		c.Node.ID = id
	}
	return c, nil
}

// parse reads the text of a configuration file. secret follows references.
func parse(file, dir string, data []byte, secret func(string) (string, error)) (*Config, []Fault) {
	c := Default()
	root, fault := document(file, data, "a mapping with outbound and other keys")
	if fault != nil {
		return nil, []Fault{*fault}
	}
	r := &reader{file: file, secret: secret, secrets: map[string]Secret{}}
	schema(c, dir).read(r, "", root)
	if root.Kind == yaml.MappingNode {
		r.check(c, root)
	}
	if len(r.faults) > 0 {
		return nil, sorted(r.faults)
	}
	finish(c.Services, c.Policy)
	c.secrets = r.secrets
	return c, nil
}

// readRegular reads a regular file of at most max bytes. Anything else, such as a pipe, could keep it waiting for ever.
func readRegular(file string, max int64) ([]byte, fs.FileMode, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, 0, plain(err)
	}
	if info.IsDir() {
		return nil, 0, errors.New("it is a folder")
	}
	if !info.Mode().IsRegular() {
		return nil, 0, errors.New("it is not a regular file")
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, 0, plain(err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, max+1))
	if err != nil {
		return nil, 0, plain(err)
	}
	if info, err = f.Stat(); err != nil { // of what was read: the name may lead elsewhere by then
		return nil, 0, plain(err)
	}
	if int64(len(data)) > max {
		return nil, 0, fmt.Errorf("it is larger than %s", sizeText(int(max)))
	}
	return data, info.Mode(), nil
}

// plain is what went wrong without operation and path, which the message says already.
func plain(err error) error {
	var e *fs.PathError
	if errors.As(err, &e) {
		return e.Err
	}
	return err
}

// readSecret reads what a reference names.
func readSecret(file string) (string, error) {
	if !filepath.IsAbs(file) {
		return "", errors.New("its path must be absolute")
	}
	data, _, err := readRegular(file, secretBytesMax)
	if err != nil {
		return "", err
	}
	return trimLineEnd(string(data)), nil
}

// ParseServices reads a discovered file: a mapping with `services:`. Policies start from base. With any fault there are no services.
func ParseServices(file string, data []byte, base discovery.Policy) ([]discovery.Service, []Fault) {
	l, faults := ParseList(file, data, base)
	if len(faults) > 0 {
		return nil, faults
	}
	return l.Services, nil
}

// List is what one file says of services.
type List struct {
	File     string
	Services []discovery.Service
	places   [][2]int // line and column of each
}

// ListOf is a list of services that no discovered file brought, such as those of the configuration.
func ListOf(file string, services []discovery.Service) *List {
	return &List{File: file, Services: services}
}

// ParseList is ParseServices, with what Overlaps needs.
func ParseList(file string, data []byte, base discovery.Policy) (*List, []Fault) {
	if len(data) > FileBytesMax {
		return nil, []Fault{Unreadable(file, fmt.Errorf("it is larger than %s", sizeText(FileBytesMax)))}
	}
	root, fault := document(file, data, "a mapping with services")
	if fault != nil {
		return nil, []Fault{*fault}
	}
	l := &List{File: file}
	r := &reader{file: file}
	mapping{"file", []entry{{"services", servicesShape(&l.Services, &base), "a list of services"}}}.read(r, "", root)
	r.checkServices(l.Services, root)
	if len(r.faults) > 0 {
		return nil, sorted(r.faults)
	}
	for i := range l.Services {
		line, column := place(locate(root, "services", i, "name"))
		l.places = append(l.places, [2]int{line, column})
	}
	finish(l.Services, base)
	return l, nil
}

// ReadFile reads a discovered file: a regular one of at most FileBytesMax bytes.
func ReadFile(file string) ([]byte, error) {
	data, _, err := readRegular(file, FileBytesMax)
	return data, err
}

// Unreadable is the fault of a discovered file that ReadFile could not read.
func Unreadable(file string, err error) Fault {
	return Fault{File: file, Line: 1, Column: 1, Message: "expected a file of services: " + err.Error()}
}

// Overlaps tells which services of a list share their name, a host, or an address and port with one of the other lists.
func Overlaps(l *List, others []*List) []Fault {
	x := newIndex()
	for _, o := range others {
		for i := range o.Services {
			x.add(&o.Services[i], o.File)
		}
	}
	var out []Fault
	for i := range l.Services {
		for _, c := range x.add(&l.Services[i], l.File) {
			f := Fault{File: l.File, Line: 1, Column: 1, Key: fmt.Sprintf("services[%d]", i), Message: c.message}
			if i < len(l.places) {
				f.Line, f.Column = l.places[i][0], l.places[i][1]
			}
			out = append(out, f)
		}
	}
	return sorted(out)
}

// finish completes services that were read: the name is one of the hosts, and every service has a policy. Items stay where they are in
// their lists, because what came from a reference is known by its place.
func finish(services []discovery.Service, base discovery.Policy) {
	for i := range services {
		s := &services[i]
		if name := strings.ToLower(s.Name); !slices.Contains(s.Hosts, name) {
			s.Hosts = append(s.Hosts, name)
		}
		if s.Policy == nil {
			s.Policy = &base
		}
	}
}
