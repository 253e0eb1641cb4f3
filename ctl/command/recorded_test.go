package command

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"warren/ctl/transcript"
)

func TestMain(m *testing.M) {
	if os.Getenv(nodeProcess) != "" && len(os.Args) > 1 && os.Args[1] == "server" {
		os.Exit(runNodeProcess())
	}
	goleak.VerifyTestMain(m)
}

// TestRecorded runs the recorded commands against a node in the same state and compares output and exit status.
func TestRecorded(t *testing.T) {
	files, err := filepath.Glob("testdata/recorded/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			s := &session{t: t, node: recordedState(filepath.Base(file))}
			recorded, err := transcript.Read(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range recorded {
				s.nodeName = want.Node + "@localhost"
				got := s.run(transcript.Words(want.Text)...)
				normal := func(text string) string { return transcript.Normal(want.Text, text) }
				if normal(got.stdout) != normal(want.Stdout) || normal(got.stderr) != normal(want.Stderr) || got.status != want.Status {
					t.Errorf("%s:%d: %s\n--- got stdout\n%s--- want stdout\n%s--- got stderr\n%s--- want stderr\n%s--- got exit %d, want %d",
						file, want.Line, want.Text, got.stdout, want.Stdout, got.stderr, want.Stderr, got.status, want.Status)
				}
			}
		})
	}
}
