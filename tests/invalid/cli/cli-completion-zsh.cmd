"$STEPCAST" --completion zsh
