package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"warren/ctl/admin"
	"warren/ctl/command"
)

// readDefinitions reads the file of definitions that the configuration names, or all files of that directory whose names end in
// .json, in the order of their names. An empty path has none.
func readDefinitions(path string) (all []admin.Definition, err error) {
	if path == "" {
		return nil, nil
	}
	files := []string{path}
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("load_definitions: %w", err)
	}
	if info.IsDir() {
		if files, err = filepath.Glob(filepath.Join(path, "*.json")); err != nil {
			return nil, fmt.Errorf("load_definitions: %w", err)
		}
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("load_definitions: %w", err)
		}
		some, err := command.ParseDefinitions(text)
		if err != nil {
			return nil, fmt.Errorf("load_definitions: %s: %w", file, err)
		}
		all = append(all, some...)
	}
	return all, nil
}

// loadDefinitions imports definitions once this node serves clients. What the cluster refuses is an error; while the cluster
// cannot take them, it is tried again until ctx ends, which is no error.
func (a *adapter) loadDefinitions(ctx context.Context, all []admin.Definition) error {
	if len(all) == 0 {
		return nil
	}
	pause := 50 * time.Millisecond
	for {
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil
		}
		if !a.n.Serving() {
			continue
		}
		err := a.ImportDefinitions(ctx, all)
		var refused *admin.Error
		switch {
		case err == nil:
			a.cfg.Log.Info("definitions were imported", "node", a.cfg.Node, "objects", len(all))
			return nil
		case ctx.Err() != nil:
			return nil
		case errors.As(err, &refused) && refused.Code != admin.CodeUnavailable:
			return fmt.Errorf("import the definitions that load_definitions names: %w", err)
		}
		pause = time.Second
		a.cfg.Log.Warn("the cluster cannot take the definitions at present; they are imported later", "node", a.cfg.Node, "error", err)
	}
}
