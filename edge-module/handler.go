// Package edge is what an edge has in Caddy itself: the table of names in memory, and a log of visits that costs no system
// call. What it does not know it leaves to the routes of an edge without it.
package edge

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"
)

// argumentsMax is how many arguments a target may have: that many have placeholders.
const argumentsMax = 16

func init() {
	caddy.RegisterModule(Handler{})
}

// Handler answers every request of a server, and counts it.
type Handler struct {
	// Table is the directory of the table of names: what a Caddy serves that the router has told nothing yet.
	Table string `json:"table"`
	// Socket is the path at which the router says what hosts serve.
	Socket string `json:"socket"`
	// Visits is the directory for the log of visits; empty: there is none.
	Visits string `json:"visits,omitempty"`
	// LogsVisitors is whether the log says who asked, and how.
	LogsVisitors bool `json:"logs_visitors,omitempty"`
	// Aside are beginnings of paths that are always left to Otherwise.
	Aside []string `json:"aside,omitempty"`
	// Strip are names of headers that no visitor may say to what Kinds lead to.
	Strip []string `json:"strip,omitempty"`
	// Gate is how visitors show that they passed a password.
	Gate *Gate `json:"gate,omitempty"`
	// Kinds are the routes of targets by their kind; {svc.argument.1} and so on are what the target names.
	Kinds map[string]caddyhttp.RouteList `json:"kinds,omitempty"`
	// Otherwise are the routes of everything else.
	Otherwise caddyhttp.RouteList `json:"otherwise,omitempty"`
	// Errors are the routes of what another route returned as an error.
	Errors *caddyhttp.HTTPErrorConfig `json:"errors,omitempty"`

	strip         headerNames
	open, passed  map[string]caddyhttp.Handler
	otherwise     caddyhttp.Handler
	errorHandler  caddyhttp.Handler
	cookiePattern *regexp.Regexp
	table         *fedTable
	visits        *visits
	log           *zap.Logger
}

// Gate is a cookie whose values are names of files: the table has them in <Dir>/<wicket>.
type Gate struct {
	Dir    string `json:"dir"`
	Cookie string `json:"cookie"`
	// Token is the pattern of all of a value. What does not match is not looked up.
	Token string `json:"token"`
	// Passed are handlers before those of the target, for whoever showed a value.
	Passed caddyhttp.RouteList `json:"passed,omitempty"`
}

// What outlives a configuration: servers share it, and so does the next configuration.
var (
	// feeds holds each fedTable by its directory and socket.
	feeds = caddy.NewUsagePool()
	// logs holds each *visits by its directory.
	logs = caddy.NewUsagePool()
)

// fedTable is a table that the router keeps.
type fedTable struct {
	*table
	feed *feed
}

// CaddyModule says what this is called in a configuration.
func (Handler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.handlers.svc_edge",
		New: func() caddy.Module { return new(Handler) },
	}
}

// Provision puts all routes together, once.
func (h *Handler) Provision(ctx caddy.Context) error {
	h.log = ctx.Logger(h)
	h.strip = newHeaderNames(h.Strip)
	h.open, h.passed = map[string]caddyhttp.Handler{}, map[string]caddyhttp.Handler{}
	if h.Errors == nil {
		h.Errors = &caddyhttp.HTTPErrorConfig{}
	}
	lists := []caddyhttp.RouteList{h.Otherwise, h.Errors.Routes}
	if h.Gate != nil {
		pattern, err := regexp.Compile(h.Gate.Token)
		if err != nil {
			return err
		}
		h.cookiePattern = pattern
		lists = append(lists, h.Gate.Passed)
	}
	for _, routes := range h.Kinds {
		lists = append(lists, routes)
	}
	for _, routes := range lists {
		if err := routes.Provision(ctx); err != nil {
			return err
		}
	}
	for kind, routes := range h.Kinds {
		h.open[kind] = routes.Compile(nothing)
		if h.Gate != nil {
			h.passed[kind] = h.Gate.Passed.Compile(h.open[kind])
		}
	}
	h.otherwise = h.Otherwise.Compile(nothing)
	h.errorHandler = h.Errors.Routes.Compile(plainError)
	return h.share()
}

