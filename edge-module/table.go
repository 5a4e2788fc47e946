package edge

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
	"sync/atomic"
)

// separator stands between the parts of a target name; no part can hold one.
const separator = "~"

// target is what one host serves, as the name of its entry in the table of names says it.
type target struct {
	// gate is the wicket of the password; empty where there is none.
	gate string
	// kind of target, such as p1 or s.
	kind string
	// arguments of that kind: addresses of upstreams, or a bundle.
	arguments []string
}

var (
	entryPattern  = regexp.MustCompile(`^[0-9a-f]{14}~(.+)$`)
	targetPattern = regexp.MustCompile(`^(?:([A-Za-z0-9_-]{11})~)?([a-z][0-9]*)~(.+)$`)
)

// parseTarget takes a target name apart; false for one that is none.
func parseTarget(name string) (*target, bool) {
	parts := targetPattern.FindStringSubmatch(name)
	if parts == nil {
		return nil, false
	}
	arguments := strings.Split(parts[3], separator)
	if len(arguments) > argumentsMax {
		return nil, false
	}
	return &target{gate: parts[1], kind: parts[2], arguments: arguments}, true
}

// targets says what each host serves. A value of it never changes.
type targets map[string]*target

// table is what is looked up for each request. Readers never wait.
type table struct {
	inForce atomic.Pointer[targets]
}

func newTable(first targets) *table {
	made := &table{}
	made.inForce.Store(&first)
	return made
}

// of returns what a host serves; nil where it is not known here.
func (t *table) of(host string) *target {
	return (*t.inForce.Load())[host]
}

// change is what becomes of hosts, by target name; null is none.
type change map[string]*string

// replace puts a whole table in force.
func (t *table) replace(all change) error {
	next, err := all.appliedTo(targets{})
	if err == nil {
		t.inForce.Store(&next)
	}
	return err
}

// apply puts a change in force, all of it at one moment. There is one caller at a time.
func (t *table) apply(changed change) error {
	next, err := changed.appliedTo(*t.inForce.Load())
	if err == nil {
		t.inForce.Store(&next)
	}
	return err
}

func (c change) appliedTo(before targets) (targets, error) {
	after := make(targets, len(before)+len(c))
	for host, each := range before {
		after[host] = each
	}
	for host, name := range c {
		if name == nil {
			delete(after, host)
			continue
		}
		parsed, ok := parseTarget(*name)
		if !ok {
			return nil, fmt.Errorf("%q is no target", *name)
		}
		after[host] = parsed
	}
	return after, nil
}

// readTree reads the table of names in dir: for each host a directory, in which the entry that sorts first is in force.
// A tree that is not there is empty. What is no entry is passed over: then the host is looked up where the tree is.
func readTree(dir string) (targets, error) {
	found := targets{}
	hosts, err := os.ReadDir(dir)
	if os.IsNotExist(err) {
		return found, nil
	}
	if err != nil {
		return nil, err
	}
	for _, host := range hosts {
		if !host.IsDir() || strings.HasPrefix(host.Name(), ".") {
			continue
		}
		entries, err := os.ReadDir(filepath.Join(dir, host.Name()))
		if err != nil && !os.IsNotExist(err) {
			return nil, err
		}
		names := make([]string, 0, len(entries))
		for _, entry := range entries {
			names = append(names, entry.Name())
		}
		sort.Strings(names)
		if len(names) == 0 {
			continue
		}
		if parts := entryPattern.FindStringSubmatch(names[0]); parts != nil {
			if parsed, ok := parseTarget(parts[1]); ok {
				found[host.Name()] = parsed
			}
		}
	}
	return found, nil
}
