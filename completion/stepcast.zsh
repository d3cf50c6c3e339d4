#compdef stepcast
# zsh completion of stepcast, made by: stepcast --completion zsh
_stepcast() {
	local -a found after
	found=(${(f)"$(stepcast --complete "${(@)words[2,CURRENT]}" 2>/dev/null)"})
	(( $#found )) || { _files; return }
	[[ ${found[1]%%$'\t'*} != *= ]] || after=(-S '')
	found=("${(@)${(@)found//:/\\:}/$'\t'/:}")
	_describe stepcast found $after
}
if [ "$funcstack[1]" = _stepcast ]; then
	_stepcast "$@"
else
	compdef _stepcast stepcast
fi
