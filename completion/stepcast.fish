# fish completion of stepcast, made by: stepcast --completion fish
function __stepcast
	stepcast --complete (commandline -opc)[2..-1] (commandline -ct) 2>/dev/null
end
complete -c stepcast -f -a '(__stepcast)'
complete -c stepcast -n 'not count (__stepcast) >/dev/null' -F