// nothing ends a list of routes none of which answered.
var nothing = caddyhttp.HandlerFunc(func(http.ResponseWriter, *http.Request) error { return nil })

// plainError is the answer where no route makes a page of an error.
var plainError = caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
	err, _ := r.Context().Value(caddyhttp.ErrorCtxKey).(error)
	w.WriteHeader(statusOf(err))
	return nil
})

func (h *Handler) share() error {
	shared, _, err := feeds.LoadOrNew(h.feedKey(), func() (caddy.Destructor, error) {
		return openTable(h.Table, h.Socket, h.log)
	})
	if err != nil {
		return err
	}
	h.table = shared.(*fedTable)
	if h.Visits == "" {
		return nil
	}
	shared, _, err = logs.LoadOrNew(h.Visits, func() (caddy.Destructor, error) {
		return openVisits(h.Visits, h.log), nil
	})
	if err != nil {
		return err
	}
	h.visits = shared.(*visits)
	return nil
}

func (h *Handler) feedKey() string {
	return h.Table + "\x00" + h.Socket
}

func openTable(tree, socket string, log *zap.Logger) (*fedTable, error) {
	// Before the tree is read: a router that finds nobody here changes the tree, and tells nobody.
	listener, err := listenFeed(socket)
	if err != nil {
		return nil, err
	}
	found, err := readTree(tree)
	if err != nil {
		listener.Close()
		return nil, err
	}
	opened := &fedTable{table: newTable(found)}
	opened.feed = startFeed(listener, opened.table, log)
	return opened, nil
}

// Destruct ends what nobody uses any more.
func (t *fedTable) Destruct() error {
	return t.feed.close()
}

// Cleanup gives back what is shared.
func (h *Handler) Cleanup() error {
	var err error
	if h.table != nil {
		_, err = feeds.Delete(h.feedKey())
	}
	if h.visits != nil {
		if _, logErr := logs.Delete(h.Visits); err == nil {
			err = logErr
		}
	}
	return err
}

// ServeHTTP answers. It calls no handler after it.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request, _ caddyhttp.Handler) error {
	if h.visits == nil {
		h.answer(w, r)
		return nil
	}
	asked := h.begin(w, r)
	// Also where a handler breaks the connection off, which it does by a panic.
	defer asked.end()
	h.answer(asked.recorder, r)
	return nil
}

// asked is a request that is counted when it was answered.
type asked struct {
	handler  *Handler
	request  *http.Request
	recorder caddyhttp.ResponseRecorder
	body     *countedBody
	started  time.Time
	visit    visit
}

func (h *Handler) begin(w http.ResponseWriter, r *http.Request) *asked {
	begun := &asked{
		handler:  h,
		request:  r,
		recorder: caddyhttp.NewResponseRecorder(w, nil, nil),
		started:  time.Now(),
	}
	begun.visit.host = r.Host
	if h.LogsVisitors {
		begun.visit.who = visitorOf(r, addressOf(r))
	}
	if r.Body != nil && r.Body != http.NoBody {
		begun.body = &countedBody{ReadCloser: r.Body}
		r.Body = begun.body
	}
	return begun
}

var lines = sync.Pool{New: func() any { return new([]byte) }}

func (a *asked) end() {
	context := a.request.Context()
	if caddyhttp.GetVar(context, "skip_log") != nil || caddyhttp.GetVar(context, "log_skip") != nil {
		return
	}
	a.visit.end = time.Now()
	a.visit.duration = a.visit.end.Sub(a.started)
	a.visit.status = a.recorder.Status()
	a.visit.written = a.recorder.Size()
	if a.body != nil {
		a.visit.read = a.body.read.Load()
	}
	line := lines.Get().(*[]byte)
	*line = a.visit.appendLine((*line)[:0])
	a.handler.visits.append(*line)
	lines.Put(line)
}

