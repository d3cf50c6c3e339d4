echo '{"traceEvents": 3}' >bad.json
$STEPCAST import bad.json -o run
