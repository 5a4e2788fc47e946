package edge

import (
	"net/http"
	"strings"
)

// headerNames are names of headers with "*" at the beginning or the end, as Caddy's own handler of headers takes them.
type headerNames struct {
	exact                        map[string]bool
	beginnings, endings, middles []string
}

func newHeaderNames(patterns []string) headerNames {
	names := headerNames{exact: map[string]bool{}}
	for _, pattern := range patterns {
		pattern = strings.ToLower(pattern)
		fromAny, toAny := strings.HasPrefix(pattern, "*"), strings.HasSuffix(pattern, "*")
		text := strings.Trim(pattern, "*")
		switch {
		case fromAny && toAny:
			names.middles = append(names.middles, text)
		case fromAny:
			names.endings = append(names.endings, text)
		case toAny:
			names.beginnings = append(names.beginnings, text)
		default:
			names.exact[text] = true
		}
	}
	return names
}

// removeFrom removes what has such a name, however it is spelled.
func (n *headerNames) removeFrom(header http.Header) {
	for name := range header {
		if n.have(strings.ToLower(name)) {
			delete(header, name)
		}
	}
}

func (n *headerNames) have(name string) bool {
	if n.exact[name] {
		return true
	}
	for _, text := range n.beginnings {
		if strings.HasPrefix(name, text) {
			return true
		}
	}
	for _, text := range n.endings {
		if strings.HasSuffix(name, text) {
			return true
		}
	}
	for _, text := range n.middles {
		if strings.Contains(name, text) {
			return true
		}
	}
	return false
}
