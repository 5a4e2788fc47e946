package edge

import (
	"net/http"
	"testing"
)

func TestRemoveHeaders(t *testing.T) {
	names := newHeaderNames([]string{"*forwarded*", "x-real*", "*client-ip", "proxy", "x_original_uri"})
	removed := []string{"X-Forwarded-For", "Forwarded", "x_forwarded_host", "X-Real-Ip", "True-Client-Ip", "Proxy", "X_original_uri"}
	kept := []string{"Host", "Accept", "My-X-Real", "Client-Ip-2", "Proxy-Authorization", "X"}
	header := http.Header{}
	for _, name := range append(removed, kept...) {
		header[name] = []string{"1"}
	}
	names.removeFrom(header)
	if len(header) != len(kept) {
		t.Errorf("left: %v", header)
	}
	for _, name := range kept {
		if header[name] == nil {
			t.Errorf("%s is gone", name)
		}
	}
}
