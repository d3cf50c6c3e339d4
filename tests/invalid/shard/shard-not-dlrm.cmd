$STEPCAST shard configs/examples/gpt-22b-selene.yaml
