package command

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// Completion of command lines in shells: the shell asks the tool ("autocomplete"), which knows its own commands and flags.

// completions are the words that may stand where prefix is being typed: names of commands, or, once there is one among the words
// before, its flags.
func (t *tool) completions(before []string, prefix string) (words []string) {
	var cmd *command
	for _, w := range before {
		if found := t.find(w); found != nil {
			cmd = found
		}
	}
	switch {
	case strings.HasPrefix(prefix, "-"):
		flags := generalFlags()
		if cmd != nil {
			flags = append(flags, cmd.flags...)
		}
		for _, f := range flags {
			words = append(words, "--"+f.name)
		}
	case cmd == nil || cmd.name == "help":
		for _, c := range t.commands {
			words = append(words, c.name)
		}
	}
	words = slices.DeleteFunc(words, func(w string) bool { return !strings.HasPrefix(w, prefix) })
	slices.Sort(words)
	return slices.Compact(words)
}

func autocompleteCommand() command {
	return command{
		name: "autocomplete", tools: allTools(), group: "Help",
		summary: "Lists the commands that begin with a prefix", usage: "[prefix] [--timeout <timeout>]", most: anyNumber,
		details: []string{"[prefix]", "what is typed so far; its last word is completed"},
		run: func(_ context.Context, c *call) error {
			prefix, before := "", c.args
			if n := len(c.args); n > 0 {
				prefix, before = c.args[n-1], c.args[:n-1]
			}
			for _, w := range c.tool.completions(before, prefix) {
				print(c.env.Stdout, w+"\n")
			}
			return nil
		},
	}
}

// COMMANDS in the scripts stands for the subcommands of warren, TOOLS for those of them that are tools.
const bashCompletion = `# Completion of warren and the tools for bash: source <(warren completion bash)
_warren() {
	local words=("${COMP_WORDS[@]:1:COMP_CWORD-1}") tool=("${COMP_WORDS[0]}")
	if [ "${COMP_WORDS[0]##*/}" = warren ]; then
		if [ "$COMP_CWORD" = 1 ]; then
			COMPREPLY=($(compgen -W "COMMANDS" -- "$2")); return
		fi
		case ${COMP_WORDS[1]} in TOOLS) ;; *) return ;; esac
		tool+=("${COMP_WORDS[1]}"); words=("${words[@]:1}")
	fi
	COMPREPLY=($("${tool[@]}" autocomplete -- "${words[@]}" "$2" 2>/dev/null))
}
complete -o default -F _warren warren rabbitmqctl rabbitmq-queues rabbitmq-diagnostics rabbitmq-upgrade
`

const zshCompletion = `#compdef warren rabbitmqctl rabbitmq-queues rabbitmq-diagnostics rabbitmq-upgrade
# Completion of warren and the tools for zsh: warren completion zsh > "${fpath[1]}/_warren"
_warren() {
	local -a tool before found
	tool=("${words[1]}"); before=("${(@)words[2,CURRENT-1]}")
	if [[ ${words[1]:t} == warren ]]; then
		if (( CURRENT == 2 )); then
			compadd COMMANDS; return
		fi
		[[ ${words[2]} == (TOOLS) ]] || return
		tool+=("${words[2]}"); before=("${(@)before[2,-1]}")
	fi
	found=("${(@f)$("${tool[@]}" autocomplete -- "${before[@]}" "${words[CURRENT]}" 2>/dev/null)}")
	compadd -a found
}
_warren "$@"
`

func completionCommand(env Env) *cli.Command {
	return &cli.Command{
		Name: "completion", Usage: "print a script that completes command lines in bash or zsh", ArgsUsage: "bash|zsh",
		Action: func(cc *cli.Context) error {
			shell := cc.Args().First()
			script, ok := map[string]string{"bash": bashCompletion, "zsh": zshCompletion}[shell]
			if !ok {
				return &cliUsageError{fmt.Sprintf("no completion for the shell %q; there are bash and zsh", shell)}
			}
			var all, tools []string
			for _, c := range cc.App.Commands {
				all = append(all, c.Name)
				if _, ok := toolNames()[c.Name]; ok {
					tools = append(tools, c.Name)
				}
			}
			fill := strings.NewReplacer("COMMANDS", strings.Join(all, " "), "TOOLS", strings.Join(tools, "|"))
			print(env.Stdout, fill.Replace(script))
			return nil
		},
	}
}
