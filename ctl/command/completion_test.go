package command

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"warren/ctl/admin"
)

func TestAutocomplete(t *testing.T) {
	s := newSession(t)
	s.run("rabbitmqctl", "autocomplete", "set_per").want(t, exitOK, "set_permissions\n", "")
	s.run("rabbitmqctl", "autocomplete", "--", "-q", "list_queues", "--o").want(t, exitOK, "--offline\n--online\n", "")
	s.run("rabbitmqctl", "autocomplete", "--", "help", "clear_pol").want(t, exitOK, "clear_policy\n", "")
	s.run("rabbitmqctl", "autocomplete", "--", "list_queues", "na").want(t, exitOK, "", "")
	terminal(t, nil, nil, "completion", "fish").want(t, exitUsage, "", `no completion for the shell "fish"`)
	for _, shell := range []string{"bash", "zsh"} {
		r := terminal(t, nil, nil, "completion", shell)
		if r.status != exitOK || !strings.Contains(r.stdout, "autocomplete") {
			t.Errorf("%s: %+v", shell, r)
		}
		for _, want := range []string{" client ", " completion ", "ctl|queues|diagnostics|upgrade"} {
			if !strings.Contains(r.stdout, want) {
				t.Errorf("%s: its script does not know %q:\n%s", shell, want, r.stdout)
			}
		}
		if _, err := exec.LookPath(shell); err != nil {
			continue
		}
		check := exec.Command(shell, "-n")
		check.Stdin = strings.NewReader(r.stdout)
		if out, err := check.CombinedOutput(); err != nil {
			t.Errorf("%s does not take its script: %v\n%s", shell, err, out)
		}
	}
}

func TestNoColour(t *testing.T) {
	r := terminal(t, map[string]string{"NO_COLOR": "1"}, nil, "ctl", "help")
	if r.status != exitOK || strings.Contains(r.stdout, "\x1b") || !strings.Contains(r.stdout, "Usage") {
		t.Errorf("%q", r.stdout)
	}
}

func TestProgressBar(t *testing.T) {
	got := bar("messages", 500, 2000, time.Second)
	if want := "[#######                       ] 500 of 2000 messages, 500/s, about 3s left"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	q := admin.QueueInfo{Syncing: 300, SyncToGo: 900, SyncRate: 100, SyncTimeToGo: 9}
	if got, want := syncBar(q), "[#######                       ] 300 of 1200 messages, 100/s, about 9s left"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := bar("messages", 0, 0, 0); !strings.HasPrefix(got, "[##") {
		t.Errorf("nothing to do: %q", got)
	}
}
