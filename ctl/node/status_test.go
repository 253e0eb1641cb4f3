package node

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"warren/ctl/admin"
)

func TestOpenFiles(t *testing.T) {
	dir := t.TempDir()
	for name, to := range map[string]string{"0": "/dev/null", "1": "socket:[17]", "2": "socket:[18]", "3": "pipe:[19]"} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if files, sockets := openFiles(dir); files != 4 || sockets != 2 {
		t.Errorf("got %d files, %d sockets", files, sockets)
	}
	if files, sockets := openFiles(filepath.Join(dir, "none")); files != 0 || sockets != 0 {
		t.Errorf("without /proc: got %d files, %d sockets", files, sockets)
	}
}

// What RabbitMQ exports of a single virtual host does not say of which.
func TestDefinitionsWithoutVirtualHost(t *testing.T) {
	for _, section := range []string{admin.SectionPermissions, admin.SectionPolicies, admin.SectionQueues, admin.SectionBindings} {
		_, err := (&adapter{}).commandsOf(admin.Definition{Section: section, JSON: `{"name":"q"}`})
		if admin.CodeOf(err) != admin.CodeValidation || !strings.Contains(err.Error(), section+`: no vhost in {"name":"q"}`) {
			t.Errorf("%s: %v", section, err)
		}
	}
	if _, err := (&adapter{}).commandsOf(admin.Definition{Section: "of another product", JSON: `[]`}); err != nil {
		t.Errorf("a section that means nothing: %v", err)
	}
}
