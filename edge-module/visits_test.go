package edge

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"go.uber.org/zap"
)

// wholeLines reads a file as the router does.
func wholeLines(t *testing.T, path string) [][]byte {
	t.Helper()
	all, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	whole := binary.LittleEndian.Uint64(all[markBytes:])
	return bytes.SplitAfter(bytes.TrimSuffix(all[headerBytes:whole], []byte("\n")), []byte("\n"))
}

func TestVisitsOfManyAreAllThere(t *testing.T) {
	log := openVisits(t.TempDir(), zap.NewNop())
	const writers, each = 8, 10_000
	var done sync.WaitGroup
	for writer := 0; writer < writers; writer++ {
		done.Add(1)
		go func(writer int) {
			defer done.Done()
			for n := 0; n < each; n++ {
				log.append([]byte(fmt.Sprintf("%d %0100d\n", writer, n)))
			}
		}(writer)
	}
	done.Wait()
	names, _ := log.segments()
	if len(names) < 2 {
		t.Fatalf("%d files", len(names))
	}
	seen := map[string]bool{}
	for _, name := range names {
		for _, line := range wholeLines(t, name) {
			seen[string(bytes.TrimSpace(line))] = true
		}
	}
	if len(seen) != writers*each {
		t.Errorf("%d lines", len(seen))
	}
}

func TestVisitsStartAgainBehindWhatIsThere(t *testing.T) {
	dir := t.TempDir()
	later := filepath.Join(dir, "visits-09000000000000000000.log")
	if err := os.WriteFile(later, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	log := openVisits(dir, zap.NewNop())
	log.append([]byte("line\n"))
	names, _ := log.segments()
	if len(names) != 2 || names[0] != later {
		t.Errorf("%v", names)
	}
}

func TestVisitsKeepABoundedNumberOfFiles(t *testing.T) {
	dir := t.TempDir()
	for n := 0; n < segmentsMax+3; n++ {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("visits-%020d.log", n)), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	log := openVisits(dir, zap.NewNop())
	log.append([]byte("line\n"))
	names, _ := log.segments()
	if len(names) != segmentsMax || filepath.Base(names[0]) != fmt.Sprintf("visits-%020d.log", 4) {
		t.Errorf("%d files from %s on", len(names), names[0])
	}
}

func TestVisitsWithoutAPlaceLoseLinesOnly(t *testing.T) {
	log := openVisits(filepath.Join(t.TempDir(), "absent"), zap.NewNop())
	log.append([]byte("line\n"))
	log.append([]byte("line\n"))
}
