$STEPCAST import -o run
