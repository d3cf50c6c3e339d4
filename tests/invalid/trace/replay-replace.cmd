"$STEPCAST" replay run --replace kernel=fast
