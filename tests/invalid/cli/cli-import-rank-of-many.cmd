$STEPCAST import a.json b.json -o run --rank 3
