mkdir run && "$STEPCAST" replay run
