$STEPCAST search configs/examples/gpt-22b-selene.yaml --fix parallel.cp=1 --fix parallel.ep=1 --fix parallel.virtual_stages=1 --fix parallel.sharding=none
