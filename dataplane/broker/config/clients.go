package config

import (
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"
)

// none is RabbitMQ's way to set nothing of a group of keys.
func none(_ *parser, _, value string) error {
	if value != "none" {
		return fmt.Errorf("%q: only \"none\" is possible here", clip(value))
	}
	return nil
}

func flag(field func(*Config) *bool) setter {
	return func(p *parser, _, value string) error {
		on, err := parseBool(value)
		if err == nil {
			*field(p.c) = on
		}
		return err
	}
}

// secret takes a password. Values that RabbitMQ would decipher are refused: they must not become passwords as they stand.
func secret(field func(*Config) *Secret) setter {
	return func(p *parser, _, value string) error {
		if strings.HasPrefix(value, "encrypted:") {
			return errors.New("encrypted values are not supported; write the password itself, and protect the file")
		}
		*field(p.c) = Secret(value)
		return nil
	}
}

// milliseconds: a whole number of them, of at most a day.
func milliseconds(field func(*Config) *time.Duration, least time.Duration) setter {
	return func(p *parser, _, value string) error {
		const most = 24 * time.Hour
		n, err := parseUint(value, uint64(most/time.Millisecond))
		if err != nil {
			return err
		}
		d := time.Duration(n) * time.Millisecond
		if d < least {
			return fmt.Errorf("%q is less than %d milliseconds", clip(value), least/time.Millisecond)
		}
		*field(p.c) = d
		return nil
	}
}

func buffer(field func(*Config) *int) setter {
	return func(p *parser, _, value string) error {
		const most = 1 << 30
		n, err := parseUint(value, most)
		if err == nil {
			*field(p.c) = int(n)
		}
		return err
	}
}

func (p *parser) setLingerTime(_, value string) error {
	n, err := parseUint(value, 3600)
	if err == nil {
		p.c.TCP.LingerTime = time.Duration(n) * time.Second
	}
	return err
}

func (p *parser) setConnectionMax(_, value string) error {
	if value == "infinity" {
		p.c.ConnectionMax = 0
		return nil
	}
	const most = 1 << 30
	n, err := parseUint(value, most)
	if err == nil && n == 0 {
		return errors.New("0 would let nobody in; \"infinity\" sets no limit")
	}
	if err == nil {
		p.c.ConnectionMax = int(n)
	}
	return err
}

func (p *parser) setMaxMessageSize(_, value string) error {
	const most = 512 << 20 // RabbitMQ's
	n, err := parseUint(value, most)
	if err == nil && n == 0 {
		return fmt.Errorf("%q: the limit must be above 0", clip(value))
	}
	if err == nil {
		p.c.MaxMessageSize = int64(n)
	}
	return err
}

func (p *parser) setDefaultTag(tag, value string) error {
	on, err := parseBool(value)
	if err != nil {
		return err
	}
	tags := slices.DeleteFunc(slices.Clone(p.c.DefaultUserTags), func(t string) bool { return t == tag })
	if !p.tagsSet { // the first tag of a file replaces the default ones
		tags, p.tagsSet = nil, true
	}
	if on {
		tags = append(tags, tag)
	}
	sort.Strings(tags)
	p.c.DefaultUserTags = tags
	return nil
}

func (p *parser) setDefinitions(_, value string) error {
	p.c.Definitions = value
	return nil
}

func (p *parser) setDefinitionsBackend(_, value string) error {
	switch value {
	case "local_filesystem", "local", "rabbit_definitions_import_local_filesystem":
		return nil
	}
	return fmt.Errorf("%q is not supported; definitions come from a file or a directory: local_filesystem", clip(value))
}

// setSkipUnchanged: an import changes nothing that is there as the file says, whatever this key says.
func (p *parser) setSkipUnchanged(_, value string) error {
	_, err := parseBool(value)
	return err
}
