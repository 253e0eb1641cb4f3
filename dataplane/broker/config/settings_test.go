package config

import (
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// checkSettings: the settings of c are a file that reads as c, but for the passwords, which it does not have.
func checkSettings(t *testing.T, c *Config) {
	t.Helper()
	var lines []string
	for _, s := range c.Settings() {
		lines = append(lines, s.String())
	}
	text := strings.Join(lines, "\n")
	again, warnings, err := Parse("settings", []byte(text))
	if err != nil || len(warnings) > 0 {
		t.Fatalf("error %v, warnings %v, of\n%s", err, warnings, text)
	}
	want := *c
	for _, x := range []*Config{&want, again} {
		x.DefaultPassword = ""
		x.ClientTLS.Password = ""
		x.LoopbackUsers = append([]string{}, x.LoopbackUsers...)
	}
	if !reflect.DeepEqual(*again, want) {
		t.Errorf("the settings\n%s\nread as\n%+v\nnot\n%+v", text, *again, want)
	}
}

func TestSettings(t *testing.T) {
	c := Default()
	c.DefaultPassword, c.ClientTLS.Password = "not-to-be-seen", "nor-this"
	c.DefaultUser, c.LogLevel = "on # call", slog.LevelError+100
	var lines []string
	for _, s := range c.Settings() {
		lines = append(lines, s.String())
	}
	for _, want := range []string{
		"listeners.tcp.1 = 5672", "listeners.ssl = none", "connection_max = infinity", "default_pass = (hidden)", "ssl_options.password = (hidden)",
		"ssl_options.versions.1 = tlsv1.3", "ssl_options.versions.2 = tlsv1.2", "default_user_tags.administrator = true", "loopback_users.guest = true",
		"default_user = 'on # call'", "log.level = none", "warren.mirror_replacement_delay = 60s", "warren.heartbeat_interval = 500ms",
	} {
		if !slices.Contains(lines, want) {
			t.Errorf("no %q in\n%s", want, strings.Join(lines, "\n"))
		}
	}
	if text := strings.Join(lines, "\n"); strings.Contains(text, "not-to-be-seen") || strings.Contains(text, "nor-this") {
		t.Errorf("a password is shown:\n%s", text)
	}
}
