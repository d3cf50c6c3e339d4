"$STEPCAST" predict configs/examples/gpt-22b-selene.yaml --set sharding.planner=greedy
