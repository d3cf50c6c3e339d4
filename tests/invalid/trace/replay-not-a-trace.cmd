mkdir run && echo hello >run/a.sctrace && "$STEPCAST" replay run