// addressOf returns where a visitor is: what is in front is believed where this Caddy knows how to.
func addressOf(r *http.Request) string {
	if told, ok := caddyhttp.GetVar(r.Context(), "client_ip").(string); ok && told != "" {
		return told
	}
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

func (h *Handler) answer(w http.ResponseWriter, r *http.Request) {
	err := h.handlerFor(r).ServeHTTP(w, r)
	if err != nil {
		h.answerError(w, r, err)
	}
}

var argumentNames = func() (names [argumentsMax]string) {
	for at := range names {
		names[at] = "svc.argument." + strconv.Itoa(at+1)
	}
	return names
}()

// handlerFor returns what answers a request.
func (h *Handler) handlerFor(r *http.Request) caddyhttp.Handler {
	if r.Method == http.MethodConnect || r.Method == http.MethodTrace {
		return h.otherwise
	}
	for _, beginning := range h.Aside {
		if strings.HasPrefix(r.URL.Path, beginning) {
			return h.otherwise
		}
	}
	// A host that is spelled in another way is in no table.
	found := h.table.of(withoutPort(r.Host))
	if found == nil {
		return h.otherwise
	}
	handler := h.open[found.kind]
	if found.gate != "" && handler != nil {
		handler = h.passed[found.kind]
		if !h.passes(r, found.gate) {
			return h.otherwise
		}
	}
	if handler == nil {
		return h.otherwise
	}
	h.strip.removeFrom(r.Header)
	replacer := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	for at, argument := range found.arguments {
		replacer.Set(argumentNames[at], argument)
	}
	return handler
}

// passes tells whether a visitor shows what opens a gate: the first of such cookies counts.
func (h *Handler) passes(r *http.Request, gate string) bool {
	for _, cookie := range r.Cookies() {
		if !strings.EqualFold(cookie.Name, h.Gate.Cookie) {
			continue
		}
		if !h.cookiePattern.MatchString(cookie.Value) {
			return false
		}
		_, err := os.Stat(filepath.Join(h.Gate.Dir, gate, cookie.Value))
		return err == nil
	}
	return false
}

func withoutPort(host string) string {
	at := strings.IndexByte(host, ':')
	if at < 0 {
		return host
	}
	for _, digit := range []byte(host[at+1:]) {
		if digit < '0' || digit > '9' {
			return host
		}
	}
	return host[:at]
}

// answerError makes a page of an error, as Caddy's own server does with what its routes return.
func (h *Handler) answerError(w http.ResponseWriter, r *http.Request, err error) {
	original := r.Context().Value(caddyhttp.OriginalRequestCtxKey).(http.Request)
	r.Method = original.Method
	r.RemoteAddr = original.RemoteAddr
	r.RequestURI = original.RequestURI
	*r.URL = *original.URL
	status := statusOf(err)
	if status >= http.StatusInternalServerError {
		h.log.Error("a request failed", zap.String("host", r.Host), zap.Int("status", status), zap.Error(err))
	}
	if err := h.errorHandler.ServeHTTP(w, h.Errors.WithError(r, err)); err != nil {
		h.log.Error("the page of an error failed", zap.Error(err))
		w.WriteHeader(statusOf(err))
	}
}

func statusOf(err error) int {
	var known caddyhttp.HandlerError
	if errors.As(err, &known) && known.StatusCode != 0 {
		return known.StatusCode
	}
	return http.StatusInternalServerError
}

// Validate refuses what nobody meant.
func (h *Handler) Validate() error {
	if h.Table == "" || h.Socket == "" {
		return fmt.Errorf("svc_edge needs a table and a socket")
	}
	return nil
}

var (
	_ caddy.Provisioner           = (*Handler)(nil)
	_ caddy.Validator             = (*Handler)(nil)
	_ caddy.CleanerUpper          = (*Handler)(nil)
	_ caddyhttp.MiddlewareHandler = (*Handler)(nil)
)
