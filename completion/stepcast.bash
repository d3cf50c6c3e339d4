# bash completion of stepcast, made by: stepcast --completion bash
_stepcast()
{
	local word=${COMP_WORDS[COMP_CWORD]}
	mapfile -t COMPREPLY < <(stepcast --complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null | cut -f 1)
	[[ ${COMPREPLY[0]-} != *= ]] || compopt -o nospace 2>/dev/null
	[ ${#COMPREPLY[@]} -ne 0 ] || mapfile -t COMPREPLY < <(compgen -f -- "$word")
}
complete -o filenames -F _stepcast stepcast
