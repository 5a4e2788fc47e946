package edge

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"go.uber.org/zap"
)

const (
	// messageBytesMax bounds what the router may say at once: 100,000 hosts with long names.
	messageBytesMax = 64 << 20
	// answerWithin bounds the wait for a router that does not read what it is answered.
	answerWithin = 5 * time.Second
)

// message is one line of what the router says. The first of a connection is complete, and numbers count on from it.
type message struct {
	Generation uint64 `json:"generation"`
	Complete   bool   `json:"complete"`
	Targets    change `json:"targets"`
}

// answer says which generation is in force, or why the one before it stays so.
type answer struct {
	Generation uint64 `json:"generation"`
	Refused    string `json:"refused,omitempty"`
}

// feed keeps a table as the router says on a Unix socket. The connection that came last counts: one before it is closed,
// and nothing that it still says has an effect.
type feed struct {
	listener net.Listener
	table    *table
	log      *zap.Logger

	mu      sync.Mutex
	current net.Conn
	closed  bool
}

// listenFeed takes the place of a socket that an earlier process left, but not of one where somebody listens: the router would
// tell the wrong one.
func listenFeed(path string) (net.Listener, error) {
	if conn, err := net.Dial("unix", path); err == nil {
		conn.Close()
		return nil, fmt.Errorf("another Caddy listens at %s", path)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	return net.Listen("unix", path)
}

// startFeed follows routers until it is closed.
func startFeed(listener net.Listener, table *table, log *zap.Logger) *feed {
	started := &feed{listener: listener, table: table, log: log}
	go started.accept()
	return started
}

func (f *feed) accept() {
	for {
		conn, err := f.listener.Accept()
		if err != nil {
			f.mu.Lock()
			closed := f.closed
			f.mu.Unlock()
			if closed {
				return
			}
			f.log.Error("the table's socket does not accept", zap.Error(err))
			time.Sleep(time.Second)
			continue
		}
		f.mu.Lock()
		if f.current != nil {
			f.current.Close()
		}
		f.current = conn
		f.mu.Unlock()
		go f.follow(conn)
	}
}

func (f *feed) follow(conn net.Conn) {
	defer conn.Close()
	lines := bufio.NewScanner(conn)
	lines.Buffer(nil, messageBytesMax)
	var generation uint64
	for lines.Scan() {
		next, refused := f.take(conn, generation, lines.Bytes())
		if err := reply(conn, next, refused); err != nil || refused != nil {
			return
		}
		generation = next
	}
	if err := lines.Err(); err != nil && !errors.Is(err, net.ErrClosed) && !errors.Is(err, io.EOF) {
		f.log.Warn("the router's table was not read to its end", zap.Error(err))
	}
}

// take puts what a line says in force, and returns the generation that is.
func (f *feed) take(conn net.Conn, before uint64, line []byte) (uint64, error) {
	var said message
	if err := json.Unmarshal(line, &said); err != nil {
		return before, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.current != conn {
		return before, errors.New("another router came")
	}
	switch {
	case before == 0 && !said.Complete:
		return before, errors.New("the first is not complete")
	case before != 0 && said.Generation != before+1, said.Generation == 0:
		return before, fmt.Errorf("generation %d does not follow %d", said.Generation, before)
	}
	apply := f.table.apply
	if said.Complete {
		apply = f.table.replace
	}
	if err := apply(said.Targets); err != nil {
		return before, err
	}
	return said.Generation, nil
}

func reply(conn net.Conn, generation uint64, refused error) error {
	said := answer{Generation: generation}
	if refused != nil {
		said.Refused = refused.Error()
	}
	line, err := json.Marshal(said)
	if err != nil {
		return err
	}
	if err := conn.SetWriteDeadline(time.Now().Add(answerWithin)); err != nil {
		return err
	}
	_, err = conn.Write(append(line, '\n'))
	return err
}

func (f *feed) close() error {
	f.mu.Lock()
	f.closed = true
	if f.current != nil {
		f.current.Close()
	}
	f.mu.Unlock()
	return f.listener.Close()
}
