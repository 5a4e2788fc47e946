package edge

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// said returns what a line says where Caddy names a user, and what it says of the request.
func said(t *testing.T, v visit) ([]string, map[string]any) {
	t.Helper()
	line := string(v.appendLine(nil))
	if strings.Count(line, "\n") != 1 || !strings.HasSuffix(line, "\n") {
		t.Errorf("not one line: %q", line)
	}
	var entry map[string]any
	if err := json.Unmarshal([]byte(line), &entry); err != nil {
		t.Fatalf("%v: %q", err, line)
	}
	return strings.Split(entry["user_id"].(string), "\x7f"), entry
}

func TestLine(t *testing.T) {
	request := httptest.NewRequest("GET", "/caf%C3%A9?secret=1#x", nil)
	request.Header.Set("User-Agent", "A \"browser\"\\ \xff")
	request.Header.Set("Referer", "https://ref.test/private?q")
	request.Header.Set("Sec-Fetch-Dest", "document")
	request.Header.Set("DNT", "1")
	v := visit{host: "a.test", end: time.UnixMicro(1_700_000_000_250_000), duration: 1500 * time.Microsecond, status: 200, read: 6, written: 7}
	v.who = visitorOf(request, "10.0.0.9")
	parts, entry := said(t, v)
	want := []string{"", "document", "", "1", "/caf%C3%A9", "A \"browser\"\\ \ufffd", "https://ref.test"}
	if strings.Join(parts, "|") != strings.Join(want, "|") {
		t.Errorf("%q", parts)
	}
	about := entry["request"].(map[string]any)
	if about["host"] != "a.test" || about["method"] != "GET" || about["remote_ip"] != "10.0.0.9" {
		t.Errorf("%v", about)
	}
	for name, number := range map[string]float64{"ts": 1_700_000_000.25, "duration": 0.0015, "status": 200, "size": 7, "bytes_read": 6} {
		if entry[name] != number {
			t.Errorf("%s: %v", name, entry[name])
		}
	}
}

func TestLineWithoutVisitor(t *testing.T) {
	parts, entry := said(t, visit{host: "a.test", end: time.Now()})
	if len(parts) != 1 || parts[0] != "" || len(entry["request"].(map[string]any)) != 1 {
		t.Errorf("%v", entry)
	}
}

func TestLineIsBounded(t *testing.T) {
	long := strings.Repeat("ä", 40_000)
	request := httptest.NewRequest("GET", "/", nil)
	request.RequestURI = "/" + long
	for _, name := range []string{"User-Agent", "Referer", "Sec-Fetch-Dest", "DNT", "Sec-GPC"} {
		request.Header.Set(name, "https://"+long)
	}
	v := visit{host: long, who: visitorOf(request, "10.0.0.9")}
	if _, entry := said(t, v); strings.Contains(entry["user_id"].(string), "\ufffd") {
		t.Error("half a character")
	}
	if bytes := len(v.appendLine(nil)); bytes > 2000 {
		t.Errorf("%d bytes", bytes)
	}
}

func TestOrigin(t *testing.T) {
	for address, want := range map[string]string{
		"https://a.test/page?q": "https://a.test",
		"http://a.test":         "http://a.test",
		"android-app://a":       "",
		"":                      "",
		"https://" + strings.Repeat("a", 51) + "/": "",
	} {
		if got := originOf(address); got != want {
			t.Errorf("%q: %q", address, got)
		}
	}
}
