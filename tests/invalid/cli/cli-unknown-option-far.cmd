"$STEPCAST" predict --zzzzzzzz configs/examples/gpt-22b-selene.yaml
