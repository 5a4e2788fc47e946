package edge

import (
	"bufio"
	"encoding/json"
	"net"
	"path/filepath"
	"testing"

	"go.uber.org/zap"
)

// router is the other end of a feed.
type router struct {
	conn  net.Conn
	lines *bufio.Reader
}

func connect(t *testing.T, path string) *router {
	t.Helper()
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return &router{conn: conn, lines: bufio.NewReader(conn)}
}

// say returns what is answered; nil where the connection ends instead.
func (r *router) say(line string) *answer {
	if _, err := r.conn.Write([]byte(line + "\n")); err != nil {
		return nil
	}
	said, err := r.lines.ReadBytes('\n')
	if err != nil {
		return nil
	}
	var parsed answer
	if err := json.Unmarshal(said, &parsed); err != nil {
		return nil
	}
	return &parsed
}

func aFeed(t *testing.T) (string, *table) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "table.sock")
	listener, err := listenFeed(path)
	if err != nil {
		t.Fatal(err)
	}
	table := newTable(targets{})
	feed := startFeed(listener, table, zap.NewNop())
	t.Cleanup(func() { feed.close() })
	return path, table
}

const (
	complete = `{"generation":1,"complete":true,"targets":{"a.test":"p1~10.0.0.1:80","b.test":"x~stopped"}}`
	second   = `{"generation":2,"targets":{"a.test":"p1~10.0.0.2:80","b.test":null}}`
)

func TestFeedPutsInForceBeforeItAnswers(t *testing.T) {
	path, table := aFeed(t)
	router := connect(t, path)
	if said := router.say(complete); said == nil || said.Generation != 1 || said.Refused != "" {
		t.Fatalf("%v", said)
	}
	if said := router.say(second); said == nil || said.Generation != 2 {
		t.Fatalf("%v", said)
	}
	if found := table.of("a.test"); found == nil || found.arguments[0] != "10.0.0.2:80" || table.of("b.test") != nil {
		t.Errorf("%v", found)
	}
}

func TestFeedRefuses(t *testing.T) {
	for name, lines := range map[string][]string{
		"a change before a whole table": {second},
		"an older generation":           {complete, second, complete},
		"a gap":                         {complete, `{"generation":3,"targets":{}}`},
		"what is no target":             {complete, `{"generation":2,"targets":{"a.test":"?"}}`},
		"what is no message":            {"?"},
	} {
		path, table := aFeed(t)
		router := connect(t, path)
		var said *answer
		for _, line := range lines {
			said = router.say(line)
		}
		if said == nil || said.Refused == "" {
			t.Errorf("%s: %v", name, said)
		}
		if router.say(second) != nil {
			t.Errorf("%s: the connection goes on", name)
		}
		if len(lines) > 1 && table.of("a.test") == nil {
			t.Errorf("%s: the table is gone", name)
		}
	}
}

func TestFeedHearsTheLatestRouterOnly(t *testing.T) {
	path, table := aFeed(t)
	first := connect(t, path)
	first.say(complete)
	next := connect(t, path)
	if said := next.say(complete); said == nil || said.Refused != "" {
		t.Fatalf("%v", said)
	}
	if said := first.say(second); said != nil && said.Refused == "" {
		t.Errorf("%v", said)
	}
	if table.of("b.test") == nil {
		t.Error("the router before changed the table")
	}
}

func TestListenFeed(t *testing.T) {
	path, _ := aFeed(t)
	if _, err := listenFeed(path); err == nil {
		t.Error("took the place of somebody who listens")
	}
	left := filepath.Join(t.TempDir(), "left.sock")
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: left, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	listener.SetUnlinkOnClose(false)
	listener.Close()
	again, err := listenFeed(left)
	if err != nil {
		t.Fatal(err)
	}
	again.Close()
}
