$STEPCAST import trace.json
