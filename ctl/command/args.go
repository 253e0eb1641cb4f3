package command

import (
	"math/big"
	"strings"
)

// flagKind says what a flag takes.
type flagKind uint8

const (
	flagBool flagKind = iota + 1
	flagText
	flagInteger
)

// flag is one option of a tool. Its long form is --NAME, with _ and - alike; short is its letter or 0.
type flag struct {
	name  string
	short byte
	kind  flagKind
}

// generalFlags are accepted by all commands.
func generalFlags() []flag {
	return []flag{
		{"node", 'n', flagText},
		{"quiet", 'q', flagBool},
		{"silent", 's', flagBool},
		{"timeout", 't', flagInteger},
		{"longnames", 'l', flagBool},
		{"vhost", 'p', flagText},
		{"formatter", 0, flagText},
		{"table-headers", 0, flagBool}, // --no-table-headers
		{"dry-run", 0, flagBool},
		{"help", '?', flagBool},
		{"version", 0, flagBool},
		{"print-stacktrace", 0, flagBool},
		// Ours.
		{"address", 0, flagText},
		{"cookie-file", 0, flagText},
		{"tls-cacertfile", 0, flagText},
		{"tls-certfile", 0, flagText},
		{"tls-keyfile", 0, flagText},
	}
}

// parsed is a command line taken apart. Flags may stand anywhere before "--".
type parsed struct {
	text    map[string]string // of flagText and flagInteger
	set     map[string]bool   // of flagBool
	args    []string
	invalid []badFlag
}

// badFlag is a flag that is unknown or has a wrong value, as it was typed.
type badFlag struct{ name, value string }

// parse takes argv apart by the rules of RabbitMQ's tools (Elixir's OptionParser): --flag value, --flag=value, -f value,
// --no-flag for a boolean one; a value does not begin with "-" unless it is a negative number.
func parse(argv []string, flags []flag) parsed {
	p := parsed{text: map[string]string{}, set: map[string]bool{}}
	for i := 0; i < len(argv); i++ {
		arg := argv[i]
		if arg == "--" {
			p.args = append(p.args, argv[i+1:]...)
			break
		}
		if len(arg) < 2 || arg[0] != '-' || isNegativeNumber(arg) {
			p.args = append(p.args, arg)
			continue
		}
		typed, value, hasValue := strings.Cut(arg, "=")
		f, on, known := find(flags, typed)
		switch {
		case !known:
			p.invalid = append(p.invalid, badFlag{typed, value})
		case f.kind == flagBool:
			p.boolean(f, on, typed, value, hasValue)
		default:
			if !hasValue && i+1 < len(argv) && isValue(argv[i+1]) {
				i++
				value, hasValue = argv[i], true
			}
			if !hasValue || f.kind == flagInteger && !isInteger(value) {
				p.invalid = append(p.invalid, badFlag{typed, value})
				continue
			}
			p.text[f.name] = value
		}
	}
	return p
}

func (p *parsed) boolean(f flag, on bool, typed, value string, hasValue bool) {
	switch {
	case !hasValue:
		p.set[f.name] = on
	case value == "true" || value == "false":
		p.set[f.name] = on == (value == "true")
	default:
		p.invalid = append(p.invalid, badFlag{typed, value})
	}
}

// find looks a flag up as it was typed; on is false for the --no- form.
func find(flags []flag, typed string) (f flag, on, known bool) {
	long, isLong := strings.CutPrefix(typed, "--")
	long = strings.ReplaceAll(long, "_", "-")
	for _, f := range flags {
		switch {
		case isLong && long == f.name:
			return f, true, true
		case isLong && f.kind == flagBool && long == "no-"+f.name:
			return f, false, true
		case !isLong && len(typed) == 2 && f.short != 0 && typed[1] == f.short:
			return f, true, true
		}
	}
	return flag{}, false, false
}

func isValue(arg string) bool {
	return len(arg) < 2 || arg[0] != '-' || isNegativeNumber(arg)
}

func isNegativeNumber(arg string) bool {
	return len(arg) > 1 && arg[0] == '-' && arg[1] >= '0' && arg[1] <= '9'
}

func isInteger(s string) bool {
	_, ok := new(big.Int).SetString(s, 10)
	return ok
}

// columns splits the names of columns: "name,messages" is "name messages"; repeated ones count once.
func columns(args []string) []string {
	var names []string
	seen := map[string]bool{}
	for _, arg := range args {
		for name := range strings.SplitSeq(arg, ",") {
			if name = strings.TrimSpace(name); name != "" && !seen[name] {
				seen[name] = true
				names = append(names, name)
			}
		}
	}
	return names
}
