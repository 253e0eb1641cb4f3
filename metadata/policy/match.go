package policy

import (
	"errors"
	"fmt"
	"strings"

	"github.com/dlclark/regexp2"
)

// MatchTimeout limits one match, in nanoseconds: a pattern that backtracks for longer is not let near the queues.
const MatchTimeout = 50_000_000

// ErrTimeout: matching a name took longer than MatchTimeout.
var ErrTimeout = errors.New("policy: the pattern takes too long to match")

// Matcher is a compiled pattern. It may be used by several goroutines at once.
type Matcher struct{ re *regexp2.Regexp }

// NewMatcher compiles a pattern; it is searched in the name, not anchored (reference M1). The error is a *ValidationError
// with PCRE's words for the usual mistakes.
func NewMatcher(pattern string) (*Matcher, error) {
	re, err := compilePattern(pattern)
	if err != nil {
		return nil, patternError(pattern, err)
	}
	re.MatchTimeout = MatchTimeout
	return &Matcher{re}, nil
}

func compilePattern(pattern string) (*regexp2.Regexp, error) {
	return regexp2.Compile(pattern, regexp2.None)
}

// Match says whether the pattern is found in the name. ErrTimeout if that takes too long.
func (m *Matcher) Match(name string) (bool, error) {
	ok, err := m.re.MatchString(name)
	if err != nil {
		return false, fmt.Errorf("%w: %q on %q", ErrTimeout, m.re.String(), name)
	}
	return ok, nil
}

const patternText = "pattern should be regular expression but is invalid: "

// patternError words an error of the regular expression compiler as RabbitMQ prints PCRE's: {"text",Offset}, broken after
// 80 columns as Erlang's ~p does.
func patternError(pattern string, err error) error {
	text, offset := pcreText(pattern, err)
	tuple := fmt.Sprintf("{%s,%d}", quote(text), offset)
	if len(patternText)+len(tuple) > 80 {
		tuple = fmt.Sprintf("{%s,\n%*s%d}", quote(text), len(patternText)+1, "", offset)
	}
	return refuse("%s", patternText+tuple)
}

func pcreText(pattern string, err error) (text string, offset int) {
	msg := err.Error()
	switch {
	case strings.Contains(msg, "missing closing )"):
		return "missing )", len(pattern)
	case strings.Contains(msg, "unterminated []"):
		return "missing terminating ] for character class", len(pattern)
	case strings.Contains(msg, "missing argument to repetition operator"), strings.Contains(msg, "invalid nested repetition"):
		return "nothing to repeat", firstBad(pattern)
	case strings.Contains(msg, "unexpected )"):
		return "unmatched parentheses", firstBad(pattern)
	case strings.Contains(msg, "illegal \\ at end"):
		return "\\ at end of pattern", len(pattern)
	}
	if _, reason, ok := strings.Cut(msg, "error parsing regexp: "); ok {
		msg, _, _ = strings.Cut(reason, " in `")
	}
	return msg, firstBad(pattern)
}

// firstBad is the offset of the character with which the pattern becomes one that cannot be completed.
func firstBad(pattern string) int {
	_, whole := regexp2.Compile(pattern, regexp2.None)
	for i := range pattern {
		_, err := regexp2.Compile(pattern[:i+1], regexp2.None)
		if err != nil && whole != nil && reason(err) == reason(whole) {
			return i
		}
	}
	return len(pattern)
}

func reason(err error) string {
	msg, _, _ := strings.Cut(err.Error(), " in `")
	return msg
}

// Rule is a policy as Choose sees it.
type Rule struct {
	Name     string
	Matcher  *Matcher
	ApplyTo  ApplyTo
	Priority int64
}

// Sort brings rules into the order in which Choose tries them: highest priority first, ties by name.
func Sort(rules []Rule) {
	sortRules(rules)
}

// Choose is the first of the sorted rules that applies to the kind (ApplyToQueues or ApplyToExchanges) and matches the
// name (metadata.md, Effective policy). ok is false if none does. ErrTimeout names the rule that took too long.
func Choose(rules []Rule, kind ApplyTo, name string) (chosen string, ok bool, err error) {
	for _, r := range rules {
		if r.ApplyTo != ApplyToAll && r.ApplyTo != kind {
			continue
		}
		hit, err := r.Matcher.Match(name)
		if err != nil {
			return "", false, fmt.Errorf("policy '%s': %w", r.Name, err)
		}
		if hit {
			return r.Name, true, nil
		}
	}
	return "", false, nil
}
