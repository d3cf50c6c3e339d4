$STEPCAST import a.json b.json -o run --mate c.json
