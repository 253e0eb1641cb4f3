package gmtest

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"warren/dataplane/gm/internal/mutation"
)

// mutations are the broken rules and the first seed that notices each. The package documentation shows the same table.
var mutations = []struct {
	rule mutation.Rule
	text string
	seed uint64 // 0: a script shows it
	sees string // what is violated, or the script
}{
	{mutation.ProgressAlone, "R3 without the minimum over the chain", 2, "I4"},
	{mutation.KeepWatermarks, "R3 watermarks outlive their view", 12, "I4"},
	{mutation.PersistedByOthers, "R4 the sender's own disk does not count", 4, "I4"},
	{mutation.AcceptAnybody, "R5 data is taken from anybody", 11, "rest"},
	{mutation.ResumeUnordered, "R7 the log goes out sender by sender", 11, "I3"},
	{mutation.OpenOlderStart, "R7 a Start for an older Resume opens", 5, "rest"},
	{mutation.FreshAnswers, "R7 a fresh member answers Resume", 48, "I5"},
	{mutation.KeepStarted, "R7 a new predecessor's link is started", 5, "rest"},
	{mutation.CloseWithoutToken, "R8 closing without the token", 12, "I6"},
	{mutation.CloseMinOnly, "R8 the token tested by min only", 73, "I5"},
	{mutation.OldToken, "R8 tokens outlive their view", 0, "TestScriptOldToken"},
	{mutation.ForgetAtOnce, "R8 a closed sender is forgotten at once", 2, "I6"},
	{mutation.NoRaise, "R9 a later Start raises no baseline", 636, "rest"},
	{mutation.IgnoreCredit, "R10 data goes out without credit", 12, "I7"},
	{mutation.StableOvertakes, "R10 Stable passes data without credit", 0, "TestScriptBlockedJoiner"},
	{mutation.KeepPartial, "R11 half a message outlives its link", 11, "frame"},
}

func line(rule, text string, seed uint64, sees string) string {
	at := "script"
	if seed > 0 {
		at = fmt.Sprint(seed)
	}
	return fmt.Sprintf("//\t%-18s %-40s %6s  %s", rule, text, at, sees)
}

// TestMutations proves that the checkers can fail: each broken rule is noticed at its seed, and the true rules pass there.
func TestMutations(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mutations {
		if l := line(m.rule.String(), m.text, m.seed, m.sees); !strings.Contains(string(doc), l+"\n") {
			t.Errorf("the package documentation lacks the line\n%s", l)
		}
		if m.seed == 0 {
			continue
		}
		_, err := Run(m.seed, Options{Mutation: m.rule})
		v, ok := err.(Violation)
		if !ok || v.Rule != m.sees {
			t.Errorf("%v: seed %d shows %v, want a violation of %s", m.rule, m.seed, err, m.sees)
		}
		if _, err := Run(m.seed, Options{}); err != nil {
			t.Errorf("seed %d without mutation: %v", m.seed, err)
		}
	}
}
