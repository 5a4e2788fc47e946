package edge

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestParseTarget(t *testing.T) {
	for name, want := range map[string]*target{
		"p1~10.0.0.1:80":                   {kind: "p1", arguments: []string{"10.0.0.1:80"}},
		"p2~10.0.0.1:80~[::1]:81":          {kind: "p2", arguments: []string{"10.0.0.1:80", "[::1]:81"}},
		"abcdefghi_-~p1~10.0.0.1:80":       {gate: "abcdefghi_-", kind: "p1", arguments: []string{"10.0.0.1:80"}},
		"x~stopped":                        {kind: "x", arguments: []string{"stopped"}},
		"":                                 nil,
		"p1":                               nil,
		"p1~":                              nil,
		"short~p1~10.0.0.1:80":             nil,
		"p99" + strings.Repeat("~a:1", 17): nil,
	} {
		got, ok := parseTarget(name)
		if ok != (want != nil) || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %v", name, got)
		}
	}
}

func TestReadTree(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{
		"two.test/10000000000000~p1~10.0.0.1:80",
		"two.test/0fffffffffffff~p1~10.0.0.2:80",
		"foreign.test/nothing-of-ours",
		".gate/abcdefghijk/value",
		".ready",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	found, err := readTree(dir)
	if err != nil || len(found) != 1 || found["two.test"].arguments[0] != "10.0.0.2:80" {
		t.Errorf("%v %v", found, err)
	}
	if none, err := readTree(filepath.Join(dir, "absent")); err != nil || len(none) != 0 {
		t.Errorf("absent: %v %v", none, err)
	}
}

func TestApplyIsAllOrNothing(t *testing.T) {
	name, wrong := "p1~10.0.0.1:80", "?"
	table := newTable(targets{"old.test": {kind: "x", arguments: []string{"stopped"}}})
	if err := table.apply(change{"new.test": &name, "bad.test": &wrong}); err == nil {
		t.Error("took what is no target")
	}
	if table.of("new.test") != nil {
		t.Error("half of a change is in force")
	}
	if err := table.apply(change{"new.test": &name, "old.test": nil}); err != nil {
		t.Error(err)
	}
	if table.of("new.test") == nil || table.of("old.test") != nil {
		t.Error("the change is not in force")
	}
}
