package edge

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"
)

const (
	// hostBytesMax is more than a host of a table has, with its port.
	hostBytesMax = 300
	pathBytesMax = 180
	// agentBytesMax bounds what a browser says of itself.
	agentBytesMax       = 220
	originBytesMax      = 50
	destinationBytesMax = 12
	// saidSeparator is what no header and no address can hold.
	saidSeparator = '\x7f'
)

// visit is one answered request, as far as it is counted. What of it is longer than a line may be is cut off: one visitor
// must not push everybody's lines out of the files before they are read.
type visit struct {
	host     string
	end      time.Time
	duration time.Duration
	status   int
	read     int64
	written  int
	// who is nil where only the number of requests is of interest.
	who *visitor
}

// visitor is who asked, and how.
type visitor struct {
	address, method, uri                              string
	destination, privacy, noTracking, agent, referrer string
}

func visitorOf(r *http.Request, address string) *visitor {
	return &visitor{
		address:     address,
		method:      r.Method,
		uri:         r.RequestURI,
		destination: r.Header.Get("Sec-Fetch-Dest"),
		privacy:     r.Header.Get("Sec-Gpc"),
		noTracking:  r.Header.Get("Dnt"),
		agent:       r.Header.Get("User-Agent"),
		referrer:    r.Header.Get("Referer"),
	}
}

// appendLine writes the visit as Caddy's access log would, in one line.
func (v *visit) appendLine(to []byte) []byte {
	to = append(to, `{"ts":`...)
	to = strconv.AppendFloat(to, float64(v.end.UnixMicro())/1e6, 'f', 6, 64)
	to = append(to, `,"request":{"host":"`...)
	to = appendEscaped(to, cut(v.host, hostBytesMax))
	if v.who != nil {
		to = append(to, `","remote_ip":"`...)
		to = appendEscaped(to, v.who.address)
		to = append(to, `","method":"`...)
		to = appendEscaped(to, cut(v.who.method, destinationBytesMax))
	}
	to = append(to, `"},"bytes_read":`...)
	to = strconv.AppendInt(to, v.read, 10)
	to = append(to, `,"user_id":"`...)
	if v.who != nil {
		to = v.who.appendSaid(to)
	}
	to = append(to, `","duration":`...)
	to = strconv.AppendFloat(to, v.duration.Seconds(), 'f', 6, 64)
	to = append(to, `,"size":`...)
	to = strconv.AppendInt(to, int64(v.written), 10)
	to = append(to, `,"status":`...)
	to = strconv.AppendInt(to, int64(v.status), 10)
	return append(to, "}\n"...)
}

// appendSaid writes what the router takes apart, in its order. The first is the length that a body was said to have: here
// what was read is known.
func (v *visitor) appendSaid(to []byte) []byte {
	to = append(to, saidSeparator)
	to = append(to, prefixOf(v.destination, destinationBytesMax, isLower)...)
	to = append(to, saidSeparator)
	to = append(to, prefixOf(v.privacy, 1, isBit)...)
	to = append(to, saidSeparator)
	to = append(to, prefixOf(v.noTracking, 1, isBit)...)
	to = append(to, saidSeparator)
	to = appendEscaped(to, cut(before(v.uri, "?#"), pathBytesMax))
	to = append(to, saidSeparator)
	to = appendEscaped(to, cut(v.agent, agentBytesMax))
	to = append(to, saidSeparator)
	return appendEscaped(to, originOf(v.referrer))
}

// originOf returns scheme and host of an address; empty where it has none, or a host too long to be one.
func originOf(address string) string {
	for _, scheme := range []string{"https://", "http://"} {
		if !strings.HasPrefix(address, scheme) {
			continue
		}
		host := before(address[len(scheme):], "/?#")
		if len(host) > originBytesMax {
			return ""
		}
		return address[:len(scheme)+len(host)]
	}
	return ""
}

func before(text, any string) string {
	if at := strings.IndexAny(text, any); at >= 0 {
		return text[:at]
	}
	return text
}

// cut leaves at most so many bytes, and no half of a character.
func cut(text string, bytesMax int) string {
	if len(text) <= bytesMax {
		return text
	}
	for bytesMax > 0 && !utf8.RuneStart(text[bytesMax]) {
		bytesMax--
	}
	return text[:bytesMax]
}

func prefixOf(text string, bytesMax int, is func(byte) bool) string {
	end := 0
	for end < len(text) && end < bytesMax && is(text[end]) {
		end++
	}
	return text[:end]
}

func isLower(char byte) bool { return 'a' <= char && char <= 'z' }
func isBit(char byte) bool   { return char == '0' || char == '1' }

const hexDigits = "0123456789abcdef"

// appendEscaped writes text as it may stand within the quotes of JSON.
func appendEscaped(to []byte, text string) []byte {
	for at := 0; at < len(text); {
		char := text[at]
		switch {
		case char == '"' || char == '\\':
			to = append(to, '\\', char)
			at++
		case char < 0x20:
			to = append(to, '\\', 'u', '0', '0', hexDigits[char>>4], hexDigits[char&15])
			at++
		case char < utf8.RuneSelf:
			to = append(to, char)
			at++
		default:
			symbol, size := utf8.DecodeRuneInString(text[at:])
			// What is no UTF-8 becomes the sign for that.
			to = utf8.AppendRune(to, symbol)
			at += size
		}
	}
	return to
}

// countedBody counts what is read of a request's body.
type countedBody struct {
	io.ReadCloser
	// read may still grow when the answer is complete: what sends the body on may not have heard.
	read atomic.Int64
}

func (b *countedBody) Read(into []byte) (int, error) {
	n, err := b.ReadCloser.Read(into)
	b.read.Add(int64(n))
	return n, err
}
