package integration

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	maxFileLines     = 600
	maxFunctionLines = 70
)

// listedPackage is the part of `go list -json` that the import rules need.
type listedPackage struct {
	ImportPath string
	Imports    []string
	GoFiles    []string
}

func listPackages(t *testing.T) []listedPackage {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports,GoFiles", "./...")
	cmd.Dir = ".."
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var pkgs []listedPackage
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listedPackage
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return pkgs
		} else if err != nil {
			t.Fatalf("decode go list: %v", err)
		}
		pkgs = append(pkgs, p)
	}
}

func under(path, dir string) bool { return path == dir || strings.HasPrefix(path, dir+"/") }

// forbidden names the import edges that the design does not allow; the empty string means that the edge is fine.
func forbidden(from, to string) string {
	pure := []string{
		"warren/dataplane/gm", "warren/metadata/state", "warren/metadata/policy", "warren/metadata/placement",
		"warren/dataplane/exchange",
	}
	impure := []string{"net", "os", "time", "sync", "math/rand", "math/rand/v2", "log", "log/slog"}
	switch {
	case slices.Contains(pure, from) && slices.Contains(impure, to):
		return "a pure core does no I/O and reads no clock"
	case under(to, "warren/bench") && !under(from, "warren/bench") || under(to, "warren/integration") && !under(from, "warren/integration"):
		return "nobody imports bench or integration"
	case under(from, "warren/metadata") && (under(to, "warren/dataplane") || under(to, "warren/ctl")):
		return "the metadata plane knows neither the data plane nor the tools"
	case under(from, "warren/dataplane") && under(to, "warren/ctl"):
		return "the data plane does not know the tools"
	case under(from, "warren/dataplane") && !under(from, "warren/dataplane/broker") &&
		under(to, "warren/metadata") && to != "warren/metadata/state":
		return "of the metadata plane the data plane sees only state's types; broker alone sees all"
	case !under(from, "warren/dataplane/broker") && under(from, "warren/dataplane") && under(to, "warren/dataplane/broker"):
		return "broker stands on top of the data plane"
	case from == "warren/metadata/state" && under(to, "warren") && to != "warren/metadata/policy" && to != "warren/metadata/placement":
		return "state imports policy, placement, msgpack and nothing else"
	}
	return ""
}

func TestImportEdges(t *testing.T) {
	pkgs := listPackages(t)
	if len(pkgs) == 0 {
		t.Fatal("go list names no package")
	}
	for _, p := range pkgs {
		for _, to := range p.Imports {
			if why := forbidden(p.ImportPath, to); why != "" {
				t.Errorf("%s imports %s: %s", p.ImportPath, to, why)
			}
		}
	}
}

func TestForbiddenEdgesAreSeen(t *testing.T) {
	for _, e := range [][2]string{
		{"warren/dataplane/gm", "time"},
		{"warren/metadata/raftstore", "warren/dataplane/link"},
		{"warren/dataplane/mirror", "warren/metadata/raftstore"},
		{"warren/ctl/command", "warren/bench"},
		{"warren/dataplane/link", "warren/dataplane/broker"},
	} {
		if forbidden(e[0], e[1]) == "" {
			t.Errorf("edge %s → %s passes", e[0], e[1])
		}
	}
	if why := forbidden("warren/dataplane/broker", "warren/metadata/raftstore"); why != "" {
		t.Errorf("broker may import raftstore, got %q", why)
	}
}

// goFiles walks the module's own Go files.
func goFiles(t *testing.T, visit func(path string, src []byte)) {
	t.Helper()
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (strings.HasPrefix(d.Name(), ".") && d.Name() != "..") {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(path, ".go") {
			return nil
		}
		src, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		visit(path, src)
		return nil
	})
	if err != nil {
		t.Fatalf("walk the module: %v", err)
	}
}

// What a peer or a tool sent is decoded by link.Unmarshal, which believes no length that it claims.
func TestClaimsAreNotBelieved(t *testing.T) {
	goFiles(t, func(path string, src []byte) {
		if !strings.HasSuffix(path, "_test.go") && bytes.Contains(src, []byte("= msgpack.Unmarshal(")) {
			t.Errorf("%s decodes with msgpack.Unmarshal", path)
		}
	})
}

func generated(src []byte) bool {
	line, _ := bufio.NewReader(bytes.NewReader(src)).ReadString('\n')
	return strings.HasPrefix(line, "// Code generated ")
}

func TestSizes(t *testing.T) {
	goFiles(t, func(path string, src []byte) {
		if generated(src) {
			return
		}
		if n := bytes.Count(src, []byte{'\n'}); n > maxFileLines {
			t.Errorf("%s has %d lines, more than %d: does it hold two things?", path, n, maxFileLines)
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, path, src, 0)
		if err != nil {
			t.Errorf("parse %s: %v", path, err)
			return
		}
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			first, last := fset.Position(fn.Pos()).Line, fset.Position(fn.End()).Line
			if n := last - first + 1; n > maxFunctionLines && !isTable(fn) {
				t.Errorf("%s:%d: function %s has %d lines, more than %d", path, first, fn.Name.Name, n, maxFunctionLines)
			}
		}
	})
}

// isTable says whether most of a function's lines are one composite literal: a table of cases is read, not followed.
func isTable(fn *ast.FuncDecl) bool {
	if fn.Body == nil {
		return false
	}
	whole, largest := fn.End()-fn.Pos(), token.Pos(0)
	ast.Inspect(fn.Body, func(n ast.Node) bool {
		if lit, ok := n.(*ast.CompositeLit); ok {
			largest = max(largest, lit.End()-lit.Pos())
		}
		return true
	})
	return largest*10 > whole*6
}

func TestEveryPackageIsDocumented(t *testing.T) {
	for _, p := range listPackages(t) {
		dir := filepath.Join("..", filepath.FromSlash(strings.TrimPrefix(p.ImportPath, "warren/")))
		documented := false
		for _, name := range p.GoFiles {
			f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, name), nil, parser.ParseComments|parser.PackageClauseOnly)
			if err != nil {
				t.Fatalf("parse %s: %v", name, err)
			}
			documented = documented || f.Doc != nil
		}
		if !documented && len(p.GoFiles) > 0 {
			t.Errorf("package %s has no package documentation", p.ImportPath)
		}
	}
}

func TestNoMachinePaths(t *testing.T) {
	bad := []string{"/work/" + "main", "/work/" + "shared", "proxy.golang" + ".org", "registry.npmjs" + ".org", "deb.debian" + ".org"}
	for _, name := range sources(t) {
		b, err := os.ReadFile(filepath.Join("..", name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			t.Fatal(fmt.Errorf("read %s: %w", name, err))
		}
		for _, s := range bad {
			if bytes.Contains(b, []byte(s)) {
				t.Errorf("%s names %q, which is of one machine only", name, s)
			}
		}
	}
}
