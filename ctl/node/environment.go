package node

import (
	"context"

	"warren/ctl/admin"
)

// Environment implements admin.Node.
func (a *adapter) Environment(context.Context) (out []admin.ParameterInfo, _ error) {
	c := *a.cfg.Config
	c.MemoryLimit, c.DiskFree = a.n.Limits()
	c.LogLevel = a.cfg.LogLevel.Level()
	for _, s := range c.Settings() {
		out = append(out, admin.ParameterInfo{Name: s.Key, Value: s.Value})
	}
	return out, nil
}
