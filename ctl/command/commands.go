package command

// Names of the tools.
const (
	toolCtl         = "rabbitmqctl"
	toolQueues      = "rabbitmq-queues"
	toolDiagnostics = "rabbitmq-diagnostics"
	toolUpgrade     = "rabbitmq-upgrade"
)

// toolNames maps subcommands of warren to the tools that they are.
func toolNames() map[string]string {
	return map[string]string{"ctl": toolCtl, "queues": toolQueues, "diagnostics": toolDiagnostics, "upgrade": toolUpgrade}
}

// commands is the table of all commands of all tools, in the order of the help.
func commands() []command {
	all := []command{
		autocompleteCommand(), helpCommand(), versionCommand(),
		awaitStartupCommand(), stopCommand(),
		awaitOnlineNodesCommand(), clusterStatusCommand(),
		listVHostsCommand(),
		clearPolicyCommand(operatorPolicies()), clearPolicyCommand(userPolicies()), listPoliciesCommand(operatorPolicies()),
		listPoliciesCommand(userPolicies()), setPolicyCommand(operatorPolicies()), setPolicyCommand(userPolicies()),
		deleteQueueCommand(), listQueuesCommand(), purgeQueueCommand(),
		promoteCommand(), rebalanceCommand(), salvageCommand(), transferCommand(),
		cancelSyncQueueCommand(), syncQueueCommand(),
		listBindingsCommand(), listExchangesCommand(),
		pingCommand(), statusCommand(),
	}
	for _, family := range [][]command{
		userCommands(), permissionCommands(), vhostCommands(), limitCommands(), parameterCommands(),
		membershipCommands(), upgradeCommands(),
		clientCommands(), definitionCommands(), diagnosticCommands(), logCommands(), processCommands(), loginCommands(), runtimeCommands(),
		quorumCommands(), clusterInfoCommands(), ringCommands(), absentCommands(),
	} {
		all = append(all, family...)
	}
	return all
}

// newTool is the tool called name, run as script.
func newTool(name, script string) *tool {
	t := &tool{script: script, name: name}
	for _, cmd := range commands() {
		for _, in := range cmd.tools {
			if in == name {
				t.commands = append(t.commands, cmd)
			}
		}
	}
	return t
}

func allTools() []string { return []string{toolCtl, toolQueues, toolDiagnostics, toolUpgrade} }
