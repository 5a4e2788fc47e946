package edge

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"go.uber.org/zap"
)

const (
	segmentBytes = 4 << 20
	// segmentsMax bounds what waits for a router that is away: with more, the oldest lines are lost.
	segmentsMax = 32
	// A segment begins with a line that no other begins with, and the number of bytes that are whole, the beginning included.
	markBytes   = 32
	headerBytes = 64
	// openAgainAfter spares the disk where no segment can be made.
	openAgainAfter = time.Second
)

// visits is a log of lines in files that are memory: to write a line is to copy it, and what was written is there for the
// router whatever becomes of this process. A reader believes the number at the beginning, which is put there after the line.
type visits struct {
	dir string
	log *zap.Logger

	mu sync.Mutex
	// segment is nil while none can be made.
	segment  []byte
	written  int
	lastName int64
	retryAt  time.Time
}

func openVisits(dir string, log *zap.Logger) *visits {
	return &visits{dir: dir, log: log}
}

// append puts a line into the log. Without a place to write to, the line is lost.
func (v *visits) append(line []byte) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.segment == nil || v.written+len(line) > len(v.segment) {
		if !v.next() {
			return
		}
	}
	copy(v.segment[v.written:], line)
	v.written += len(line)
	v.publish()
}

func (v *visits) publish() {
	atomic.StoreUint64((*uint64)(unsafe.Pointer(&v.segment[markBytes])), uint64(v.written))
}

// next begins a segment; false where that failed.
func (v *visits) next() bool {
	now := time.Now()
	if now.Before(v.retryAt) {
		return false
	}
	v.close()
	segment, err := v.create(now)
	if err != nil {
		v.retryAt = now.Add(openAgainAfter)
		v.log.Error("requests are not counted", zap.Error(err))
		return false
	}
	v.segment = segment
	v.written = headerBytes
	v.publish()
	return true
}

func (v *visits) create(now time.Time) ([]byte, error) {
	names, err := v.segments()
	if err != nil {
		return nil, err
	}
	for len(names) >= segmentsMax {
		if err := os.Remove(names[0]); err != nil && !os.IsNotExist(err) {
			return nil, err
		}
		names = names[1:]
	}
	// The newest sorts last, whatever the clock does.
	name := now.UnixNano()
	if len(names) > 0 {
		var last int64
		if _, err := fmt.Sscanf(filepath.Base(names[len(names)-1]), "visits-%d.log", &last); err == nil && name <= last {
			name = last + 1
		}
	}
	if name <= v.lastName {
		name = v.lastName + 1
	}
	v.lastName = name
	// Under another name until it has its header: the router must not see it without.
	path := filepath.Join(v.dir, fmt.Sprintf("visits-%020d.log", name))
	file, err := os.OpenFile(path+"~", os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	// All of it now: to run out of memory while a line is written would end this process.
	if err := syscall.Fallocate(int(file.Fd()), 0, 0, segmentBytes); err != nil {
		return nil, fmt.Errorf("room for %s: %w", path, err)
	}
	segment, err := syscall.Mmap(int(file.Fd()), 0, segmentBytes, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	copy(segment, fmt.Sprintf("svc-visits %020d", name))
	segment[markBytes-1] = '\n'
	binary.LittleEndian.PutUint64(segment[markBytes:], headerBytes)
	if err := os.Rename(path+"~", path); err != nil {
		syscall.Munmap(segment)
		return nil, err
	}
	return segment, nil
}

// segments lists what there is, oldest first.
func (v *visits) segments() ([]string, error) {
	names, err := filepath.Glob(filepath.Join(v.dir, "visits-*.log"))
	sort.Strings(names)
	return names, err
}

// Destruct ends the log; another one goes on in a file of its own.
func (v *visits) Destruct() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.close()
	return nil
}

func (v *visits) close() {
	if v.segment == nil {
		return
	}
	if err := syscall.Munmap(v.segment); err != nil {
		v.log.Error("a full file of visits stays in memory", zap.Error(err))
	}
	v.segment = nil
}
