package node

import (
	"context"
	"fmt"
	"reflect"
	"strings"

	"warren/ctl/admin"
)

// Environment implements admin.Node: the configuration in effect, without passwords.
func (a *adapter) Environment(context.Context) (out []admin.ParameterInfo, _ error) {
	v := reflect.ValueOf(*a.cfg.Config)
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if !f.IsExported() {
			continue
		}
		value := fmt.Sprintf("%+v", v.Field(i).Interface())
		if strings.Contains(strings.ToLower(f.Name), "password") {
			value = "(hidden)"
		}
		out = append(out, admin.ParameterInfo{Name: snake(f.Name), Value: value})
	}
	return out, nil
}

// snake is a field's name as settings are written: DefaultUser is default_user.
func snake(name string) string {
	var b strings.Builder
	for i, r := range name {
		upper := r >= 'A' && r <= 'Z'
		if upper && i > 0 && name[i-1] >= 'a' && name[i-1] <= 'z' {
			b.WriteByte('_')
		}
		b.WriteRune(r)
	}
	return strings.ToLower(b.String())
}
